"""The batched deployment: `@serve.batch` around one scorer."""

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from pydantic import JsonValue
from ray import serve

from registry.bundle import VersionRef
from registry.contract import Encoded, Prediction
from registry.runtimes import RUNTIMES, Engine
from serving.messages import Alive, Held, Scored
from serving.metrics import Forwards

if TYPE_CHECKING:
    from registry.scorer import Scorer

Load = Callable[[Path, str, Engine], "Scorer"]
"""Bundle folder, its digest, how to load it -> scorer."""

# Serve gives a health check 2 s; ours must have its own end before that.
CANARY_TIMEOUT_S = 1.5
WARM_LENGTHS, WARM_TEXTS = (16, 64, 256), 32


class Unhealthy(Exception):
    """The replica cannot be trusted any more; Serve replaces it."""


class Batching(TypedDict):
    """Serve's `user_config`: what changes without a restart."""

    calls_per_batch: int


def load_bundle(folder: Path, digest: str, engine: Engine) -> "Scorer":
    """Load the bundle in this process. Raises BundleError on other bytes or other answers."""
    # Here, so that who builds or asks a graph need not wait for torch and transformers.
    from registry import scorer

    loaded = scorer.load(folder, digest, engine)
    if engine.device == "cuda":
        warm_up(loaded)
    return loaded


def warm_up(scorer: "Scorer") -> None:
    """Forward full batches of several lengths: a GPU's first forward of a kind waits for kernels and memory."""
    (longest, *_) = sorted((canary.token_ids for canary in scorer.contract.canaries), key=len, reverse=True)
    for length in {min(length, len(longest)) for length in WARM_LENGTHS}:
        scorer.score([Encoded(longest[:length], truncated=False)] * WARM_TEXTS)


def use_threads(threads: int) -> None:
    """Let torch, where it is the engine, use this many for what the calling thread asks of it (it is per thread)."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)


class Replica:
    """One copy of one version, answering in batches. Options are applied by `serving.app.build`."""

    def __init__(self, version: VersionRef, engine: Engine, stuck_after_s: float, load: Load = load_bundle) -> None:
        """Loading re-hashes the bundle and replays every canary. Raises BundleError, which stops the deployment."""
        self._scorer = load(version.folder, version.digest, engine)
        self._canary = min(self._scorer.contract.canaries, key=lambda canary: len(canary.token_ids))
        self._name = str(serve.get_replica_context().replica_id.unique_id)
        self._stuck_after_s = stuck_after_s
        self._batch_began: float | None = None
        self._hangs = False
        self._told = Forwards()
        self._free = asyncio.Event()
        self._free.set()
        # Two threads, so that a canary never waits behind a batch: torch lets go of the lock while it computes.
        self._batch_thread, self._canary_thread = (
            ThreadPoolExecutor(1, name, initializer=use_threads, initargs=(engine.threads,))
            for name in ("batch", "canary")
        )

    def reconfigure(self, batching: Batching) -> None:
        """Serve calls this with `user_config`, at the start and on a light update."""
        self._together.set_max_batch_size(batching["calls_per_batch"])

    async def score(self, wanted: Held, encoded: Sequence[Encoded]) -> list[Scored] | None:
        """The answers to one call's texts, computed together with whatever other calls are waiting.

        None when they are to be asked elsewhere: what is wanted is not held here, or the model hangs.
        """
        if wanted != (self._scorer.digest, self._scorer.runtime):
            return None
        # Serve closes a batch by its clock even while the model is busy, and many small ones would line up.
        # So calls join the queue only when the model is free, all that came meanwhile at once.
        await self._free.wait()
        if self._hangs:
            return None
        scored: list[Scored] = await self._together(encoded)
        return scored

    # No wait here: the ingress has gathered already, and calls gather while the model is busy.
    @serve.batch(batch_wait_timeout_s=0)  # type: ignore[untyped-decorator]  # ray is not followed by mypy
    async def _together(self, calls: list[Sequence[Encoded]]) -> list[list[Scored]]:
        self._batch_began = time.monotonic()
        self._free.clear()
        try:
            texts = [encoded for call in calls for encoded in call]
            done = await asyncio.get_running_loop().run_in_executor(self._batch_thread, self._forward, texts)
        finally:
            self._batch_began, self._hangs = None, False
            self._free.set()
        self._told(done[0])
        scored = iter(done)
        return [list(islice(scored, len(call))) for call in calls]

    def _forward(self, encoded: Sequence[Encoded]) -> list[Scored]:
        began = time.perf_counter()
        answers: Sequence[Prediction | None]
        try:
            answers, padding = self._scorer.score_padded(encoded)
        except Exception:
            # One text must not fail its batch-mates: ask each alone.
            answers, padding = [self._alone(one) for one in encoded], 0.0
        ms = (time.perf_counter() - began) * 1000
        return [Scored(answer, self._name, ms, len(encoded), padding) for answer in answers]

    def _alone(self, encoded: Encoded) -> Prediction | None:
        try:
            return self._scorer.score([encoded])[0]
        except Exception:
            return None

    async def canary(self) -> Alive:
        """Answer a text whose answer is known, outside the batches; for `/health`."""
        fault = await self._fault()
        return Alive(fault, self._loaded(), self._name, self._hangs)

    async def check_health(self) -> None:
        """Serve asks every second and replaces the replica after three failures. Raises Unhealthy."""
        fault = await self._fault()
        if fault:
            raise Unhealthy(fault)

    async def _fault(self) -> str | None:
        began = self._batch_began
        if began is not None and time.monotonic() - began > self._stuck_after_s:
            self._hangs = True
            # Who waits for the model waits in vain; elsewhere there may be one that answers.
            self._free.set()
            return f"a batch has been in the model for more than {self._stuck_after_s:g} s"
        asked = asyncio.get_running_loop().run_in_executor(self._canary_thread, self._replay)
        try:
            return await asyncio.wait_for(asked, CANARY_TIMEOUT_S)
        except TimeoutError:
            return f"the model did not answer a canary within {CANARY_TIMEOUT_S:g} s"

    def _replay(self) -> str | None:
        from registry.scorer import canary_fault

        try:
            (answer,) = self._scorer.score([Encoded(self._canary.token_ids, truncated=False)])
        except Exception as error:
            return f"the model fails on a canary: {type(error).__name__}"
        return canary_fault(self._scorer, self._canary.text, answer)

    def _loaded(self) -> dict[str, JsonValue]:
        contract, runtime = self._scorer.contract, self._scorer.runtime
        return {
            "digest": self._scorer.digest,
            "runtime": runtime,
            "precision": RUNTIMES[runtime].precision,
            "device": self._scorer.device,
            "labels": list(contract.labels),
            "max_tokens": contract.max_tokens,
            "training": dict(contract.training),
        }
