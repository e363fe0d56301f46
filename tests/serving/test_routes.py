"""The routes in this process: the whole HTTP contract that needs no Ray."""

import asyncio
import json
import threading
import time
from typing import Any

import pytest
from starlette.testclient import TestClient

from registry.bundle import VersionRef
from registry.contract import Encoded
from serving.door import Door
from serving.edge import digest_of_key
from serving.errors import unavailable
from serving.messages import Scored
from serving.openapi import EXAMPLES
from serving.params import ServeParams
from tests.serving.inprocess import Canary, answers, client, never, scored

JSON = {"content-type": "application/json"}


def assert_error(response: Any, status: int, kind: str) -> dict[str, Any]:
    """Every error has one shape, and names its request."""
    assert response.status_code == status, response.text
    body = response.json()
    assert body.keys() == {"error", "request_id"}
    assert body["error"].keys() == {"type", "message", "field"}
    assert body["error"]["type"] == kind
    assert body["request_id"]
    return dict(body["error"])


def test_one_text_is_answered_with_a_named_calibrated_prediction(tiny_version: VersionRef) -> None:
    with client(tiny_version) as ask:
        response = ask.post("/predict", json={"text": "good film"})
    assert response.status_code == 200
    body = response.json()
    assert body["model"] == {"name": "tiny", "version": "1", "digest": tiny_version.digest}
    (prediction,) = body["predictions"]
    assert prediction.keys() == {"label", "score", "scores", "truncated"}
    assert sum(prediction["scores"].values()) == pytest.approx(1, abs=1e-6)


def test_a_list_is_answered_in_order(tiny_version: VersionRef) -> None:
    async def slow_first(encoded: Encoded) -> Scored:
        await asyncio.sleep(0.2 / len(encoded.ids))
        return scored(encoded)

    texts = ["good", "good film", "good film was", "good film was a"]
    with client(tiny_version, slow_first) as ask:
        response = ask.post("/predict", json={"texts": texts})
        alone = [ask.post("/predict", json={"text": text}).json()["predictions"][0] for text in texts]
    assert response.json()["predictions"] == alone
    assert len({json.dumps(one) for one in alone}) == 4


def test_headers_say_who_answered_and_where_the_time_went(tiny_version: VersionRef) -> None:
    async def two_replicas(encoded: Encoded) -> Scored:
        return scored(encoded, replica=f"r{len(encoded.ids) % 2}")

    waits: list[float] = []
    with client(tiny_version, two_replicas, told_wait=waits.append) as ask:
        headers = ask.post("/predict", json={"texts": ["good", "good film"]}).headers
    assert headers["x-model-version"] == "1"
    assert headers["x-served-by"] == "r0,r1"
    assert headers["x-request-id"]
    parts = [part.strip() for part in headers["server-timing"].split(",")]
    assert [part.split(";")[0] for part in parts] == ["queue", "tokenize", "forward", "padding", "batch"]
    assert parts[0] == f"queue;dur={waits[0]:.1f}"
    assert parts[2:] == ["forward;dur=2.0", 'padding;desc="0.25"', 'batch;desc="7"']


def test_errors_share_one_shape_from_the_router_on(tiny_version: VersionRef) -> None:
    with client(tiny_version) as ask:
        assert_error(ask.get("/nope"), 404, "not_found")
        assert_error(ask.get("/page/nope.js"), 404, "not_found")
        not_allowed = ask.get("/predict")
        assert_error(not_allowed, 405, "method_not_allowed")
        assert not_allowed.headers["allow"] == "POST"
        assert_error(ask.post("/health"), 405, "method_not_allowed")
        assert_error(ask.post("/predict", content=b"{", headers=JSON), 400, "not_json")
        assert_error(ask.get("/%ff%0d%0a"), 404, "not_found")


