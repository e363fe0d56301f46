"""Asks a running app questions -> evidence: who it is, what it answers, alone and in company, through every door."""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from ray.exceptions import RayError

from registry.bundle import VersionRef, encoder_of
from registry.contract import Contract, Prediction
from registry.errors import MachineFault
from registry.runtimes import Engine
from registry.service_evidence import Case, Identity, Way
from serving import handles
from serving.cases import Expected, table
from serving.load import Answer, answer_of
from serving.messages import Held
from serving.params import ServeParams
from serving.sizes import texts_per_call

# Batch-mates that padding, masks or normalisation could let through to their neighbours.
NEIGHBOURS = ("word " * 600, ".", "これはとても良いです。", "👍🏽", "a", "ﷺ" * 20, "0 " * 300, "e\u0301")
SEED = 7


class ProbeFault(MachineFault):
    """The app stopped answering while it was measured: nothing is known about the model."""


@dataclass(frozen=True)
class Target:
    """A running app, and what it should be."""

    url: str
    app: str
    """The Serve application's name."""
    version: VersionRef
    contract: Contract
    params: ServeParams
    graph_digest: str
    nonce: str
    engine: Engine
    """How the replicas should have loaded it."""
    headers: Mapping[str, str]
    """On every request: the API key, when the app asks for one."""

    def client(self) -> httpx.Client:
        """A client that knows the way and the key."""
        return httpx.Client(headers=dict(self.headers), timeout=self.params.request_timeout_s + 5, trust_env=False)


def identity(target: Target) -> Identity:
    """Names and digests as each deployment says through its handle and as the whole answers over HTTP."""
    with target.client() as client:
        health = _send(client, "GET", f"{target.url}/health").json()
        predict = _send(client, "POST", f"{target.url}/predict", json={"text": "a place to start"})
    model, held = health.get("model") or {}, replicas(target)
    try:
        about = handles.about(target.app)
    except RayError as error:
        raise _silent(error) from error
    return Identity(
        version=target.version.version,
        digest=target.version.digest,
        graph_digest=target.graph_digest,
        nonce=target.nonce,
        runtime=target.engine.runtime,
        loaded={replica: one.digest for replica, one in held.items()},
        runtimes={replica: one.runtime for replica, one in held.items()},
        ingress={name: str(about.get(name)) for name in ("graph_digest", "deployment")},
        health={
            "version": str(model.get("version")),
            "digest": str(model.get("digest")),
            "graph_digest": str(health.get("graph_digest")),
            "deployment": str(health.get("deployment")),
            "runtime": str(health.get("runtime")),
        },
        header_version=predict.headers.get("x-model-version", ""),
    )


def replicas(target: Target) -> dict[str, Held]:
    """Replica id -> what it answers with, said through the model's handle."""
    try:
        return handles.loaded(target.app)
    except RayError as error:
        raise _silent(error) from error


def contract(target: Target) -> tuple[Case, ...]:
    """Every request of the table, sent and judged."""
    with target.client() as client:
        return tuple(_case(client, target, expected) for expected in _table(target))


def _table(target: Target) -> Iterator[Expected]:
    return table(target.contract, target.params, with_keys=bool(target.headers))


def _case(client: httpx.Client, target: Target, expected: Expected) -> Case:
    response = _send(
        client,
        expected.method,
        target.url + expected.path,
        content=expected.body,
        headers={**target.headers, **expected.headers},
    )
    fault = None
    if response.status_code == expected.status:
        fault = expected.check(response)
    got = str(response.status_code) + (f", but {fault}" if fault else "")
    ok = response.status_code == expected.status and fault is None
    return Case(name=expected.name, expected=str(expected.status), got=got, ok=ok)


def askable(target: Target, texts: Sequence[str]) -> list[int]:
    """Which texts the app takes: a body within its limit, and within max_tokens where it refuses longer ones."""
    encoded = encoder_of(target.version.folder)(texts)
    cut = target.params.on_long_text == "reject"
    # Escapes make six bytes of a character at most.
    fits = [6 * len(text) + 100 < target.params.max_body_bytes for text in texts]
    return [index for index, one in enumerate(encoded) if fits[index] and not (cut and one.truncated)]


