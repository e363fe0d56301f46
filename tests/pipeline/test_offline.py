"""The champion is compared on rows that it was not trained on, as far as its own run says."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.offline import Answered, against
from pipeline.verify import engine_of_champion
from registry.contract import Prediction
from registry.runtimes import FP32
from serving.params import ServeParams
from tests import tiny
from training.keys import key_of, split_of
from training.params import DataParams

LABELS = tiny.LABELS
SEVEN = {"data.seed": "7", "data.val_fraction": "0.1", "data.test_fraction": "0.1", "train.lr": "0.1"}


def rows_of_seed_7() -> Answered:
    """The test split of tiny rows under seed 7, all answered rightly."""
    data = DataParams(source="-", text_column="-", label_column="-", seed=7)
    rows = [row for row in tiny.rows(900) if split_of(key_of(row["text"], 7), data) == "test"]
    answers = [Prediction(row["label"], 1.0, {row["label"]: 1.0}, truncated=False) for row in rows]
    slices: list[str | None] = [row["slice"] for row in rows]
    return Answered([row["text"] for row in rows], [row["label"] for row in rows], slices, answers)


def compared(settings: dict[str, Any], its_labels: tuple[str, ...] = LABELS) -> Any:
    """What is compared with a champion that always says its first label."""
    rows = rows_of_seed_7()
    return against("sha256:c", its_labels, [its_labels[0]] * len(rows.texts), settings, LABELS, rows)


def test_a_champion_of_the_same_split_is_compared_on_every_row() -> None:
    found = compared(SEVEN)
    assert found.training_known and found.left_out == 0
    assert len(found.truth) == len(rows_of_seed_7().texts)
    assert found.ours == found.truth
    assert set(found.theirs) == {0}


def test_the_first_examples_of_changed_answers_are_those_that_become_wrong() -> None:
    rows = rows_of_seed_7()
    its_answers = [answer.label for answer in rows.answers]
    wrong = LABELS[1] if its_answers[0] == LABELS[0] else LABELS[0]
    rows.answers[0] = Prediction(wrong, 1.0, {wrong: 1.0}, truncated=False)
    its_answers[1] = LABELS[1] if its_answers[1] == LABELS[0] else LABELS[0]
    found = against("sha256:c", LABELS, its_answers, SEVEN, LABELS, rows)
    assert [(one.text, one.theirs == one.truth, one.ours == one.truth) for one in found.examples] == [
        (rows.texts[0], True, False),
        (rows.texts[1], False, True),
    ]
    assert found.slices == tuple(rows.slices)


def test_a_champion_of_another_seed_is_compared_on_what_was_test_for_both() -> None:
    found = compared(SEVEN | {"data.seed": "8"})
    everything = len(rows_of_seed_7().texts)
    assert found.training_known
    assert found.left_out + len(found.truth) == everything
    assert len(found.truth) < 0.3 * everything


def test_a_champion_of_unknown_split_is_compared_on_every_row_and_that_is_said() -> None:
    found = compared({})
    assert not found.training_known
    assert found.left_out == 0


@pytest.mark.parametrize("its_labels", [("negative", "positive"), ("negative", "neutral", "other", "positive")])
def test_rows_whose_label_the_champion_does_not_know_are_left_out(its_labels: tuple[str, ...]) -> None:
    found = compared(SEVEN, its_labels)
    truths = {found.labels[index] for index in found.truth}
    assert truths == set(LABELS) & set(its_labels)
    assert found.labels == tuple(sorted({*LABELS, *its_labels}))


def test_a_champion_without_the_precision_asked_for_is_compared_in_its_fastest(tiny_bundle: Path) -> None:
    assert engine_of_champion(tiny_bundle, ServeParams(precision="int8")).runtime == FP32
    assert engine_of_champion(tiny_bundle, ServeParams(precision="auto")).runtime == FP32
    on_gpu = engine_of_champion(tiny_bundle, ServeParams(precision="bf16", num_gpus=1.0))
    assert (on_gpu.runtime, on_gpu.device) == (FP32, "cuda")