def test_s01_a_lone_surrogate_anywhere_is_a_400_in_valid_utf8(tiny_version: VersionRef) -> None:
    with client(tiny_version) as ask:
        for body in (b'{"text": "\\ud83d"}', b'{"texts": "\\ud83d"}', b'{"text": "a", "x\\ud83d": "\\ud83d"}'):
            response = ask.post("/predict", content=body, headers=JSON)
            assert_error(response, 400, "lone_surrogate")
            response.content.decode("utf-8")


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ('Application/JSON;charset="UTF-8"', 200),
        ("application/json; charset=utf-16", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("", 415),
    ],
)
def test_only_utf8_json_is_taken(tiny_version: VersionRef, content_type: str, status: int) -> None:
    with client(tiny_version) as ask:
        headers = {"content-type": content_type} if content_type else {}
        assert ask.post("/predict", content=b'{"text": "a"}', headers=headers).status_code == status


def test_a_compressed_body_is_refused_and_not_misread(tiny_version: VersionRef) -> None:
    with client(tiny_version) as ask:
        response = ask.post("/predict", content=b"\x1f\x8b", headers={**JSON, "content-encoding": "gzip"})
        assert_error(response, 415, "content_encoding")


def test_s15_an_oversize_body_is_refused_before_it_is_read_whole(tiny_version: VersionRef) -> None:
    params = ServeParams(max_body_bytes=2048)
    sent = 0

    def chunks() -> Any:
        nonlocal sent
        for _ in range(1000):
            sent += 1024
            yield b"x" * 1024

    with client(tiny_version, params=params) as ask:
        just = b'{"text": "' + b"a" * 2036 + b'"}'
        assert len(just) == 2048
        assert ask.post("/predict", content=just, headers=JSON).status_code == 200
        assert_error(ask.post("/predict", content=just + b" ", headers=JSON), 413, "body_too_large")
        assert_error(ask.post("/predict", content=chunks(), headers=JSON), 413, "body_too_large")


def test_s16_a_list_above_the_limit_is_a_413(tiny_version: VersionRef) -> None:
    with client(tiny_version, params=ServeParams(max_texts=3)) as ask:
        assert ask.post("/predict", json={"texts": ["a"] * 3}).status_code == 200
        error = assert_error(ask.post("/predict", json={"texts": ["a"] * 4}), 413, "too_many_texts")
        assert error["field"] == "texts"


def test_s15_a_long_text_is_cut_and_flagged_alone_and_in_a_list(tiny_version: VersionRef) -> None:
    # 2 special tokens, one token a word, max_tokens 32
    texts = [" ".join(["good"] * words) for words in (29, 30, 31, 300)]
    with client(tiny_version) as ask:
        listed = [p["truncated"] for p in ask.post("/predict", json={"texts": texts}).json()["predictions"]]
        alone = [ask.post("/predict", json={"text": t}).json()["predictions"][0]["truncated"] for t in texts]
        cut, whole = (ask.post("/predict", json={"text": texts[i]}).json()["predictions"][0] for i in (3, 1))
    assert listed == alone == [False, False, True, True]
    assert cut["scores"] == whole["scores"]


def test_s15_a_long_text_is_refused_alone_and_in_a_list_when_the_policy_says_so(tiny_version: VersionRef) -> None:
    long = " ".join(["good"] * 31)
    with client(tiny_version, params=ServeParams(on_long_text="reject")) as ask:
        assert ask.post("/predict", json={"text": " ".join(["good"] * 30)}).status_code == 200
        assert assert_error(ask.post("/predict", json={"text": long}), 422, "text_too_long")["field"] == "text"
        in_list = ask.post("/predict", json={"texts": ["good", long]})
        assert assert_error(in_list, 422, "text_too_long")["field"] == "texts[1]"


@pytest.mark.parametrize("value", ["0", "nan", "-1", "inf", "soon", "1e3", "1_0", "", "0.0", "9" * 12, "²"])
def test_a_time_limit_that_is_none_is_a_400(tiny_version: VersionRef, value: str) -> None:
    with client(tiny_version) as ask:
        headers = {b"x-request-timeout-seconds": value.encode("latin-1")}
        assert_error(ask.post("/predict", json={"text": "a"}, headers=headers), 400, "timeout_header")


