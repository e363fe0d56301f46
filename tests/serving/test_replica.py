"""What happens inside a replica, told by scorers that answer with what they see."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import httpx
import pytest

from registry import scorer
from registry.bundle import VersionRef, encoder_of
from registry.contract import Encoded, FloatArray
from serving.replica import WARM_TEXTS, warm_up
from tests import tiny
from tests.serving.conftest import Deploy
from tests.serving.fakes import broken_by, number_in, poisoned, slow, tell_batch, tell_threads


def ask_at_once(url: str, texts: list[str], timeout_s: float = 30) -> list[httpx.Response | Exception]:
    """One request a text, all at the same time."""

    async def ask() -> list[httpx.Response | BaseException]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(timeout=timeout_s, limits=limits) as client:
            asked = (client.post(f"{url}/predict", json={"text": text}) for text in texts)
            return await asyncio.gather(*asked, return_exceptions=True)

    return [answer for answer in asyncio.run(ask()) if isinstance(answer, httpx.Response | Exception)]


def test_a_gpu_is_warmed_up_with_full_batches_of_several_lengths(tiny_bundle: Path) -> None:
    loaded, seen = scorer.load(tiny_bundle), set[tuple[int, int]]()
    real = loaded.forward

    def telling(encoded: Sequence[Encoded]) -> FloatArray:
        seen.add((len(encoded), len(encoded[0].ids)))
        return real(encoded)

    loaded.forward = telling
    warm_up(loaded)
    assert {texts for texts, _ in seen} == {WARM_TEXTS}
    assert {tokens for _, tokens in seen} == {16, tiny.MAX_TOKENS}


def statuses(answers: list[httpx.Response | Exception]) -> list[int | str]:
    return [a.status_code if isinstance(a, httpx.Response) else type(a).__name__ for a in answers]


def health_within(url: str, status: int, seconds: float) -> httpx.Response:
    """Ask until /health has this status. Every answer must come within a second."""
    deadline = time.monotonic() + seconds
    while True:
        response = httpx.get(f"{url}/health", timeout=1)
        if response.status_code == status or time.monotonic() > deadline:
            assert response.status_code == status, response.text
            return response
        time.sleep(0.2)


def test_texts_that_come_together_share_a_forward_and_none_is_too_large(
    deploy: Deploy, tiny_version: VersionRef
) -> None:
    with deploy(tiny_version, partial(tell_batch, pause_s=0.1), max_batch_size=8) as url:
        answers = ask_at_once(url, ["good"] * 32)
        assert statuses(answers) == [200] * 32
        told = [number_in(a.json()["predictions"][0]["scores"]) for a in answers if isinstance(a, httpx.Response)]
        headers = [a.headers["server-timing"].rsplit("=", 1)[1] for a in answers if isinstance(a, httpx.Response)]
        assert headers == [f'"{size}"' for size in told]
        assert max(told) == 8
        assert sum(told) / len(told) > 4
        in_list = httpx.post(f"{url}/predict", json={"texts": ["good"] * 40}, timeout=30).json()["predictions"]
        assert max(number_in(one["scores"]) for one in in_list) == 8


@pytest.mark.slow
def test_a_batch_of_one_is_a_batch(deploy: Deploy, tiny_version: VersionRef) -> None:
    with deploy(tiny_version, tell_batch, max_batch_size=1) as url:
        answers = ask_at_once(url, ["good"] * 6)
        assert {number_in(a.json()["predictions"][0]["scores"]) for a in answers} == {1}


@pytest.mark.parametrize(("num_cpus", "expected"), [pytest.param(0.1, 1, marks=pytest.mark.slow), (2.0, 2)])
def test_t10_threads_are_the_cpus_assigned(
    deploy: Deploy, tiny_version: VersionRef, num_cpus: float, expected: int
) -> None:
    with deploy(tiny_version, tell_threads, num_cpus=num_cpus) as url:
        response = httpx.post(f"{url}/predict", json={"text": "good"}, timeout=30)
        assert number_in(response.json()["predictions"][0]["scores"]) == expected


def test_s05_one_bad_text_fails_alone(deploy: Deploy, tiny_version: VersionRef) -> None:
    encode = encoder_of(tiny_version.folder)
    poison = encode(["bad bad bad"])[0].ids
    texts = ["good film", "bad bad bad", *[f"good {word}" for word in ("day", "place", "start", "film", "it", "my")]]
    expected = scorer.load(tiny_version.folder)(texts)
    with deploy(tiny_version, partial(poisoned, poison=poison), batch_wait_s=0.3) as url:
        for _ in range(2):
            answers = ask_at_once(url, texts)
            assert statuses(answers) == [200, 500, *[200] * 6]
            for answer, want in zip(answers, expected, strict=True):
                if isinstance(answer, httpx.Response) and answer.status_code == 200:
                    assert answer.json()["predictions"][0]["scores"] == pytest.approx(want.scores, abs=1e-5)
        assert httpx.get(f"{url}/health").status_code == 200


@pytest.mark.slow
def test_s06_clients_that_gave_up_do_not_harm_those_who_come_later(deploy: Deploy, tiny_version: VersionRef) -> None:
    with deploy(tiny_version, partial(slow, pause_s=0.2), max_batch_size=8) as url:
        patient = ["good film"] * 60
        assert statuses(ask_at_once(url, patient)) == [200] * 60
        gone = statuses(ask_at_once(url, patient, timeout_s=0.15))
        assert "ReadTimeout" in gone
        time.sleep(1)
        assert statuses(ask_at_once(url, patient)) == [200] * 60


@pytest.mark.slow
@pytest.mark.parametrize("how", ["raise", "nan", "hang"])
def test_s10_a_model_that_breaks_is_unhealthy_and_replaced(
    deploy: Deploy, tiny_version: VersionRef, tmp_path: Path, how: str
) -> None:
    flag = tmp_path / "broken"
    with deploy(tiny_version, broken_by(flag, how), graceful_shutdown_s=1.0) as url:
        before = httpx.post(f"{url}/predict", json={"text": "good"}, timeout=30)
        flag.touch()
        health_within(url, 503, 8)
        refused = httpx.post(f"{url}/predict", json={"text": "good"}, timeout=30)
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        flag.unlink()
        health_within(url, 200, 40)
        after = httpx.post(f"{url}/predict", json={"text": "good"}, timeout=30)
        assert after.status_code == 200
        # One that is hung does not come back by itself; the others may have recovered before they were replaced.
        assert how != "hang" or before.headers["x-served-by"] != after.headers["x-served-by"]


@pytest.mark.slow
def test_s10_health_answers_within_a_second_while_the_model_is_blocked(
    deploy: Deploy, tiny_version: VersionRef
) -> None:
    with deploy(tiny_version, partial(slow, pause_s=6.0)) as url:
        asked = []

        async def ask() -> None:
            async with httpx.AsyncClient(timeout=30) as client:
                waiting = asyncio.create_task(client.post(f"{url}/predict", json={"text": "good"}))
                while not waiting.done():
                    began = time.monotonic()
                    response = await client.get(f"{url}/health")
                    asked.append((response.status_code, time.monotonic() - began))
                    await asyncio.sleep(0.2)
                assert (await waiting).status_code == 200

        asyncio.run(ask())
        assert len(asked) > 20
        assert {status for status, _ in asked} == {200}
        assert max(seconds for _, seconds in asked) < 1
