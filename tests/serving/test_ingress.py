"""A real version through Serve's proxy: what only the running graph can show."""

import asyncio
from collections.abc import Iterator

import httpx
import psutil
import pytest

from registry import scorer
from registry.bundle import VersionRef
from serving.graph import graph_digest
from serving.params import ServeParams
from tests import tiny
from tests.serving.conftest import TINY, Deploy

TEXTS = [row["text"] for row in tiny.rows(40, seed=9)]


@pytest.fixture(scope="module")
def url(deploy: Deploy, tiny_version: VersionRef) -> Iterator[str]:
    """The tiny version on two replicas."""
    with deploy(tiny_version, nonce="n0nce", num_replicas=2) as running:
        yield running


def post(url: str, text: str, **headers: str) -> httpx.Response:
    return httpx.post(f"{url}/predict", json={"text": text}, headers=headers, timeout=30)


def test_health_names_both_digests_as_they_are(url: str, tiny_version: VersionRef) -> None:
    body = httpx.get(f"{url}/health").json()
    assert body["model"] == {"name": "tiny", "version": "1", "digest": tiny_version.digest}
    assert body["graph_digest"] == graph_digest(ServeParams(**TINY, num_replicas=2))
    assert (body["deployment"], body["verified"], body["device"]) == ("n0nce", False, "cpu")
    assert body["training"] == {"lr": 0.003, "steps": 150}
    assert body["build"].keys() == {"git", "ray", "torch", "transformers", "onnxruntime"}


def test_s08_answers_are_the_scorers_own_alone_together_and_in_odd_company(url: str, tiny_version: VersionRef) -> None:
    expected = scorer.load(tiny_version.folder)(TEXTS)
    company = [TEXTS[0], "x", "word " * 500, "これはとても良い", *TEXTS[1:]]
    together = httpx.post(f"{url}/predict", json={"texts": company}, timeout=30).json()["predictions"]
    alone = [post(url, text).json()["predictions"][0] for text in TEXTS[:5]]
    for want, got in zip(expected, [together[0], *together[4:]], strict=True):
        assert got["label"] == want.label
        assert got["scores"] == pytest.approx(want.scores, abs=1e-5)
    for want, got in zip(expected[:5], alone, strict=True):
        assert got["scores"] == pytest.approx(want.scores, abs=1e-5)


def test_two_replicas_share_the_work(url: str) -> None:
    async def ask() -> set[str]:
        turns, seen = asyncio.Semaphore(16), set()

        async def one(client: httpx.AsyncClient, number: int) -> None:
            async with turns:
                response = await client.post(f"{url}/predict", json={"text": TEXTS[number % 40]})
                assert response.status_code == 200
                seen.add(response.headers["x-served-by"])

        async with httpx.AsyncClient(timeout=30) as client:
            await asyncio.gather(*(one(client, number) for number in range(200)))
        return seen

    assert len(asyncio.run(ask())) == 2


def test_the_request_id_comes_back_once(url: str) -> None:
    assert post(url, "good", **{"x-request-id": "mine"}).headers.get_list("x-request-id") == ["mine"]
    assert len(httpx.get(f"{url}/live").headers.get_list("x-request-id")) == 1


def test_s04_below_a_prefix_slashes_head_and_errors_are_as_at_the_root(url: str) -> None:
    assert httpx.post(f"{url}/predict/", json={"text": "good"}).status_code == 200
    for path in ("", "/", "/docs", "/docs/", "/health/", "/openapi.json", "/page/page.js"):
        assert httpx.get(url + path).status_code == 200, path
        assert httpx.head(url + path).status_code == 200, path
    assert httpx.get(f"{url}/nope").json()["error"]["type"] == "not_found"
    assert httpx.get(f"{url}/predict").json()["error"]["type"] == "method_not_allowed"


def test_bad_requests_are_refused_by_us_and_not_by_the_proxy(url: str) -> None:
    for value in ("0", "nan", "-1"):
        response = post(url, "good", **{"x-request-timeout-seconds": value})
        assert (response.status_code, response.json()["error"]["type"]) == (400, "timeout_header")
    large = httpx.post(f"{url}/predict", content=b"x" * 2_000_000, headers={"content-type": "application/json"})
    assert (large.status_code, large.json()["error"]["type"]) == (413, "body_too_large")
    assert httpx.post(f"{url}/predict", json={"text": "good"}).status_code == 200


def test_only_loopback_listens(url: str, serve_port: int) -> None:
    listening = [c.laddr for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert {address.ip for address in listening if address.port == serve_port} == {"127.0.0.1"}
