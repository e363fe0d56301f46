"""Steps and rates add up."""

from pathlib import Path

import pytest

from tests.training.learning import dials
from training import plan
from training.plan import Plan


def test_the_rate_climbs_then_falls_and_no_step_is_lost_to_a_rate_of_nought() -> None:
    whole = Plan(100, 100, 10, frozenset())
    factors = [whole.lr_factor(step) for step in range(100)]
    assert factors[10] == 1.0 == max(factors) and min(factors) > 0
    assert factors[:11] == sorted(factors[:11]) and factors[10:] == sorted(factors[10:], reverse=True)
    assert whole.lr_factor(100) == 0.0


@pytest.mark.parametrize(("rows", "steps_an_epoch"), [(1, 1), (16, 1), (17, 2), (100, 7)])
def test_an_epoch_has_a_step_for_every_batch_begun_and_is_scored_at_its_end(rows: int, steps_an_epoch: int) -> None:
    whole = plan.whole(rows, dials(Path("/"), epochs=3))
    assert whole.steps_an_epoch == steps_an_epoch and whole.steps == 3 * steps_an_epoch
    assert sorted(whole.score_after) == [steps_an_epoch * epoch for epoch in (1, 2, 3)]
    assert whole.warmup_steps < whole.steps
