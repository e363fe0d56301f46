"""The search tries what it says, judges by numbers only, and answers the same twice."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.cluster import RayParams, cluster
from tests import tiny
from tests.pipeline.project import write_split
from tests.training.learning import dials, started
from training import search
from training.params import SearchSpace, TuneParams
from training.search import SearchFailed, Trial


def tune(**changes: object) -> TuneParams:
    space = SearchSpace(lr=[3e-3, 1e-3], batch_size=[8, 16])
    return TuneParams.model_validate({"space": space, "min_rows": 100, "max_val_rows": 30, **changes})


def trial(number: int, score: float | None, rung: int = 2, status: str = search.FINISHED) -> Trial:
    return Trial(trial=f"{number:02d}", settings={"lr": 1e-4}, rung=rung, steps=9, score=score, status=status)


@pytest.fixture(scope="module")
def ray_on_two_cpus() -> Iterator[None]:
    with cluster(RayParams(num_cpus=2)):
        yield


class Case:
    """300 tiny rows, of which the trials see a third."""

    def __init__(self, folder: Path, base: Path) -> None:
        self.folder, self.params = folder, dials(base)
        self.train, self.val = folder / "train.parquet", folder / "val.parquet"
        write_split(self.train, tiny.rows(300))
        write_split(self.val, tiny.rows(60, seed=9))
        self.start = started(self.params, folder / "start")

    def search(self, name: str, dials_of_tune: TuneParams) -> list[Trial]:
        (self.folder / name).mkdir()
        return search.search(self.start, self.train, self.val, self.params, dials_of_tune, self.folder / name)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory, tiny_base: Path) -> Case:
    return Case(tmp_path_factory.mktemp("search"), tiny_base)


@pytest.mark.usefixtures("ray_on_two_cpus")
def test_a_planted_rate_of_one_loses_and_two_searches_agree(case: Case) -> None:
    dials_of_tune = tune(space=SearchSpace(lr=[1.0, 1e-2, 3e-3], batch_size=[8]))
    one, other = (case.search(name, dials_of_tune) for name in ("one", "other"))
    assert one == other and [each.trial for each in one] == ["00", "01", "02"]
    best = search.best_of(one)
    top = max(each.rung for each in one if each.score is not None)
    assert best.score == max(each.score for each in one if each.score is not None and each.rung == top)
    planted = next(each for each in one if each.settings["lr"] == 1.0)
    assert planted.trial != best.trial
    assert planted.status.startswith("failed") or (planted.score or 0) < (best.score or 0)
    assert all(each.steps in {0, *search.rung_steps(13, dials_of_tune)} for each in one)


@pytest.mark.usefixtures("ray_on_two_cpus")
def test_when_every_trial_is_nan_the_search_fails_with_the_reasons_t06(case: Case) -> None:
    trials = case.search("hopeless", tune(space=SearchSpace(lr=[1e9, 1e10]), trials=2))
    assert all(each.score is None and each.status.startswith("failed: ") for each in trials)
    with pytest.raises(SearchFailed, match=r"no trial came to a score.*\n.*00 .*lower train\.lr.*\n.*01 "):
        search.best_of(trials)


def test_the_best_is_sought_among_those_that_reached_the_highest_rung() -> None:
    trials = [
        trial(0, 0.9, rung=1, status=search.STOPPED),
        trial(1, 0.6),
        trial(2, 0.7),
        trial(3, None, 0, "failed: x"),
    ]
    assert search.best_of(trials).trial == "02"


def test_of_equals_the_first_wins_t06() -> None:
    assert search.best_of([trial(1, 1.0), trial(2, 1.0), trial(3, 1.0)]).trial == "01"


def test_a_score_of_nought_is_a_score() -> None:
    assert search.best_of([trial(0, None, 1, "failed: x"), trial(1, 0.0)]).trial == "01"


def test_candidates_are_a_seeded_sample_without_repeats() -> None:
    params = dials(Path("/"))
    tried = search.candidates(params, tune(trials=3), rows=100)
    assert len(tried) == 3 and len({tuple(each.items()) for each in tried}) == 3
    assert tried == search.candidates(params, tune(trials=3), rows=100)
    assert len(search.candidates(params, tune(trials=99), rows=100)) == 4
    assert tried != search.candidates(params, tune(trials=3, seed=8), rows=100)


def test_batches_are_cut_to_the_rows_there_are_and_then_not_tried_twice() -> None:
    tried = search.candidates(dials(Path("/")), tune(trials=9), rows=10)
    assert sorted(each["batch_size"] for each in tried) == [8, 8, 10, 10]
    assert {each["batch_size"] for each in search.candidates(dials(Path("/")), tune(trials=9), rows=5)} == {5}


def test_a_batch_that_does_not_divide_over_the_workers_is_refused_before_any_trial() -> None:
    space = SearchSpace(batch_size=[16, 9])
    with pytest.raises(SearchFailed, match=r"tune\.space.*batch_size 9 does not divide"):
        search.candidates(dials(Path("/"), num_workers=2), tune(space=space), rows=100)


def test_a_search_over_nothing_is_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match="set enabled to false"):
        tune(space=SearchSpace())
    assert not tune(space=SearchSpace(), enabled=False).enabled


@pytest.mark.parametrize(("rows", "seen"), [(50, 50), (900, 900), (5000, 1000), (20000, 2000)])
def test_trials_see_the_larger_of_a_tenth_and_a_thousand_rows_or_all(rows: int, seen: int) -> None:
    assert search.subset(rows, tune(min_rows=1000, rows_fraction=0.1)) == seen


@pytest.mark.parametrize("steps", [1, 2, 13, 60])
def test_rungs_are_fractions_of_one_pass(steps: int) -> None:
    for rungs in (1, 2, 3):
        at = search.rung_steps(steps, tune(rungs=rungs))
        assert len(at) == rungs and at[-1] == steps and at == sorted(at) and at[0] >= 1
    assert search.rung_steps(90, tune(rungs=3)) == [math.ceil(90 / 9), 30, 90]