def alone(target: Target, texts: Sequence[str], rows: Sequence[int]) -> list[Answer]:
    """Some of the texts by one client that waits for each answer before it asks again."""
    answers = []
    with target.client() as client:
        for row in rows:
            began = time.monotonic()
            response = _send(client, "POST", f"{target.url}/predict", json={"text": texts[row]})
            answers.append(answer_of(row, began, response.status_code, response.content, response.headers))
    return answers


def in_company(target: Target, texts: Sequence[str], expected: Sequence[Prediction], bound: float) -> dict[str, Way]:
    """The texts through the model's handle, in lists, shuffled, and between odd neighbours, against `expected`."""
    order = list(range(len(texts)))
    shuffled = random.Random(SEED).sample(order, len(order))  # noqa: S311 - an order, not a secret
    with target.client() as client:
        return {
            "through the handle": compare(_through_handle(target, texts), expected, bound),
            "together": _lists(target, client, texts, order, expected, bound),
            "shuffled": _lists(target, client, texts, shuffled, expected, bound),
            "between odd neighbours": _lists(target, client, texts, order, expected, bound, _neighbours(target)),
        }


def together(target: Target, texts: Sequence[str], expected: Sequence[Prediction], bound: float) -> Way:
    """The texts in lists, in order, against `expected`."""
    with target.client() as client:
        return _lists(target, client, texts, range(len(texts)), expected, bound)


def _through_handle(target: Target, texts: Sequence[str]) -> list[Mapping[str, float] | None]:
    encoded, size = encoder_of(target.version.folder)(texts), texts_per_call(target.params)
    try:
        return handles.scores(target.app, Held(target.version.digest, target.engine.runtime), encoded, size)
    except RayError as error:
        raise _silent(error) from error


def _neighbours(target: Target) -> list[str]:
    return [NEIGHBOURS[index] for index in askable(target, NEIGHBOURS)]


def _lists(
    target: Target,
    client: httpx.Client,
    texts: Sequence[str],
    order: Sequence[int],
    expected: Sequence[Prediction],
    bound: float,
    neighbours: Sequence[str] = (),
) -> Way:
    """Ask in lists as long as allowed; `neighbours` go first in each list, their answers are not compared."""
    guests = list(neighbours)[: max(0, target.params.max_texts - 1)]
    answers: list[Mapping[str, float] | None] = []
    for rows in chunks(target, texts, order, len(guests)):
        body = {"texts": guests + [texts[row] for row in rows]}
        response = _send(client, "POST", f"{target.url}/predict", json=body)
        if response.status_code == httpx.codes.OK:
            answers += [one["scores"] for one in response.json()["predictions"][len(guests) :]]
        else:
            answers += [None] * len(rows)
    return compare(answers, [expected[row] for row in order], bound)


def chunks(target: Target, texts: Sequence[str], order: Sequence[int], guests: int = 0) -> Iterator[list[int]]:
    """Rows in lists that keep max_texts, `guests` included, and max_body_bytes."""
    rows: list[int] = []
    room = target.params.max_body_bytes // 2
    for row in order:
        if rows and (len(rows) + guests == target.params.max_texts or 6 * sum(len(texts[r]) for r in rows) > room):
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows


def compare(answers: Sequence[Mapping[str, float] | None], expected: Sequence[Prediction], bound: float) -> Way:
    """Answers (None: an error) against the right ones; a label may differ only where its score ties within `bound`."""
    worst, differ = 0.0, 0
    for got, right in zip(answers, expected, strict=True):
        if got is None:
            differ += 1
            continue
        worst = max([worst, *(abs(got[label] - score) for label, score in right.scores.items())])
        best = max(got, key=got.__getitem__)
        differ += best != right.label and right.score - right.scores[best] > bound
    return Way(answers=len(answers), labels_differ=differ, worst=worst)


def _silent(error: RayError) -> ProbeFault:
    return ProbeFault(f"a deployment did not answer through its handle: {type(error).__name__} {error}")


def _send(client: httpx.Client, method: str, url: str, **given: Any) -> httpx.Response:
    try:
        return client.request(method, url, **given)
    except httpx.HTTPError as error:
        raise ProbeFault(f"{method} {url} got no answer: {type(error).__name__} {error}") from error
