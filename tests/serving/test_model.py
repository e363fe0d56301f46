"""The ingress's side of the handle, with a handle of the test's choosing."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest
import uvloop
from ray.exceptions import ActorUnavailableError
from ray.serve.exceptions import DeploymentUnavailableError

from registry.contract import Encoded
from serving.errors import ApiError
from serving.messages import Held, Scored
from serving.model import Model
from tests.serving.inprocess import scored

WANTED = Held("sha256:mine", "torch-fp32")


class Response:
    """What a handle call gives: awaitable, and can be cancelled."""

    def __init__(self, answer: Awaitable[Any], cancelled: list[bool]) -> None:
        self._answer, self._cancelled = answer, cancelled

    def __await__(self) -> Generator[Any, None, Any]:
        return self._answer.__await__()

    def cancel(self) -> None:
        self._cancelled.append(True)


class Handle:
    """A deployment handle whose `score` is the test's."""

    def __init__(self, answer: Callable[[list[Encoded]], Awaitable[list[Scored] | None]]) -> None:
        self.calls: list[int] = []
        self.cancelled: list[bool] = []
        self._answer = answer
        self.score = self

    def remote(self, wanted: Held, encoded: list[Encoded]) -> Response:
        assert wanted == WANTED
        self.calls.append(len(encoded))
        return Response(self._answer(encoded), self.cancelled)


def text(number: int) -> Encoded:
    return Encoded(tuple(range(number + 1)), truncated=False)


async def well(encoded: list[Encoded]) -> list[Scored]:
    await asyncio.sleep(0.01)
    return [scored(one) for one in encoded]


def run(handle: Handle, texts: int, calls: int = 2, texts_per_call: int = 4) -> list[Scored | BaseException]:
    async def ask() -> list[Scored | BaseException]:
        model = Model(handle, WANTED, calls, texts_per_call, wait_s=0.0)
        return await asyncio.gather(*(model.score(text(n)) for n in range(texts)), return_exceptions=True)

    return uvloop.run(asyncio.wait_for(ask(), 10))


def test_texts_share_calls_and_each_gets_its_own_answer() -> None:
    handle = Handle(well)
    answers = run(handle, 30)
    assert answers == [scored(text(n)) for n in range(30)]
    assert handle.calls == [4, 4, 4, 4, 4, 4, 4, 2]


def test_an_idle_model_is_asked_at_once_and_a_busy_one_after_a_moment_or_with_a_full_call() -> None:
    handle, began = Handle(well), time.monotonic()

    async def ask() -> None:
        model = Model(handle, WANTED, calls=9, texts_per_call=4, wait_s=0.5)
        first = model.score(text(0))
        await asyncio.sleep(0.001)
        full = [model.score(text(n)) for n in range(1, 5)]
        await asyncio.gather(first, *full)
        assert time.monotonic() - began < 0.4
        # Its end is the moment too: nobody waits for a model that has become idle.
        last = model.score(text(5))
        await asyncio.sleep(0.001)
        await asyncio.gather(last, model.score(text(6)))

    uvloop.run(asyncio.wait_for(ask(), 10))
    assert time.monotonic() - began < 0.4
    assert handle.calls == [1, 4, 1, 1]


def test_no_more_calls_are_out_than_allowed() -> None:
    out, most = 0, 0

    async def counted(encoded: list[Encoded]) -> list[Scored]:
        nonlocal out, most
        out += 1
        most = max(most, out)
        answers = await well(encoded)
        out -= 1
        return answers

    run(Handle(counted), 100, calls=3, texts_per_call=2)
    assert most == 3


def test_s12_a_text_whose_replica_died_is_asked_again() -> None:
    died = iter([True, True, False])

    async def dies(encoded: list[Encoded]) -> list[Scored]:
        if next(died, False):
            raise ActorUnavailableError("gone", None)
        return await well(encoded)

    assert run(Handle(dies), 9) == [scored(text(n)) for n in range(9)]


def test_a_replica_of_another_version_is_asked_again_elsewhere() -> None:
    others = iter([True, False])

    async def other(encoded: list[Encoded]) -> list[Scored] | None:
        return None if next(others, False) else await well(encoded)

    assert run(Handle(other), 3) == [scored(text(n)) for n in range(3)]


def test_a_deployment_that_failed_is_told_as_503() -> None:
    async def failed(_: list[Encoded]) -> list[Scored]:
        raise DeploymentUnavailableError("Model")  # type: ignore[arg-type]

    answers = run(Handle(failed), 5)
    assert {answer.status for answer in answers if isinstance(answer, ApiError)} == {503}


def test_any_other_fault_reaches_every_text_of_the_call_and_no_other() -> None:
    async def half(encoded: list[Encoded]) -> list[Scored]:
        if len(encoded[0].ids) == 1:
            raise ValueError("bug")
        return await well(encoded)

    answers = run(Handle(half), 8)
    assert [type(answer) for answer in answers] == [ValueError] * 4 + [Scored] * 4


def test_s06_a_call_is_cancelled_once_all_its_clients_have_left_and_its_place_is_free() -> None:
    hang = True

    async def hangs(encoded: list[Encoded]) -> list[Scored]:
        if hang:
            await asyncio.sleep(3600)
        return await well(encoded)

    handle = Handle(hangs)

    async def ask() -> None:
        nonlocal hang
        model = Model(handle, WANTED, calls=1, texts_per_call=2, wait_s=0.0)
        first, second, waiting = (model.score(text(n)) for n in range(3))
        await asyncio.sleep(0.05)
        first.cancel()
        await asyncio.sleep(0.05)
        assert handle.cancelled == []
        second.cancel()
        waiting.cancel()
        hang = False
        assert await model.score(text(7)) == scored(text(7))

    uvloop.run(asyncio.wait_for(ask(), 10))
    assert handle.cancelled == [True]
    assert handle.calls == [2, 1]


def test_answers_that_do_not_match_their_texts_are_an_error() -> None:
    async def short(encoded: list[Encoded]) -> list[Scored]:
        return (await well(encoded))[:-1]

    with pytest.raises(ValueError, match="shorter"):
        raise next(a for a in run(Handle(short), 2) if isinstance(a, ValueError))
