"""More texts at once than the graph may queue -> what came back, what `/health` said meanwhile, how it was after."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

import httpx

from registry.service_evidence import Overload
from serving.probe import ProbeFault, Target, alone, chunks

OVER = 1.5
"""Texts asked at once, as a multiple of what all ingresses may queue."""
LOOK_S = 0.2
AFTER_TEXTS = 5

Look = tuple[str, float]
"""What `/health` answered, and after how many seconds."""


def overload(target: Target, texts: Sequence[str]) -> Overload:
    """Ask lists of the shortest texts all at once, `/health` meanwhile, and a few single texts when all is over.

    Raises ProbeFault when the app stops answering.
    """
    shortest = sorted(texts, key=len)[: target.params.max_texts]
    limit = target.params.max_queued_texts * target.params.ingress_replicas
    requests, answers, looks = at_once(target, shortest, OVER)
    after = alone(target, shortest, [row % len(shortest) for row in range(AFTER_TEXTS)])
    return Overload(
        texts=sum(map(len, requests)),
        limit=limit,
        statuses=dict(Counter(str(answer.status_code) for answer in answers)),
        without_retry_after=sum(a.status_code == 429 and "retry-after" not in a.headers for a in answers),
        health=dict(Counter(status for status, _ in looks)),
        health_s=tuple(round(took_s, 3) for _, took_s in looks),
        after=dict(Counter(answer.status for answer in after)),
        after_ms=tuple(round(answer.ms, 1) for answer in after),
    )


def at_once(
    target: Target, texts: Sequence[str], over: float
) -> tuple[list[list[str]], list[httpx.Response], list[Look]]:
    """Ask `over` times as many texts as may be queued, in lists, all at once: the lists, the answers, `/health`.

    Raises ProbeFault when the app stops answering.
    """
    bodies = list(chunks(target, texts, range(len(texts))))
    limit = target.params.max_queued_texts * target.params.ingress_replicas
    asked = -(-int(over * limit) // len(texts)) * len(bodies)
    requests = [[texts[row] for row in bodies[number % len(bodies)]] for number in range(asked)]
    return requests, *asyncio.run(_drive(target, requests))


async def _drive(target: Target, requests: Sequence[list[str]]) -> tuple[list[httpx.Response], list[Look]]:
    looks: list[Look] = []
    # A connection each, and one of its own for /health: nobody waits on our side.
    many, timeout = httpx.Limits(max_connections=None), target.params.request_timeout_s + 5
    async with (
        httpx.AsyncClient(headers=dict(target.headers), limits=many, timeout=timeout, trust_env=False) as client,
        httpx.AsyncClient(headers=dict(target.headers), timeout=timeout, trust_env=False) as other,
    ):
        looking = asyncio.create_task(_look(other, f"{target.url}/health", looks))
        asked = [client.post(f"{target.url}/predict", json={"texts": texts}) for texts in requests]
        try:
            answers = await asyncio.gather(*asked)
        except httpx.HTTPError as error:
            raise ProbeFault(f"no answer under too much load: {type(error).__name__} {error}") from error
        finally:
            looking.cancel()
    return answers, looks


async def _look(client: httpx.AsyncClient, url: str, looks: list[Look]) -> None:
    """Ask for ever, until cancelled."""
    while True:
        began = time.monotonic()
        try:
            status = str((await client.get(url)).status_code)
        except httpx.HTTPError as error:
            status = type(error).__name__
        looks.append((status, time.monotonic() - began))
        await asyncio.sleep(LOOK_S)
