"""The search tries what it says, judges by numbers only, and answers the same twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.cluster import RayParams, cluster
from tests import tiny
from tests.pipeline.project import write_split
from tests.training.learning import dials, started
from training import search
from training.params import SearchSpace, TuneParams
from training.trials import SearchFailed, Trial, best_of, rung_steps


def tune(**changes: object) -> TuneParams:
    space = SearchSpace(lr=[3e-3, 1e-3], batch_size=[8, 16])
    return TuneParams.model_validate({"space": space, "min_rows": 100, "max_val_rows": 30, **changes})


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
        killed_before = self.folder / name / search.EXPERIMENT
        killed_before.mkdir(parents=True)
        (killed_before / "tuner.pkl").write_bytes(b"half")
        return search.search(self.start, self.train, self.val, self.params, dials_of_tune, self.folder / name)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory, tiny_base: Path) -> Case:
    return Case(tmp_path_factory.mktemp("search"), tiny_base)


@pytest.mark.usefixtures("ray_on_two_cpus")
def test_a_planted_rate_of_one_loses_and_two_searches_agree(case: Case) -> None:
    dials_of_tune = tune(space=SearchSpace(lr=[1.0, 1e-2, 3e-3], batch_size=[8]))
    one, other = (case.search(name, dials_of_tune) for name in ("one", "other"))
    assert one == other and [each.trial for each in one] == ["00", "01", "02"]
    best = best_of(one)
    top = max(each.rung for each in one if each.score is not None)
    assert best.score == max(each.score for each in one if each.score is not None and each.rung == top)
    planted = next(each for each in one if each.settings["lr"] == 1.0)
    assert planted.trial != best.trial
    assert planted.status.startswith("failed") or (planted.score or 0) < (best.score or 0)
    assert all(each.steps in {0, *rung_steps(13, dials_of_tune)} for each in one)


@pytest.mark.usefixtures("ray_on_two_cpus")
def test_when_every_trial_is_nan_the_search_fails_with_the_reasons_t06(case: Case) -> None:
    trials = case.search("hopeless", tune(space=SearchSpace(lr=[1e9, 1e10]), trials=2))
    assert all(each.score is None and each.status.startswith("failed: ") for each in trials)
    with pytest.raises(SearchFailed, match=r"no trial came to a score.*\n.*00 .*lower train\.lr.*\n.*01 "):
        best_of(trials)