def test_the_deadline_is_the_smaller_one_and_comes_before_the_proxys(tiny_version: VersionRef) -> None:
    with client(tiny_version, never, ServeParams(request_timeout_s=0.5)) as ask:
        for headers, least, most in (({}, 0.3, 0.5), ({"x-request-timeout-seconds": "9"}, 0.3, 0.5)):
            began = time.monotonic()
            assert_error(ask.post("/predict", json={"text": "a"}, headers=headers), 408, "deadline_passed")
            assert least < time.monotonic() - began < most
        began = time.monotonic()
        response = ask.post("/predict", json={"text": "a"}, headers={"x-request-timeout-seconds": "0.2"})
        assert_error(response, 408, "deadline_passed")
        assert time.monotonic() - began < 0.2


def test_s12_texts_above_the_queue_limit_are_a_429_and_the_places_come_back(tiny_version: VersionRef) -> None:
    release = asyncio.Event()

    async def held(encoded: Encoded) -> Scored:
        await release.wait()
        return scored(encoded)

    statuses: list[int] = []
    params = ServeParams(max_queued_texts=4, max_texts=4)

    def ask_one(ask: TestClient, texts: int) -> None:
        statuses.append(ask.post("/predict", json={"texts": ["a"] * texts}).status_code)

    with client(tiny_version, held, params) as ask:
        waiting = [threading.Thread(target=ask_one, args=(ask, 2)) for _ in range(2)]
        for thread in waiting:
            thread.start()
        time.sleep(0.5)
        refused = ask.post("/predict", json={"text": "a"})
        assert_error(refused, 429, "queue_full")
        assert int(refused.headers["retry-after"]) >= 1
        assert ask.get("/health").status_code == 200
        assert ask.portal is not None
        ask.portal.call(release.set)
        for thread in waiting:
            thread.join()
        assert statuses == [200, 200]
        assert ask.post("/predict", json={"texts": ["a"] * 4}).status_code == 200


