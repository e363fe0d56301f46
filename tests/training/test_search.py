"""The search tries what it says, judges by numbers only, answers the same twice, and goes on after a kill."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.cluster import RayParams, cluster
from tests import tiny
from tests.pipeline.project import write_split
from tests.training.learning import dials, started
from training import search
from training.params import Between, SearchSpace, TuneParams
from training.trials import STOPPED, SearchFailed, Trial, best_of, rung_steps

RATES = SearchSpace(lr=Between(low=1e-5, high=1e-2), batch_size=[8, 16])


def tune(**changes: object) -> TuneParams:
    return TuneParams.model_validate({"space": RATES, "min_rows": 100, "max_val_rows": 30, **changes})


@pytest.fixture(scope="module")
def ray_on_two_cpus() -> Iterator[None]:
    # Tiny models gain nothing from two threads, and lose minutes to their spinning when the cores are busy.
    with pytest.MonkeyPatch.context() as patched, cluster(RayParams(num_cpus=2)):
        patched.setenv("OMP_NUM_THREADS", "1")
        yield


class Case:
    """300 tiny rows, of which the trials see a third."""

    def __init__(self, folder: Path, base: Path) -> None:
        self.folder, self.params = folder, dials(base)
        self.train, self.val = folder / "train.parquet", folder / "val.parquet"
        write_split(self.train, tiny.rows(300))
        write_split(self.val, tiny.rows(60, seed=9))
        self.start = started(self.params, folder / "start")

    def search(self, name: str, dials_of_tune: TuneParams, known: int | None = None) -> list[Trial]:
        """A search that finds half of a killed one, and so many lines of what that one was told."""
        work = self.folder / name
        killed_before = work / search.EXPERIMENT
        killed_before.mkdir(parents=True, exist_ok=True)
        (killed_before / "tuner.pkl").write_bytes(b"half")
        if known is not None:
            lines = (work / search.SCORES).read_bytes().splitlines(keepends=True)
            (work / search.SCORES).write_bytes(b"".join(lines[:known]) + lines[known][:20])
        return search.search(self.start, self.train, self.val, self.params, dials_of_tune, work)

    def told(self, name: str) -> int:
        """How many scores have been computed."""
        return len((self.folder / name / search.SCORES).read_bytes().splitlines())


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory, tiny_base: Path) -> Case:
    return Case(tmp_path_factory.mktemp("search"), tiny_base)


@pytest.mark.usefixtures("ray_on_two_cpus")
def test_a_space_that_is_small_is_tried_whole_and_a_planted_rate_of_one_loses(case: Case) -> None:
    dials_of_tune = tune(space=SearchSpace(lr=[1.0, 1e-2, 3e-3], batch_size=[16]))
    tried = case.search("planted", dials_of_tune)
    assert [each.trial for each in tried] == ["00", "01", "02"]
    assert [each.settings["lr"] for each in tried] == [3e-3, 1.0, 1e-2], "the train branch's own settings come first"
    best = best_of(tried)
    top = max(each.rung for each in tried if each.score is not None)
    assert best.score == max(each.score for each in tried if each.score is not None and each.rung == top)
    planted = next(each for each in tried if each.settings["lr"] == 1.0)
    assert planted.trial != best.trial
    assert planted.status.startswith("failed") or (planted.score or 0) < (best.score or 0)
    assert all(each.steps in {0, *rung_steps(7, dials_of_tune)} for each in tried)


@pytest.mark.usefixtures("ray_on_two_cpus")
def test_a_search_repeats_itself_and_killed_at_any_score_it_goes_on_to_the_same_end(case: Case) -> None:
    dials_of_tune = tune(trials=6)
    whole = case.search("whole", dials_of_tune)
    assert whole[0].settings == {"lr": 3e-3, "batch_size": 16}
    assert len({json.dumps(each.settings) for each in whole}) > 4, "it proposes, it does not repeat itself"
    assert all(1e-5 <= each.settings["lr"] <= 1e-2 for each in whole)
    assert case.search("again", dials_of_tune) == whole
    scores = case.told("whole")
    assert case.search("whole", dials_of_tune) == whole
    assert case.told("whole") == scores, "nothing was computed twice"
    assert case.search("whole", dials_of_tune, known=3) == whole
    assert case.told("whole") == scores


@pytest.mark.usefixtures("ray_on_two_cpus")
def test_a_budget_ends_the_search_with_what_it_has(case: Case) -> None:
    tried = case.search("short", tune(trials=500, minutes=0.2))
    assert 1 <= len(tried) < 500
    assert best_of(tried).score is not None
    assert all(each.status == STOPPED for each in tried if each.rung == 0)


@pytest.mark.usefixtures("ray_on_two_cpus")
def test_when_every_trial_is_nan_the_search_fails_with_the_reasons_t06(case: Case) -> None:
    trials = case.search("hopeless", tune(space=SearchSpace(lr=[1e9, 1e10]), trials=2))
    assert all(each.score is None and each.status.startswith("failed: ") for each in trials)
    with pytest.raises(SearchFailed, match=r"no trial came to a score.*\n.*00 .*lower train\.lr.*\n.*01 "):
        best_of(trials)
    assert trials == case.search("hopeless", tune(space=SearchSpace(lr=[1e9, 1e10]), trials=2))
