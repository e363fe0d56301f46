"""Ways to break a good candidate where it runs: in a replica's scorer, in the ingress, in what was deployed.

Canaries are answered as ever, or a replica would be replaced before any gate could look: these are the faults that
get past them.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from registry.bundle import MODEL, VersionRef
from registry.contract import Encoded, Encoder, FloatArray
from registry.runtimes import Engine
from registry.scorer import Scorer
from registry.torch_engine import TorchForward
from serving import model
from serving.admission import Admission
from serving.health import Monitor
from serving.ingress import Ingress
from serving.messages import Scored
from serving.replica import Load, Replica, load_bundle
from tests.serving.fakes import Forward, instead

KEPT: list[np.ndarray] = []
Change = Callable[[Forward, Sequence[Encoded]], FloatArray]


def labels_swapped(real: Forward, encoded: Sequence[Encoded]) -> FloatArray:
    """The first class for the last and the other way round."""
    return real(encoded)[:, ::-1]


def shifted_by_one(real: Forward, encoded: Sequence[Encoded]) -> FloatArray:
    """Each text of a batch gets its neighbour's answer."""
    return np.roll(real(encoded), 1, axis=0)


def wrong_shape(real: Forward, encoded: Sequence[Encoded]) -> FloatArray:
    """As many rows as texts, one class too few."""
    return real(encoded)[:, :-1]


def another_temperature(real: Forward, encoded: Sequence[Encoded]) -> FloatArray:
    """Scores that are surer than the contract's temperature makes them."""
    return real(encoded) * np.float32(1.5)


def mask_forgotten(real: Forward, encoded: Sequence[Encoded]) -> FloatArray:
    """Padding counts as text, so an answer depends on its batch-mates."""
    longest = max(len(one.ids) for one in encoded)
    return real([Encoded(one.ids + (0,) * (longest - len(one.ids)), one.truncated) for one in encoded])


def half_precision(real: Forward, encoded: Sequence[Encoded]) -> FloatArray:
    """fp32 was promised; these are rounded as bfloat16 would round them."""
    bits = real(encoded).astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32)


def slow(real: Forward, encoded: Sequence[Encoded]) -> FloatArray:
    """More than half a second on top of every forward."""
    time.sleep(0.6)
    return real(encoded)


def leaking(real: Forward, encoded: Sequence[Encoded]) -> FloatArray:
    """Every forward keeps two megabytes for ever."""
    KEPT.append(np.ones(2**18))
    return real(encoded)


def changed(folder: Path, digest: str, engine: Engine, change: Change) -> Scorer:
    """The real scorer with another forward for all but the canaries."""
    return instead(load_bundle(folder, digest, engine), change)


def dropout_left_on(folder: Path, digest: str, engine: Engine) -> Scorer:
    """A model in training mode."""
    training = TorchForward(folder / MODEL, engine.device)
    training._model.train()
    return instead(load_bundle(folder, digest, engine), lambda _, encoded: training(encoded))


def stale_weights(folder: Path, digest: str, engine: Engine, other: Path) -> Scorer:
    """Another bundle's weights under this one's digest."""
    stale = TorchForward(other / MODEL, engine.device)
    return instead(load_bundle(folder, digest, engine), lambda _, encoded: stale(encoded))


def forged_digest(folder: Path, digest: str, engine: Engine) -> Scorer:
    """The right model, which says that it is another."""
    scorer = load_bundle(folder, digest, engine)
    scorer.digest = "sha256:" + "0" * 64
    return scorer


def another_runtime(folder: Path, digest: str, engine: Engine) -> Scorer:
    """The right bytes, not in the runtime that was asked for."""
    scorer = load_bundle(folder, digest, engine)
    scorer.runtime = "onnx-int8"
    return scorer


def slow_to_load(folder: Path, digest: str, engine: Engine) -> Scorer:
    """As a large model: who dies is missed for longer than `/health` may take to notice."""
    time.sleep(8)
    return load_bundle(folder, digest, engine)


def in_forward(change: Change) -> Callable[[Path, str, Engine], Scorer]:
    """`changed` as a loader."""
    return partial(changed, change=change)


def slowly(folder: Path, digest: str, engine: Engine, load: Load) -> Scorer:
    """What `load` loads, slow."""
    return instead(load(folder, digest, engine), slow)


class OneByOne(Replica):
    """Gathers batches and forwards each text alone."""

    def _forward(self, encoded: Sequence[Encoded]) -> list[Scored]:
        return [super(OneByOne, self)._forward([one])[0] for one in encoded]


class CutsLeft(Ingress):
    """Long texts lose their beginning, not their end."""

    def __init__(self, model: object, version: VersionRef, *given: object) -> None:
        super().__init__(model, version, *given)  # type: ignore[arg-type]
        self._predictor = replace(self._predictor, encode=_LeftEncoder(version.folder, self._predictor.encode))


class _LeftEncoder(Encoder):
    def __init__(self, folder: Path, right: Encoder) -> None:
        super().__init__(folder / MODEL / "tokenizer.json", 100_000, pad_id=0)
        self._right = right

    def __call__(self, texts: Sequence[str]) -> list[Encoded]:
        cut = self._right(texts)
        whole = super().__call__(texts)
        return [
            Encoded((one.ids[0], *all_of.ids[1 - len(one.ids) :]), True) if one.truncated else one
            for one, all_of in zip(cut, whole, strict=True)
        ]


class NeverFull(Ingress):
    """Queues whatever comes."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._predictor = replace(self._predictor, admission=Admission(10**9))


class LosesTheDead(Ingress):
    """What was with a replica that died is not asked again."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        model.GONE = ()  # type: ignore[assignment]


class BlindHealth(Ingress):
    """Whatever the canary says, all is well."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._predictor.monitor.__class__ = _BlindMonitor


class _BlindMonitor(Monitor):
    @property
    def fault(self) -> None:
        return None


class NobodyAlone(Replica):
    """One text that the model fails on fails its batch-mates."""

    def _alone(self, _: Encoded) -> None:
        return None


class LyingHealth(Ingress):
    """`/health` names the graph that was verified, not the one that runs."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._about = {**self._about, "graph_digest": "sha256:" + "0" * 64}


class WrongVersion(Ingress):
    """Answers in the name of another version."""

    def __init__(self, model: object, version: VersionRef, *given: object) -> None:
        super().__init__(model, version.model_copy(update={"version": "99"}), *given)  # type: ignore[arg-type]
