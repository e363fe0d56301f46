"""Checkpoint -> bundle: the model files, the kept runtimes, the calibrated contract, the canaries that guard them."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from registry import bundle, scorer
from registry.bundle import BundleError, Manifest
from registry.contract import Canary, FloatArray, probabilities
from registry.files import new_folder
from registry.runtimes import FOLDER, FP32, Engine

# Short, long, non-Latin, emoji, mark-up, digits: where tokenizers and kernels differ, one of these differs.
CANARY_TEXTS = (
    "a place to start",
    "Too tepid to be good, too good to be bad.",
    "I LOVED it!!! 10/10 :-)",
    "naïve café, e\u0301toile",
    "これはとても良いです。",
    "👍🏽 👩‍👩‍👧 ok",
    "<b>refund</b> please & thank you\n\tnow",
    "word " * 600,
)
# Temperatures outside say that the logits are broken rather than badly scaled.
TEMPERATURES = (0.05, 20.0)


def fit_temperature(logits_BC: FloatArray, truth_B: npt.NDArray[np.int64]) -> float:
    """The temperature that minimises the negative log likelihood of `truth_B`, 4 decimals (Guo et al., ICML 2017)."""

    def loss(log_temperature: float) -> float:
        scores_BC = probabilities(logits_BC, float(np.exp(log_temperature)))
        return float(-np.log(scores_BC[np.arange(len(truth_B)), truth_B] + 1e-12).mean())

    low, high = np.log(TEMPERATURES)
    return round(float(np.exp(minimize_scalar(loss, bounds=(low, high), method="bounded").x)), 4)


def seal(checkpoint: Path, folder: Path, temperature: float, kept: Mapping[str, Path] | None = None) -> Manifest:
    """Write the bundle: pack the model, ask the canaries in every runtime, seal their answers in. Deterministic.

    `kept`: what was built for the runtimes beside fp32, a folder each. Raises BundleError when no canary is answered
    alike by all.
    """
    contract = bundle.read_contract(checkpoint).model_copy(update={"temperature": temperature})
    with new_folder(folder) as scratch:
        bundle.pack(checkpoint, contract, scratch)
        for runtime, built in (kept or {}).items():
            shutil.copytree(built, scratch / FOLDER / runtime)
        bundle.write_contract(scratch, contract)
        runtimes = (FP32, *(kept or {}))
        asked = [_ask_canaries(scorer.load(scratch, engine=Engine(runtime))) for runtime in runtimes]
        # A text on whose label the runtimes are not at one is no canary; few are, or the runtime would not be kept.
        canaries = tuple(
            _merged(answers) for answers in zip(*asked, strict=True) if len({answer.label for answer in answers}) == 1
        )
        if not canaries:
            raise BundleError(
                f"{', '.join(runtimes)} agree on no canary text, so none of them can be told broken from sound. "
                "Take the precisions out of package.precisions, or raise package.min_agreement."
            )
        bundle.write_contract(scratch, contract.model_copy(update={"canaries": canaries}))
        (digest,) = {scorer.load(scratch, engine=Engine(runtime)).digest for runtime in runtimes}
    return bundle.check(folder, digest)


def _ask_canaries(loaded: scorer.Scorer) -> list[Canary]:
    found = []
    for text in CANARY_TEXTS:
        (encoded,) = loaded.encode([text])
        (answer,) = loaded.score([encoded])
        scores = tuple(round(answer.scores[label], 4) for label in loaded.contract.labels)
        found.append(Canary(text=text, token_ids=encoded.ids, label=answer.label, scores={loaded.runtime: scores}))
    return found


def _merged(answers: Sequence[Canary]) -> Canary:
    """One canary with the scores of all runtimes."""
    scores = {name: held for canary in answers for name, held in canary.scores.items()}
    return answers[0].model_copy(update={"scores": scores})
