"""The ingress's side of the handle: how texts reach a replica and what happens when it dies under them."""

import asyncio
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any

from ray.exceptions import ActorDiedError, ActorUnavailableError
from ray.serve.exceptions import DeploymentUnavailableError, ReplicaUnavailableError

from registry.contract import Encoded
from serving.errors import unavailable
from serving.messages import Alive, Held, Scored

GONE = (ActorDiedError, ActorUnavailableError, ReplicaUnavailableError)
RETRY_PAUSE_S = 0.05
OTHERS = 5
"""How often another replica is looked for when one hangs; Serve chooses at random until it has replaced it."""


class _NotHere(Exception):
    """A replica cannot answer: it holds something else, as during a rolling update, or its model hangs."""


@dataclass(slots=True, eq=False)
class _Waiting:
    encoded: Encoded
    answer: "asyncio.Future[Scored]"


class Model:
    """Asks the model deployment: at once while no call is out, else texts gather for a moment and share a call."""

    def __init__(self, handle: Any, wanted: Held, calls: int, texts_per_call: int, wait_s: float) -> None:
        """`wanted`: what must be held by who answers; `calls`: calls with the deployment at a time, at most.

        `wait_s`: how long a text waits for others while calls are out and there is room for one more.
        """
        self._handle, self._wanted, self._free, self._texts_per_call = handle, wanted, calls, texts_per_call
        self._wait_s = wait_s
        self._timer: asyncio.Handle | None = None
        self._due = 0.0
        self._waiting: deque[_Waiting] = deque()
        self._calls: set[asyncio.Task[None]] = set()

    def score(self, encoded: Encoded) -> "asyncio.Future[Scored]":
        """One text's answer. The caller sets the deadline; what nobody waits for any more is not computed."""
        waiting = _Waiting(encoded, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        gather = self._calls and len(self._waiting) < self._texts_per_call
        # Never in this very moment: the other texts of the same request are about to be here.
        self._send_in(self._wait_s if gather else 0.0)
        return waiting.answer

    async def canary(self) -> Alive:
        """One replica's answer to a canary, beside the calls that carry texts; a hung one's only if none answers."""
        alive: Alive = await _ask(self._handle.canary)
        for _ in range(OTHERS):
            if not alive.hangs:
                break
            alive = await _ask(self._handle.canary)
        return alive

    def _send_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if self._timer:
            if self._due <= due:
                return
            self._timer.cancel()
        self._timer, self._due = loop.call_later(seconds, self._send), due

    def _send(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        while self._free and (texts := self._take()):
            self._free -= 1
            call = asyncio.get_running_loop().create_task(self._call(texts))
            self._calls.add(call)
            call.add_done_callback(self._ended)
            for text in texts:
                text.answer.add_done_callback(partial(_cancel_if_left, call, texts))

    def _take(self) -> list[_Waiting]:
        texts: list[_Waiting] = []
        while self._waiting and len(texts) < self._texts_per_call:
            text = self._waiting.popleft()
            if not text.answer.done():
                texts.append(text)
        return texts

    def _ended(self, call: "asyncio.Task[None]") -> None:
        self._calls.discard(call)
        self._free += 1
        if not self._calls or not self._timer:
            self._send()

    async def _call(self, texts: list[_Waiting]) -> None:
        try:
            scored = await _ask(self._handle.score, self._wanted, [text.encoded for text in texts])
            if scored is None:
                raise _NotHere
            for text, one in zip(texts, scored, strict=True):
                if not text.answer.done():
                    text.answer.set_result(one)
        except (*GONE, _NotHere):
            # A prediction is pure: what was with a replica that died or hangs is asked again elsewhere.
            await asyncio.sleep(RETRY_PAUSE_S)
            self._waiting.extendleft(reversed(texts))
        except DeploymentUnavailableError:
            _fail(texts, unavailable("the model deployment failed"))
        except Exception as error:
            _fail(texts, error)


async def _ask(method: Any, *args: Any) -> Any:
    response = method.remote(*args)
    try:
        return await response
    except asyncio.CancelledError:
        response.cancel()
        raise


def _fail(texts: list[_Waiting], error: Exception) -> None:
    for text in texts:
        if not text.answer.done():
            text.answer.set_exception(error)


def _cancel_if_left(call: "asyncio.Task[None]", texts: list[_Waiting], _: "asyncio.Future[Scored]") -> None:
    """Once every client of a call has its answer or has gone, the call is over too."""
    if all(text.answer.done() for text in texts):
        call.cancel()
