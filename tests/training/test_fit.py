"""Ray Train around the loop: resources, threads, workers, and what happened when one fails."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.cluster import RayParams, cluster
from registry.errors import MachineFault
from tests import tiny
from tests.pipeline.project import write_split
from tests.training.learning import dials, started
from training import checkpoint, fit
from training.fit import Fitted
from training.loop import Diverged
from training.params import TrainParams


@pytest.fixture(scope="module")
def two_cpus() -> Iterator[None]:
    with cluster(RayParams(num_cpus=2)):
        yield


class Project:
    """Splits of 41 and 30 rows: the last batch is short, and odd."""

    def __init__(self, folder: Path, base: Path) -> None:
        self.folder, self.base = folder, base
        self.train, self.val = folder / "train.parquet", folder / "val.parquet"
        write_split(self.train, tiny.rows(41))
        write_split(self.val, tiny.rows(30, seed=9))

    def fit(self, name: str, **changes: object) -> Fitted:
        params: TrainParams = dials(self.base, **changes)
        work = self.folder / name
        return fit.fit(started(params, work / "start"), self.train, self.val, params, work)


@pytest.fixture
def project(tmp_path: Path, tiny_base: Path) -> Project:
    return Project(tmp_path, tiny_base)


@pytest.mark.usefixtures("two_cpus")
def test_one_and_two_workers_see_the_same_rows_losses_and_scores_t07(project: Project) -> None:
    one, two = (project.fit(f"workers-{count}", num_workers=count) for count in (1, 2))
    in_parts = project.fit("in parts", num_workers=2, max_rows_at_once=3)
    assert one.state.step == two.state.step == in_parts.state.step == 6
    for ours, theirs, in_part in zip(one.state.history, two.state.history, in_parts.state.history, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3)
        assert ours == pytest.approx(in_part, rel=1e-3)
    assert checkpoint.fault(two.best) is None


@pytest.mark.usefixtures("two_cpus")
def test_a_single_row_is_learnt_by_two_workers_of_whom_one_has_none_t07(project: Project) -> None:
    write_split(project.train, tiny.rows(1))
    one, two = (project.fit(f"alone-{count}", num_workers=count) for count in (1, 2))
    assert one.state.step == two.state.step == 2
    for ours, theirs in zip(one.state.history, two.state.history, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3)


@pytest.mark.usefixtures("two_cpus")
def test_a_diverging_rate_comes_out_of_ray_as_our_own_error(project: Project) -> None:
    with pytest.raises(Diverged, match=r"lower train\.lr"):
        project.fit("diverging", lr=1e9)


@pytest.mark.usefixtures("two_cpus")
def test_more_workers_than_cpus_is_the_machines_fault_and_does_not_hang() -> None:
    assert fit.resources(1, "auto") == (2, False)
    assert fit.resources(2, False) == (1, False)
    with pytest.raises(MachineFault, match=r"Ray has 2 CPUs.*ray\.num_cpus"):
        fit.resources(3, "auto")
    with pytest.raises(MachineFault, match="0 GPUs for 1 workers"):
        fit.resources(1, True)


def test_threads_are_the_cpus_assigned_unless_the_user_says_otherwise_t10(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert fit.threads_for(4) == 4
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert fit.threads_for(4) == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert fit.threads_for(4) == 4


@pytest.mark.usefixtures("two_cpus")
def test_a_lost_worker_is_replaced_and_training_ends_with_the_same_result(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    untouched = project.fit("untouched", checkpoint_every_steps=2)
    monkeypatch.setattr(fit, "work_on", die_after_a_checkpoint)
    replaced = project.fit("replaced", checkpoint_every_steps=2, max_failures=9)
    said = capsys.readouterr().out
    assert "a training worker was lost" in said and "8 more of train.max_failures are left" in said
    assert "going on after step 2" in said
    assert replaced.state == untouched.state


@pytest.mark.usefixtures("two_cpus")
def test_when_no_more_failures_are_allowed_it_is_the_machines_fault_and_the_next_start_goes_on(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    untouched = project.fit("untouched", checkpoint_every_steps=2)
    monkeypatch.setattr(fit, "work_on", die_after_a_checkpoint)
    with pytest.raises(MachineFault, match="worker was lost"):
        project.fit("killed", checkpoint_every_steps=2, max_failures=0)
    monkeypatch.undo()
    resumed = project.fit("killed", checkpoint_every_steps=2)
    assert "going on after step 2" in capsys.readouterr().out
    assert resumed.state == untouched.state


@pytest.mark.usefixtures("two_cpus")
def test_what_a_nan_has_ended_is_not_tried_again(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Diverged):
        project.fit("hopeless", lr=1e9, max_failures=5)
    assert "max_failures" not in capsys.readouterr().out


def die_after_a_checkpoint(config: dict[str, fit.Job]) -> None:
    keep = checkpoint.save_full

    def keep_and_die(*args: object) -> None:
        keep(*args)  # type: ignore[arg-type]
        os._exit(9)

    checkpoint.save_full = keep_and_die  # type: ignore[assignment]
    fit.work_on(config)
