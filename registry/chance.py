"""How far chance alone moves a number: what a gate must know before it blames a model. Seeded, so repeatable.

Shape letters: B rows, C classes, K bins, S resamples, U distinct (truth, ours, theirs) triples.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

CALIBRATION_BINS = 10
ONE_IN_A_HUNDRED = 2.326
"""Standard deviations that a normal variable exceeds once in a hundred."""
SEED = 7


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval, of 95 % unless said otherwise, and the value measured inside it."""

    low: float
    value: float
    high: float

    @property
    def half_width(self) -> float:
        """Half its length."""
        return (self.high - self.low) / 2


def macro_f1_difference(
    truth_B: Ints, ours_B: Ints, theirs_B: Ints, resamples: int = 2000, coverage: float = 0.95
) -> Interval:
    """Macro-F1 of ours minus theirs on the same rows, with its paired bootstrap interval (Efron, 1979).

    Rows with the same truth and answers are alike, so a resample is one multinomial draw over the distinct triples.
    """
    triples_U3, counts_U = np.unique(np.stack([truth_B, ours_B, theirs_B], axis=1), axis=0, return_counts=True)
    drawn_SU = np.random.default_rng(SEED).multinomial(len(truth_B), counts_U / counts_U.sum(), size=resamples)
    difference_S = _difference(triples_U3, drawn_SU)
    low, high = np.quantile(difference_S, [(1 - coverage) / 2, (1 + coverage) / 2])
    return Interval(float(low), float(_difference(triples_U3, counts_U[None])[0]), float(high))


def _difference(triples_U3: Ints, counts_SU: Ints) -> Floats:
    truth_U, ours_U, theirs_U = triples_U3.T
    return _macro_f1(truth_U, ours_U, counts_SU) - _macro_f1(truth_U, theirs_U, counts_SU)


def _macro_f1(truth_U: Ints, answer_U: Ints, counts_SU: Ints) -> Floats:
    """(S,) macro-F1 over the classes that occur in each resample's truth."""
    classes_C = np.unique(truth_U)
    truth_UC, answer_UC = truth_U[:, None] == classes_C, answer_U[:, None] == classes_C
    hits_SC = counts_SU @ (truth_UC & answer_UC)
    support_SC = counts_SU @ truth_UC
    f1_SC = 2 * hits_SC / np.maximum(support_SC + counts_SU @ answer_UC, 1)
    result: Floats = (f1_SC * (support_SC > 0)).sum(axis=1) / np.maximum((support_SC > 0).sum(axis=1), 1)
    return result


def accuracy_by_guessing(confusion_CC: Ints) -> float:
    """The accuracy that the same answers, dealt to the rows at random, stay below in 99 % of cases.

    Mean and variance of the agreement of two independent raters (Fleiss, Cohen & Everitt, 1969). A model that always
    says the same class is at its mean exactly.
    """
    rows = confusion_CC.sum()
    truth_C, answer_C = confusion_CC.sum(axis=1) / rows, confusion_CC.sum(axis=0) / rows
    mean = float(truth_C @ answer_C)
    variance = mean + mean**2 - float((truth_C * answer_C) @ (truth_C + answer_C))
    return mean + ONE_IN_A_HUNDRED * math.sqrt(max(variance, 0.0) / rows)


def calibration_error_by_chance(top_B: Floats, resamples: int = 500) -> float:
    """The calibration error that perfectly calibrated scores stay below in 95 % of cases on as many rows.

    Each row is right with exactly its top score's probability; small splits wander far from 0 all the same.
    """
    rng = np.random.default_rng(SEED)
    bin_B = np.minimum((top_B * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    errors = [
        np.abs(np.bincount(bin_B, weights=(rng.random(len(top_B)) < top_B) - top_B)).sum() / len(top_B)
        for _ in range(resamples)
    ]
    return float(np.quantile(errors, 0.95))
