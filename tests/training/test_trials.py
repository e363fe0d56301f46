"""What a search tries, and who wins."""

import math
from pathlib import Path

import pytest

from tests.training.learning import dials
from training import trials
from training.params import Between, SearchSpace, TuneParams
from training.trials import SearchFailed, Trial


def tune(**changes: object) -> TuneParams:
    space = SearchSpace(lr=[3e-3, 1e-3], batch_size=[8, 16])
    return TuneParams.model_validate({"space": space, "min_rows": 100, "max_val_rows": 30, **changes})


def trial(number: int, score: float | None, rung: int = 2, status: str = trials.FINISHED) -> Trial:
    return Trial(trial=f"{number:02d}", settings={"lr": 1e-4}, rung=rung, steps=9, score=score, status=status)


def test_the_best_is_sought_among_those_that_reached_the_highest_rung() -> None:
    tried = [
        trial(0, 0.9, rung=1, status=trials.STOPPED),
        trial(1, 0.6),
        trial(2, 0.7),
        trial(3, None, 0, "failed: x"),
    ]
    assert trials.best_of(tried).trial == "02"


def test_of_equals_the_first_wins_t06() -> None:
    assert trials.best_of([trial(1, 1.0), trial(2, 1.0), trial(3, 1.0)]).trial == "01"


def test_a_score_of_nought_is_a_score() -> None:
    assert trials.best_of([trial(0, None, 1, "failed: x"), trial(1, 0.0)]).trial == "01"


def test_the_train_branchs_own_settings_are_a_trial_where_the_space_holds_them() -> None:
    params = dials(Path("/"), lr=2e-3)
    between = SearchSpace(lr=Between(low=1e-3, high=1e-2), batch_size=[8, 16])
    assert trials.own(params, trials.space(params, tune(space=between), rows=100)) == {"lr": 2e-3, "batch_size": 16}
    assert trials.own(params, trials.space(params, tune(), rows=100)) is None, "2e-3 is none of the choices"
    assert trials.own(dials(Path("/"), lr=2e-2), trials.space(params, tune(space=between), rows=100)) is None


def test_a_range_has_two_ends() -> None:
    with pytest.raises(ValueError, match=r"low 0\.01 is not below high 0\.001"):
        Between(low=1e-2, high=1e-3)


def test_a_rate_is_tried_as_it_is_written_down() -> None:
    assert trials.rounded({"lr": 1.23456e-4, "batch_size": 16}) == {"lr": 1.23e-4, "batch_size": 16}


def test_batches_are_cut_to_the_rows_there_are_and_then_not_tried_twice() -> None:
    params = dials(Path("/"))
    assert trials.space(params, tune(), rows=10)["batch_size"] == [8, 10]
    assert trials.space(params, tune(), rows=5)["batch_size"] == [5]


def test_a_batch_that_does_not_divide_over_the_workers_is_refused_before_any_trial() -> None:
    space = SearchSpace(batch_size=[16, 9])
    with pytest.raises(SearchFailed, match=r"tune\.space.*batch_size 9 does not divide"):
        trials.space(dials(Path("/"), num_workers=2), tune(space=space), rows=100)


def test_a_search_over_nothing_is_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match="set enabled to false"):
        tune(space=SearchSpace())
    assert not tune(space=SearchSpace(), enabled=False).enabled


@pytest.mark.parametrize(("rows", "seen"), [(50, 50), (900, 900), (5000, 1000), (20000, 2000)])
def test_trials_see_the_larger_of_a_tenth_and_a_thousand_rows_or_all(rows: int, seen: int) -> None:
    assert trials.subset(rows, tune(min_rows=1000, rows_fraction=0.1)) == seen


@pytest.mark.parametrize("steps", [1, 2, 13, 60])
def test_rungs_are_fractions_of_one_pass(steps: int) -> None:
    for rungs in (1, 2, 3):
        at = trials.rung_steps(steps, tune(rungs=rungs))
        assert len(at) == rungs and at[-1] == steps and at == sorted(at) and at[0] >= 1
    assert trials.rung_steps(90, tune(rungs=3)) == [math.ceil(90 / 9), 30, 90]
