"""The loop learns, ends where it says, repeats itself, and stops when there is no hope."""

import json
import math
from pathlib import Path

import pytest
import torch

from tests import tiny
from tests.training.learning import Run, dials, encoded, started
from training.batches import Rows
from training.loop import Diverged

GOLDEN = Path(__file__).resolve().parents[1] / "golden/losses.txt"


@pytest.fixture(scope="module")
def start(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return started(dials(tiny_base), tmp_path_factory.mktemp("started") / "start")


@pytest.fixture(scope="module")
def rows(tiny_base: Path) -> Rows:
    return encoded(tiny_base, tiny.rows(64))


@pytest.fixture(scope="module")
def val(tiny_base: Path) -> Rows:
    return encoded(tiny_base, tiny.rows(45, seed=9))


def test_the_first_four_losses_are_the_golden_ones(tiny_base: Path, start: Path, rows: Rows, val: Rows) -> None:
    """A refactoring must not move them; a real change edits the file and says why."""
    params = dials(tiny_base, epochs=1, lr=3e-2, checkpoint_every_steps=1)
    losses = [moment.loss for moment in Run(params, start, rows, val).moments]
    golden = [float(line) for line in GOLDEN.read_text().split()]
    assert losses == pytest.approx(golden, rel=1e-3)


def test_it_learns_the_tiny_rows(tiny_base: Path, start: Path, rows: Rows, val: Rows) -> None:
    run = Run(dials(tiny_base, epochs=20), start, rows, val).finish()
    assert run.state.best_score is not None and run.state.best_score > 0.9


def test_two_runs_are_the_same_to_the_last_digit(tiny_base: Path, start: Path, rows: Rows, val: Rows) -> None:
    one, other = (Run(dials(tiny_base), start, rows, val).finish() for _ in range(2))
    assert one.state == other.state
    assert all(torch.equal(a, b) for a, b in zip(one.net.parameters(), other.net.parameters(), strict=True))


@pytest.mark.parametrize(("count", "batch"), [(100, 8), (41, 16), (1, 16)])
def test_epochs_steps_and_learning_rate_agree_t07(
    tiny_base: Path, start: Path, val: Rows, count: int, batch: int
) -> None:
    params = dials(tiny_base, epochs=3, batch_size=batch, checkpoint_every_steps=1)
    run = Run(params, start, encoded(tiny_base, tiny.rows(count)), val).finish()
    an_epoch = math.ceil(count / batch)
    assert run.state.step == run.plan.steps == 3 * an_epoch
    assert [line["step"] for line in run.state.history if "val_loss" in line] == [an_epoch * n for n in (1, 2, 3)]
    rates = [line["lr"] for line in run.state.history if "lr" in line]
    assert rates[-1] == 0.0 and all(0 < rate <= params.lr for rate in rates[:-1])


def test_the_loss_of_a_short_last_batch_is_a_mean_like_the_others_t02(tiny_base: Path, start: Path, val: Rows) -> None:
    same = encoded(tiny_base, tiny.rows(1) * 10)
    params = dials(tiny_base, lr=1e-12, epochs=1, batch_size=4, checkpoint_every_steps=1)
    losses = [moment.loss for moment in Run(params, start, same, val).moments]
    assert len(losses) == 3 and losses == pytest.approx([losses[0]] * 3, rel=1e-4)


def test_a_step_in_parts_is_the_step_t02(tiny_base: Path, start: Path, val: Rows) -> None:
    few = encoded(tiny_base, tiny.rows(41))
    whole, parts = (
        Run(dials(tiny_base, lr=1e-3, max_rows_at_once=rows), start, few, val).finish() for rows in (None, 5)
    )
    assert whole.state.step == parts.state.step
    for ours, theirs in zip(whole.state.history, parts.state.history, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("rate", [1.0, 1e9])
def test_a_diverging_rate_ends_the_training_with_the_step_and_the_remedy(
    tiny_base: Path, start: Path, rows: Rows, val: Rows, rate: float
) -> None:
    with pytest.raises(Diverged, match=r"step \d+.*lower train\.lr"):
        Run(dials(tiny_base, lr=rate), start, rows, val).finish()


def test_a_nan_is_reported_at_the_step_where_it_came(tiny_base: Path, start: Path, rows: Rows, val: Rows) -> None:
    run = Run(dials(tiny_base, epochs=9), start, rows, val)
    steps = 0

    def poison(*_args: object) -> None:
        nonlocal steps
        steps += 1
        if steps == 7:
            run.net.classifier.weight.data.fill_(float("nan"))

    run.optimizer.register_step_post_hook(poison)
    with pytest.raises(Diverged, match="became nan at step 8"):
        run.finish()


def test_training_stops_when_no_epoch_was_better_for_patience_epochs(
    tiny_base: Path, start: Path, rows: Rows, val: Rows
) -> None:
    run = Run(dials(tiny_base, lr=1e-12, epochs=9, patience=2), start, rows, val).finish()
    assert run.state.done and run.state.step == 3 * run.plan.steps_an_epoch
    assert run.state.best_step == run.plan.steps_an_epoch


def test_the_best_epoch_goes_by_the_stated_metric_and_direction_t05(
    tiny_base: Path, start: Path, rows: Rows, val: Rows
) -> None:
    for metric, mode, best in (("macro_f1", "max", max), ("loss", "min", min), ("accuracy", "max", max)):
        run = Run(dials(tiny_base, epochs=6, metric=metric, mode=mode), start, rows, val).finish()
        scores = {line["step"]: line[f"val_{metric}"] for line in run.state.history if "val_loss" in line}
        assert run.state.best_score == best(scores.values())
        assert run.state.best_step == next(step for step, score in scores.items() if score == run.state.best_score)


@pytest.mark.parametrize(
    "dial", [{"metric": "loss", "mode": "max"}, {"metric": "macro_f1", "mode": "min"}, {"metric": "f1_typo"}]
)
def test_a_metric_that_is_unknown_or_contradicts_its_direction_is_refused_before_training_t05(
    tiny_base: Path, dial: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match=r"fix mode|macro_f1"):
        dials(tiny_base, **dial)


def test_frozen_embeddings_stay_and_everything_else_moves(tiny_base: Path, start: Path, rows: Rows, val: Rows) -> None:
    run = Run(dials(tiny_base, freeze_embeddings=True), start, rows, val)
    before = {name: weight.clone() for name, weight in run.net.named_parameters()}
    run.finish()
    still = {name for name, weight in run.net.named_parameters() if torch.equal(weight, before[name])}
    assert "bert.embeddings.word_embeddings.weight" in still
    assert not any("classifier" in name or "layer.0.output.dense" in name for name in still)


def test_history_is_json_with_steps_and_no_times(tiny_base: Path, start: Path, rows: Rows, val: Rows) -> None:
    run = Run(dials(tiny_base), start, rows, val).finish()
    lines = [json.loads(json.dumps(line, allow_nan=False)) for line in run.state.history]
    assert {frozenset(line) for line in lines} == {
        frozenset({"step", "epoch", "train_loss", "lr"}),
        frozenset({"step", "epoch", "val_loss", "val_accuracy", "val_macro_f1"}),
    }
