"""Checkpoint -> bundle: the model files, the calibrated contract, the canaries that guard both."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from registry import bundle, scorer
from registry.bundle import Manifest
from registry.contract import Canary, FloatArray, probabilities
from registry.files import new_folder

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


def seal(checkpoint: Path, folder: Path, temperature: float) -> Manifest:
    """Write the bundle: pack the model, ask the canaries, seal their answers in. Deterministic."""
    contract = bundle.read_contract(checkpoint).model_copy(update={"temperature": temperature})
    with new_folder(folder) as scratch:
        bundle.pack(checkpoint, contract, scratch)
        loaded = scorer.load(scratch)
        contract = contract.model_copy(update={"canaries": tuple(_canary(loaded, text) for text in CANARY_TEXTS)})
        bundle.write_contract(scratch, contract)
        manifest = scorer.load(scratch).digest
    return bundle.check(folder, manifest)


def _canary(loaded: scorer.Scorer, text: str) -> Canary:
    (encoded,) = loaded.encode([text])
    (answer,) = loaded.score([encoded])
    scores = tuple(round(answer.scores[label], 4) for label in loaded.contract.labels)
    return Canary(text=text, token_ids=encoded.ids, label=answer.label, scores={loaded.runtime: scores})
