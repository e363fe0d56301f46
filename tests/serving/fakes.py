"""Scorers that show what happens inside a replica: the real one, with another forward for all but the canaries."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from registry.contract import Encoded, FloatArray
from registry.runtimes import Engine
from registry.scorer import Scorer
from serving.replica import load_bundle

Forward = Callable[[Sequence[Encoded]], FloatArray]


def instead(scorer: Scorer, forward: Callable[[Forward, Sequence[Encoded]], FloatArray]) -> Scorer:
    """The scorer with another forward for all but the canaries."""
    real, canaries = scorer.forward, {canary.token_ids for canary in scorer.contract.canaries}

    def chosen(encoded: Sequence[Encoded]) -> FloatArray:
        is_canary = len(encoded) == 1 and encoded[0].ids in canaries
        return real(encoded) if is_canary else forward(real, encoded)

    scorer.forward = chosen
    return scorer


def number_in(scores: dict[str, float]) -> int:
    """The number that a telling fake put into the scores of three classes."""
    first = scores["negative"]
    return round(2 * first / (1 - first))


def _telling(number: int, texts: int) -> FloatArray:
    # Softmax of (log n, 0, 0) is (n, 1, 1) / (n + 2).
    return np.tile(np.array([np.log(number), 0, 0], dtype=np.float32), (texts, 1))


def tell_batch(folder: Path, digest: str, engine: Engine, pause_s: float = 0.0) -> Scorer:
    """Answers with the number of texts in the forward."""

    def forward(_: Forward, encoded: Sequence[Encoded]) -> FloatArray:
        time.sleep(pause_s)
        return _telling(len(encoded), len(encoded))

    return instead(load_bundle(folder, digest, engine), forward)


def tell_threads(folder: Path, digest: str, engine: Engine) -> Scorer:
    """Answers with the threads that torch has where the forward runs."""
    return instead(
        load_bundle(folder, digest, engine),
        lambda _, encoded: _telling(torch.get_num_threads(), len(encoded)),
    )


def slow(folder: Path, digest: str, engine: Engine, pause_s: float) -> Scorer:
    """The real model, with a pause before each forward."""

    def forward(real: Forward, encoded: Sequence[Encoded]) -> FloatArray:
        time.sleep(pause_s)
        return real(encoded)

    return instead(load_bundle(folder, digest, engine), forward)


def poisoned(folder: Path, digest: str, engine: Engine, poison: tuple[int, ...]) -> Scorer:
    """The real model, which fails on any batch that holds these token ids."""

    def forward(real: Forward, encoded: Sequence[Encoded]) -> FloatArray:
        if any(one.ids == poison for one in encoded):
            raise IndexError("index out of range in self")
        return real(encoded)

    return instead(load_bundle(folder, digest, engine), forward)


def breaks(folder: Path, digest: str, engine: Engine, flag: Path, how: str) -> Scorer:
    """The real model until the file `flag` is there; then it raises, answers NaN or hangs, canaries included."""
    scorer = load_bundle(folder, digest, engine)
    real = scorer.forward

    def forward(encoded: Sequence[Encoded]) -> FloatArray:
        if not flag.exists():
            return real(encoded)
        if how == "raise":
            raise RuntimeError("device-side assert triggered")
        if how == "hang":
            time.sleep(3600)
        return np.full((len(encoded), 3), np.nan, dtype=np.float32)

    scorer.forward = forward
    return scorer


def broken_by(flag: Path, how: str) -> Callable[[Path, str, Engine], Scorer]:
    """`breaks` as a loader."""
    return partial(breaks, flag=flag, how=how)
