"""Labels and scores to numbers, against scikit-learn and by hand."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from training import metrics


def test_macro_f1_equals_scikit_learn_where_every_class_occurs() -> None:
    rng = np.random.default_rng(0)
    truth_B, predicted_B = rng.integers(0, 4, 500), rng.integers(0, 4, 500)
    assert metrics.macro_f1(truth_B, predicted_B) == pytest.approx(f1_score(truth_B, predicted_B, average="macro"))


def test_t08_a_class_absent_from_the_truth_has_null_scores_and_shifts_nobody() -> None:
    scores = metrics.per_class(np.array([0, 2, 2, 0]), np.array([0, 2, 0, 1]), ("a", "b", "c"))
    assert scores["b"] == {"precision": 0.0, "recall": None, "f1": None, "support": 0}
    assert scores["c"]["recall"] == 0.5
    assert scores["a"]["support"] == 2


def test_macro_f1_averages_over_the_classes_that_occur() -> None:
    assert metrics.macro_f1(np.array([0, 0, 2, 2]), np.array([0, 0, 2, 2])) == 1.0


def test_calibration_error_is_the_gap_between_score_and_accuracy() -> None:
    scores_BC = np.array([[0.8, 0.2]] * 10)
    truth_B = np.array([0] * 6 + [1] * 4)
    assert metrics.calibration_error(scores_BC, truth_B) == pytest.approx(0.2)


def test_log_loss_of_a_certain_right_answer_is_zero() -> None:
    assert metrics.log_loss(np.array([[1.0, 0.0]]), np.array([0])) == 0.0
