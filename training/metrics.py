"""Labels and scores -> numbers; pure. Shape letters: B rows, C classes, K bins.

A class without rows in the truth has support 0 and null scores; macro averages run over classes with support.
"""

from typing import TypedDict

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

CALIBRATION_BINS = 10


class ClassScores(TypedDict):
    """How well one class is told from the others."""

    precision: float | None
    recall: float | None
    f1: float | None
    support: int


def accuracy(truth_B: Ints, predicted_B: Ints) -> float:
    """Share of rows whose class is right."""
    return float((truth_B == predicted_B).mean())


def confusion(truth_B: Ints, predicted_B: Ints, classes: int) -> Ints:
    """(C, C) counts: row = truth, column = prediction."""
    counts_CC: Ints = np.bincount(truth_B * classes + predicted_B, minlength=classes * classes).reshape(
        classes, classes
    )
    return counts_CC


def f1_of(confusion_CC: npt.NDArray[np.int64] | Floats) -> Floats:
    """F1 per class from confusion counts (..., C, C); 0 where a class is neither there nor predicted."""
    hits = np.diagonal(confusion_CC, axis1=-2, axis2=-1)
    total = confusion_CC.sum(axis=-1) + confusion_CC.sum(axis=-2)
    result: Floats = 2 * hits / np.maximum(total, 1)
    return result


def macro_f1(truth_B: Ints, predicted_B: Ints) -> float:
    """Unweighted mean of the F1 of the classes that occur in the truth."""
    counts_CC = confusion(truth_B, predicted_B, int(max(truth_B.max(), predicted_B.max())) + 1)
    return float(f1_of(counts_CC)[counts_CC.sum(axis=1) > 0].mean())


def per_class(truth_B: Ints, predicted_B: Ints, labels: tuple[str, ...]) -> dict[str, ClassScores]:
    """Precision, recall, F1 and support by label name; null (not 0/0) where there is nothing to divide."""
    counts_CC = confusion(truth_B, predicted_B, len(labels))
    scores: dict[str, ClassScores] = {}
    for index, label in enumerate(labels):
        hits, support, claimed = (
            int(counts_CC[index, index]),
            int(counts_CC[index].sum()),
            int(counts_CC[:, index].sum()),
        )
        scores[label] = ClassScores(
            precision=hits / claimed if claimed else None,
            recall=hits / support if support else None,
            f1=2 * hits / (support + claimed) if support else None,
            support=support,
        )
    return scores


def log_loss(scores_BC: Floats, truth_B: Ints) -> float:
    """Mean negative log probability of the truth, in nats."""
    return float(-np.log(np.maximum(scores_BC[np.arange(len(truth_B)), truth_B], 1e-12)).mean())


def reliability(scores_BC: Floats, truth_B: Ints) -> list[dict[str, float | int]]:
    """Ten equal bins of the top score: rows, mean score and accuracy of each that has rows."""
    top_B, right_B = scores_BC.max(axis=1), scores_BC.argmax(axis=1) == truth_B
    bin_B = np.minimum((top_B * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    return [
        {
            "rows": int((bin_B == k).sum()),
            "score": float(top_B[bin_B == k].mean()),
            "accuracy": float(right_B[bin_B == k].mean()),
        }
        for k in range(CALIBRATION_BINS)
        if (bin_B == k).any()
    ]


def calibration_error(scores_BC: Floats, truth_B: Ints) -> float:
    """Expected calibration error of the top score over ten equal bins (Naeini et al., AAAI 2015)."""
    bins = reliability(scores_BC, truth_B)
    return float(sum(b["rows"] * abs(b["score"] - b["accuracy"]) for b in bins) / len(truth_B))
