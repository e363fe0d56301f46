"""The contract of the HTTP API as a table: requests, and the status and body that each must get (docs/HTTP.md)."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import httpx

from registry.contract import Contract
from serving.params import ServeParams

JSON = {"content-type": "application/json"}
# No message of ours holds this word: an error that repeats it gives a user's text away.
WORD = "zyxwvu"
UNICODE = "naïve café 👍🏽 これはとても良いです"


@dataclass(frozen=True)
class Expected:
    """One request and what must come back."""

    name: str
    status: int
    method: str = "POST"
    path: str = "/predict"
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=lambda: dict(JSON))
    check: Callable[[httpx.Response], str | None] = lambda _: None
    """What is wrong with the answer beyond its status, or None."""


def table(contract: Contract, params: ServeParams, with_keys: bool) -> Iterator[Expected]:
    """Every case; `with_keys`: the app asks for an API key."""
    yield from _good(contract, params)
    yield from _unreadable(params)
    yield from _wrong(params)
    yield from _limits(contract, params)
    if with_keys:
        for name, headers in {"no key": {}, "a wrong key": {"authorization": f"Bearer {WORD}"}}.items():
            yield Expected(name, 401, body=_text(WORD), headers={**JSON, "authorization": "", **headers}, check=_error)


def _good(contract: Contract, params: ServeParams) -> Iterator[Expected]:
    def predictions(count: int) -> Callable[[httpx.Response], str | None]:
        return lambda response: _predictions(response, contract, count)

    yield Expected("one text", 200, body=_text("a place to start"), check=predictions(1))
    yield Expected("other scripts", 200, body=_text(UNICODE), check=predictions(1))
    yield Expected("a trailing slash", 200, path="/predict/", body=_text("fine"), check=predictions(1))
    yield Expected(
        "charset named", 200, body=_text("fine"), headers={"content-type": "application/json; charset=UTF-8"}
    )
    # 20 bytes a text, as JSON.
    full = min(params.max_texts, 64, params.max_body_bytes // 21)
    yield Expected("a full list", 200, body=_texts(["a place to start"] * full), check=predictions(full))
    named = {**JSON, "x-request-id": "verify-1"}
    yield Expected("an id is echoed", 200, body=_text("fine"), headers=named, check=_echoes("verify-1"))
    for path in ("/live", "/health", "/", "/docs", "/openapi.json"):
        yield Expected(f"GET {path}", 200, "GET", path)
    yield Expected("HEAD /health", 200, "HEAD", "/health")


def _unreadable(params: ServeParams) -> Iterator[Expected]:
    tower = min(20_000, params.max_body_bytes // 3)
    bodies = {
        "not JSON": b'{"text": ',
        "no body": b"",
        "NaN": b'{"text": NaN}',
        "not UTF-8": b'{"text": "\xff\xfe"}',
        "UTF-16": '{"text": "fine"}'.encode("utf-16"),
        "half a character": rb'{"text": "great \ud83d"}',
        "a tower": b'{"text": ' + b"[" * tower + b"]" * tower + b"}",
    }
    for name, body in bodies.items():
        yield Expected(name, 400, body=body, check=_error)
    for value in ("0", "nan", "-1", "soon"):
        headers = {**JSON, "x-request-timeout-seconds": value}
        yield Expected(f"a deadline of {value}", 400, body=_text("fine"), headers=headers, check=_error)


def _wrong(params: ServeParams) -> Iterator[Expected]:
    bodies: dict[str, object] = {
        "both fields": {"text": WORD, "texts": [WORD]},
        "neither field": {},
        "an unknown field": {"text": WORD, "lang": WORD},
        "a number for a text": {"text": 7},
        "a text for a list": {"texts": WORD},
        "a list of lists": {"texts": [[WORD]]},
        "an empty list": {"texts": []},
        "an empty text": {"text": ""},
        "white space": {"text": " \t\n"},
        "nothing visible": {"texts": ["\u200b"]},
        "a list for a body": [WORD],
        "null": None,
    }
    for name, body in bodies.items():
        yield Expected(name, 422, body=json.dumps(body).encode(), check=_error)
    if params.max_texts > 1:
        body = _texts([WORD, ""])
        yield Expected("an empty text in a list", 422, body=body, check=lambda r: _error(r) or _names(r, "texts[1]"))
    yield Expected("plain text", 415, body=_text(WORD), headers={"content-type": "text/plain"}, check=_error)
    yield Expected("no such route", 404, "GET", f"/{WORD}", check=_error)
    yield Expected("GET /predict", 405, "GET", check=_error)


def _limits(contract: Contract, params: ServeParams) -> Iterator[Expected]:
    long = " ".join(["a"] * (contract.max_tokens + 1))
    if len(long) < params.max_body_bytes / 2:
        if params.on_long_text == "reject":
            yield Expected("a long text", 422, body=_text(long), check=_error)
            yield Expected("a long text in a list", 422, body=_texts([long]), check=_error)
        else:
            yield Expected("a long text", 200, body=_text(long), check=_truncated)
            yield Expected("a long text in a list", 200, body=_texts([long]), check=_truncated)
    large = _text("a" * (params.max_body_bytes + 1))
    yield Expected("a body above the limit", 413, body=large, check=_error)
    if params.max_texts < 10_000:
        many = _texts(["a"] * (params.max_texts + 1))
        if len(many) <= params.max_body_bytes:
            yield Expected("too many texts", 413, body=many, check=_error)


def _text(text: str) -> bytes:
    return json.dumps({"text": text}).encode()


def _texts(texts: list[str]) -> bytes:
    return json.dumps({"texts": texts}).encode()


def _predictions(response: httpx.Response, contract: Contract, count: int) -> str | None:
    answer = response.json()
    missing = {"x-request-id", "server-timing", "x-model-version", "x-served-by"} - set(response.headers)
    if missing:
        return f"headers {sorted(missing)} are missing"
    if len(answer["predictions"]) != count:
        return f"{len(answer['predictions'])} predictions for {count} texts"
    for one in answer["predictions"]:
        if set(one["scores"]) != set(contract.labels) or abs(sum(one["scores"].values()) - 1) > 1e-6:
            return f"scores {one['scores']} do not sum to 1 over the labels"
        if one["label"] not in one["scores"] or one["scores"][one["label"]] != one["score"]:
            return f"label {one['label']!r} does not carry its score"
        if one["score"] != max(one["scores"].values()):
            return f"label {one['label']!r} is not the best"
    return None


def _truncated(response: httpx.Response) -> str | None:
    return None if response.json()["predictions"][0]["truncated"] else "the text was cut and nothing says so"


def _echoes(request_id: str) -> Callable[[httpx.Response], str | None]:
    return lambda r: None if r.headers.get("x-request-id") == request_id else "x-request-id is not echoed"


def _error(response: httpx.Response) -> str | None:
    if WORD in response.text and WORD not in str(response.url):
        return "the error gives the user's text away"
    try:
        answer = response.json()
    except ValueError:
        return "the error is not JSON"
    if set(answer) != {"error", "request_id"} or set(answer["error"]) != {"type", "message", "field"}:
        return f"the error has another shape: {sorted(answer)}"
    return None if answer["error"]["message"] and answer["request_id"] else "the error says nothing"


def _names(response: httpx.Response, where: str) -> str | None:
    found = response.json()["error"]["field"]
    return None if found == where else f"the error names {found!r} and not {where!r}"
