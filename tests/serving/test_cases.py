"""The table of requests: our own app keeps all of it, and an app that breaks a promise is caught at that promise."""

from collections.abc import Callable
from dataclasses import replace

import httpx
import pytest
from starlette.testclient import TestClient

from registry.bundle import VersionRef, read_contract
from registry.contract import Contract, Encoded, Prediction
from serving.cases import Expected, table
from serving.edge import digest_of_key
from serving.messages import Scored
from serving.params import ServeParams
from tests.serving import inprocess

KEY = "a-key"
LABELS = ("negative", "neutral", "positive")


async def answers(encoded: Encoded) -> Scored:
    """Right in form: three labels whose scores sum to 1."""
    scores = dict(zip(LABELS, (0.2, 0.3, 0.5), strict=True))
    return Scored(Prediction("positive", 0.5, scores, encoded.truncated), "r1", 2.0, 1, 0.0)


def wrong(asked: TestClient, contract: Contract, params: ServeParams, with_keys: bool = False) -> dict[str, str]:
    """Name of each request that did not get what it should -> what it got."""
    found = {}
    for case in table(contract, params, with_keys):
        if case.name == "an id is echoed":
            continue  # by Serve's proxy, which is not here
        response = asked.request(case.method, case.path, content=case.body, headers=case.headers)
        fault = case.check(response) if response.status_code == case.status else f"status {response.status_code}"
        if fault:
            found[case.name] = fault
    return found


@pytest.mark.parametrize(
    "params",
    [ServeParams(), ServeParams(on_long_text="reject"), ServeParams(max_texts=1), ServeParams(max_body_bytes=1024)],
    ids=["default", "reject", "one text", "small bodies"],
)
def test_our_own_app_keeps_the_whole_table(tiny_version: VersionRef, params: ServeParams) -> None:
    with inprocess.client(tiny_version, answers, params) as asked:
        assert wrong(asked, read_contract(tiny_version.folder), params) == {}


def test_with_api_keys_the_table_holds_for_who_has_one(tiny_version: VersionRef) -> None:
    with inprocess.client(tiny_version, answers, key_digests=[digest_of_key(KEY)]) as asked:
        asked.headers["authorization"] = f"Bearer {KEY}"
        assert wrong(asked, read_contract(tiny_version.folder), ServeParams(), with_keys=True) == {}
    with inprocess.client(tiny_version, answers) as asked:
        assert set(wrong(asked, read_contract(tiny_version.folder), ServeParams(), with_keys=True)) == {
            "no key",
            "a wrong key",
        }


def test_answers_that_break_their_form_are_caught(tiny_version: VersionRef) -> None:
    contract = read_contract(tiny_version.folder)
    good = Prediction("positive", 0.5, dict(zip(LABELS, (0.2, 0.3, 0.5), strict=True)), truncated=False)
    broken = {
        "scores that do not sum to 1": replace(good, scores={**good.scores, "neutral": 0.2}),
        "a label without a name": replace(good, label="LABEL_2"),
        "another label's score": replace(good, score=0.3),
        "not the best label": replace(good, label="neutral", score=0.3),
    }
    for what, prediction in broken.items():

        async def answer(_: Encoded, prediction: Prediction = prediction) -> Scored:
            return Scored(prediction, "r1", 2.0, 1, 0.0)

        with inprocess.client(tiny_version, answer) as asked:
            assert "one text" in wrong(asked, contract, ServeParams()), what


def response(status: int, **given: object) -> httpx.Response:
    """A response to a request for a text."""
    return httpx.Response(status, request=httpx.Request("POST", "http://app/predict"), **given)  # type: ignore[arg-type]


def check(name: str, contract: Contract) -> Callable[[httpx.Response], str | None]:
    """The check of a case."""
    cases: dict[str, Expected] = {case.name: case for case in table(contract, ServeParams(), with_keys=False)}
    return cases[name].check


def test_errors_in_another_shape_or_with_the_users_text_are_caught(tiny_version: VersionRef) -> None:
    judge = check("both fields", read_contract(tiny_version.folder))
    error = {"type": "field_choice", "message": "send one", "field": None}
    assert judge(response(422, json={"error": error, "request_id": "1"})) is None
    assert judge(response(422, text="Unprocessable")) == "the error is not JSON"
    assert "shape" in str(judge(response(422, json={"detail": []})))
    told = {**error, "message": "zyxwvu is not a text"}
    assert "gives the user's text away" in str(judge(response(422, json={"error": told, "request_id": "1"})))
