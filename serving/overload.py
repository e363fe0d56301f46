"""More texts at once than the graph may queue -> what came back, what `/health` said meanwhile, how it was after."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import httpx

from registry.service_evidence import Overload
from serving.probe import ProbeFault, Target, alone, chunks
from serving.watch import Watch

OVER = 1.5
"""Texts asked at once, as a multiple of what all ingresses may queue."""
LOOK_S = 0.2
AFTER_TEXTS = 5


def overload(target: Target, texts: Sequence[str]) -> Overload:
    """Ask lists of the shortest texts all at once, `/health` meanwhile, and a few single texts when all is over.

    Raises ProbeFault when the app stops answering.
    """
    shortest = sorted(texts, key=len)[: target.params.max_texts]
    limit = target.params.max_queued_texts * target.params.ingress_replicas
    with Watch(target, LOOK_S, timeout_s=_timeout_s(target)) as watch:
        requests, answers = at_once(target, shortest, OVER)
    after = alone(target, shortest, [row % len(shortest) for row in range(AFTER_TEXTS)])
    return Overload(
        texts=sum(map(len, requests)),
        limit=limit,
        statuses=dict(Counter(str(answer.status_code) for answer in answers)),
        without_retry_after=sum(a.status_code == 429 and "retry-after" not in a.headers for a in answers),
        health=dict(Counter(look.status for look in watch.looks)),
        health_s=tuple(round(look.ended - look.began, 3) for look in watch.looks),
        after=dict(Counter(answer.status for answer in after)),
        after_ms=tuple(round(answer.ms, 1) for answer in after),
    )


def at_once(target: Target, texts: Sequence[str], over: float) -> tuple[list[list[str]], list[httpx.Response]]:
    """Ask `over` times as many texts as may be queued, in lists, all at once: the lists and the answers.

    Raises ProbeFault when the app stops answering.
    """
    bodies = list(chunks(target, texts, range(len(texts))))
    limit = target.params.max_queued_texts * target.params.ingress_replicas
    asked = -(-int(over * limit) // len(texts)) * len(bodies)
    requests = [[texts[row] for row in bodies[number % len(bodies)]] for number in range(asked)]
    return requests, asyncio.run(_ask(target, requests))


async def _ask(target: Target, requests: Sequence[list[str]]) -> list[httpx.Response]:
    # A connection each: nobody waits on our side.
    many, timeout = httpx.Limits(max_connections=None), _timeout_s(target)
    async with httpx.AsyncClient(headers=dict(target.headers), limits=many, timeout=timeout, trust_env=False) as client:
        try:
            return await asyncio.gather(*(client.post(f"{target.url}/predict", json={"texts": t}) for t in requests))
        except httpx.HTTPError as error:
            raise ProbeFault(f"no answer under too much load: {type(error).__name__} {error}") from error


def _timeout_s(target: Target) -> float:
    """Longer than the app's own deadline."""
    return target.params.request_timeout_s + 5