def test_a_fault_of_ours_is_a_500_without_the_users_text(
    tiny_version: VersionRef, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def breaks(encoded: Encoded) -> Scored:
        raise ValueError(f"my secret text became {encoded.ids}")

    with client(tiny_version, breaks) as ask:
        response = ask.post("/predict", json={"text": "my secret text"}, headers={"x-request-id": "abc"})
    error = assert_error(response, 500, "internal")
    assert response.json()["request_id"] == "abc"
    assert "secret" not in json.dumps(error) + caplog.text + "".join(capfd.readouterr())
    assert "request abc failed: ValueError at" in caplog.text


def test_s05_a_text_that_the_model_fails_on_is_a_500(tiny_version: VersionRef) -> None:
    async def poison(encoded: Encoded) -> Scored:
        return Scored(None, "r1", 1.0, 1, 0.0) if len(encoded.ids) == 4 else scored(encoded)

    with client(tiny_version, poison) as ask:
        assert_error(ask.post("/predict", json={"text": "good film"}), 500, "internal")
        assert ask.post("/predict", json={"text": "good"}).status_code == 200


def test_a_deployment_that_failed_is_a_503_with_retry_after(tiny_version: VersionRef) -> None:
    async def gone(_: Encoded) -> Scored:
        raise unavailable("the model deployment failed")

    with client(tiny_version, gone) as ask:
        response = ask.post("/predict", json={"text": "a"})
        assert_error(response, 503, "unavailable")
        assert response.headers["retry-after"] == "1"


def test_health_names_the_version_as_loaded_and_how_it_is_served(tiny_version: VersionRef) -> None:
    with client(tiny_version) as ask:
        body = ask.get("/health").json()
    assert body.pop("uptime_s") >= 0
    assert body == {
        "status": "ok",
        "reason": None,
        "model": {"name": "tiny", "version": "1", "digest": tiny_version.digest},
        "graph_digest": "sha256:graph",
        "verified": False,
        "deployment": "n",
        "training": {"lr": 0.1},
        "runtime": "torch-fp32",
        "precision": "fp32",
        "device": "cpu",
        "labels": ["no", "yes"],
        "max_tokens": 32,
        "build": {"git": None},
    }


def test_s10_a_wrong_canary_makes_health_and_predictions_503(tiny_version: VersionRef) -> None:
    canary = Canary(tiny_version.digest)
    with client(tiny_version, canary=canary) as ask:
        assert ask.get("/health").status_code == 200
        canary.fault = "the canary is answered otherwise"
        time.sleep(1.5)
        response = ask.get("/health")
        assert response.status_code == 503
        assert response.headers["retry-after"] == "1"
        assert response.json()["reason"] == "the canary is answered otherwise"
        assert_error(ask.post("/predict", json={"text": "a"}), 503, "unavailable")
        canary.fault = None
        time.sleep(1.5)
        assert ask.get("/health").status_code == 200


def test_s10_health_is_503_until_a_canary_has_been_answered_and_still_answers_at_once(tiny_version: VersionRef) -> None:
    with client(tiny_version, canary=Canary(tiny_version.digest, silent=True)) as ask:
        began = time.monotonic()
        response = ask.get("/health")
        assert time.monotonic() - began < 1
        assert response.status_code == 503
        assert response.json()["reason"] == "no canary has been answered yet"
        assert ask.get("/live").status_code == 200


def test_s13_a_request_waits_for_a_model_that_is_loading_and_is_told_if_it_waits_in_vain(
    tiny_version: VersionRef,
) -> None:
    canary = Canary(tiny_version.digest, silent=True)
    with client(tiny_version, canary=canary) as ask:
        threading.Timer(0.5, setattr, (canary, "silent", False)).start()
        # The first canary is silent for its two seconds, the next is answered.
        assert ask.post("/predict", json={"text": "a"}).status_code == 200
    with client(tiny_version, params=ServeParams(request_timeout_s=0.5), canary=Canary("x", silent=True)) as ask:
        assert_error(ask.post("/predict", json={"text": "a"}), 503, "unavailable")


def test_waiting_requests_are_told_when_the_model_goes_down(tiny_version: VersionRef) -> None:
    canary = Canary(tiny_version.digest)
    with client(tiny_version, never, canary=canary) as ask:
        threading.Timer(0.3, setattr, (canary, "fault", "broken")).start()
        began = time.monotonic()
        assert_error(ask.post("/predict", json={"text": "a"}), 503, "unavailable")
        assert time.monotonic() - began < 3


def test_keys_guard_every_route_but_the_watchdogs(tiny_version: VersionRef) -> None:
    digests = [digest_of_key("first"), digest_of_key("second")]
    with client(tiny_version, key_digests=digests) as ask:
        for path in ("/", "/docs", "/openapi.json", "/page/page.js", "/nope"):
            refused = ask.get(path)
            assert_error(refused, 401, "unauthorised")
            assert refused.headers["www-authenticate"] == "Bearer"
        for wrong in ("Bearer third", "Bearer", "Basic first", "first", "Bearer first second"):
            response = ask.post("/predict", json={"text": "a"}, headers={"authorization": wrong})
            assert_error(response, 401, "unauthorised")
        for key in ("first", "second"):
            headers = {"authorization": f"Bearer {key}"}
            assert ask.post("/predict", json={"text": "a"}, headers=headers).status_code == 200
            assert "model" in ask.get("/health", headers=headers).json()
        assert ask.get("/live").status_code == 200
        assert ask.get("/health").json() == {"status": "ok"}


@pytest.mark.parametrize("root_path", ["", "/clf", "/a/b"])
def test_s04_slash_variants_answer_directly_below_any_prefix(tiny_version: VersionRef, root_path: str) -> None:
    with client(tiny_version, root_path=root_path) as ask:
        # Serve passes the whole path and the prefix as root_path
        for path in ("/predict", "/predict/", "/predict//"):
            assert ask.post(root_path + path, json={"text": "a"}).status_code == 200
        for path in ("/health/", "/live/", "/docs/", "/", "/openapi.json"):
            assert ask.get(root_path + path).status_code == 200, path
        if root_path:
            assert ask.get(root_path).status_code == 200


def test_s04_head_has_the_status_of_get_and_no_body(tiny_version: VersionRef) -> None:
    canary = Canary(tiny_version.digest)
    with client(tiny_version, canary=canary) as ask:
        for path in ("/health", "/live", "/", "/docs"):
            response = ask.head(path)
            assert (response.status_code, response.content) == (200, b"")
        assert ask.head("/predict").status_code == 405
        canary.fault = "broken"
        time.sleep(1.5)
        assert ask.head("/health").status_code == 503


@pytest.mark.parametrize(
    ("root_path", "path", "root"),
    [("", "/", "./"), ("", "/docs", "./"), ("", "/docs/", "../"), ("/clf", "/clf", "clf/"), ("/clf", "/clf/", "./")],
)
def test_pages_link_relatively_so_that_any_proxy_will_do(
    tiny_version: VersionRef, root_path: str, path: str, root: str
) -> None:
    with client(tiny_version, root_path=root_path) as ask:
        html = ask.get(path).text
    links = [part.split('"')[0] for part in html.split('src="')[1:]]
    assert links
    assert all(link.startswith(root) for link in links)
    assert "http" not in html.replace("http-equiv", "")


def test_pages_and_their_files_come_from_us_alone(tiny_version: VersionRef) -> None:
    with client(tiny_version) as ask:
        for path in ("page/page.js", "page/page.css", "swagger/swagger-ui-bundle.js", "swagger/swagger-ui.css"):
            assert ask.get(f"/{path}").status_code == 200, path
        assert "://" not in ask.get("/").text


def test_openapi_is_what_our_documentation_page_reads_and_its_examples_work(tiny_version: VersionRef) -> None:
    with client(tiny_version) as ask:
        spec = ask.get("/openapi.json").json()
        body = spec["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]
        assert body["examples"] == EXAMPLES
        for example in body["examples"].values():
            assert ask.post("/predict", json=example["value"]).status_code == 200
    assert spec["openapi"].startswith("3.0")
    assert '"null"' not in json.dumps(spec)
    assert spec["servers"] == [{"url": "."}]
    documented = set(spec["paths"]["/predict"]["post"]["responses"])
    assert documented == {"200", "400", "401", "408", "413", "415", "422", "429", "500", "503"}
    shape = spec["components"]["schemas"]["ErrorResponse"]
    assert spec["paths"]["/predict"]["post"]["responses"]["422"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/ErrorResponse"
    }
    assert set(shape["properties"]) == {"error", "request_id"}


def test_a_request_id_is_made_or_kept_and_a_bad_one_refused(tiny_version: VersionRef) -> None:
    with client(tiny_version) as ask:
        first, second = (ask.get("/live").headers["x-request-id"] for _ in range(2))
        assert first != second
        kept = ask.get("/nope", headers={"x-request-id": "mine-1"})
        assert kept.json()["request_id"] == "mine-1"
        for bad in (b"two words", b"\xe9", b"x" * 129):
            refused = ask.get("/live", headers={b"x-request-id": bad})
            assert_error(refused, 400, "request_id")


def test_a_client_that_leaves_half_way_through_its_body_harms_nobody(tiny_version: VersionRef) -> None:
    with client(tiny_version, answers) as ask:

        def half() -> Any:
            yield b'{"text": "a'

        ask.post("/predict", content=half(), headers={**JSON, "content-length": "100"})
        assert ask.post("/predict", json={"text": "a"}).status_code == 200


def test_a_closed_door_lets_those_inside_finish_and_nobody_in(tiny_version: VersionRef) -> None:
    release, door = asyncio.Event(), Door()

    async def held(encoded: Encoded) -> Scored:
        await release.wait()
        return scored(encoded)

    statuses: list[int] = []
    with client(tiny_version, held, door=door) as ask:
        inside = threading.Thread(target=lambda: statuses.append(ask.post("/predict", json={"text": "a"}).status_code))
        inside.start()
        time.sleep(0.3)
        assert ask.portal is not None
        assert ask.portal.call(door.close, 0.1) == 1
        late = ask.post("/predict", json={"text": "a"})
        assert_error(late, 503, "unavailable")
        assert late.headers["connection"] == "close"
        assert ask.get("/health").status_code == 503
        assert ask.get("/live").status_code == 200
        ask.portal.call(release.set)
        inside.join()
        assert statuses == [200]
        assert ask.portal.call(door.close, 5) == 0


def test_a_replica_of_another_version_is_not_this_ones_model(tiny_version: VersionRef) -> None:
    canary = Canary("sha256:other")
    with client(tiny_version, canary=canary) as ask:
        time.sleep(0.5)
        response = ask.get("/health")
        assert response.status_code == 503
        assert response.json()["model"]["digest"] is None
