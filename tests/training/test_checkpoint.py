"""A checkpoint is complete or it is not one, and a killed training ends as if it had not been."""

import errno
import shutil
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from registry import bundle
from tests import tiny
from tests.training.learning import Run, dials, encoded, started
from training import checkpoint
from training.batches import Rows
from training.params import TrainParams


class Case:
    """A training of four epochs with a checkpoint every third step, and how it ends when nothing happens to it."""

    def __init__(self, base: Path, folder: Path) -> None:
        self.params: TrainParams = dials(base, epochs=4, dropout=0.1, checkpoint_every_steps=3)
        self.rows: Rows = encoded(base, tiny.rows(64))
        self.val: Rows = encoded(base, tiny.rows(45, seed=9))
        self.start = started(self.params, folder / "start")
        self.whole = self.run().finish(folder / "whole")

    def run(self, resume: Path | None = None) -> Run:
        return Run(self.params, self.start, self.rows, self.val, resume)

    def killed(self, run: Path, after: int) -> None:
        self.run().finish(run, die_after=after)


@pytest.fixture(scope="module")
def case(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(tiny_base, tmp_path_factory.mktemp("case"))


def assert_ends_alike(case: Case, run: Path) -> None:
    checkpoint.sweep(run)
    resumed = case.run(checkpoint.newest(run)).finish(run)
    assert resumed.state == case.whole.state
    assert all(torch.equal(a, b) for a, b in zip(resumed.net.parameters(), case.whole.net.parameters(), strict=True))


@pytest.mark.parametrize("after", [3, 4, 6, 16])
def test_a_killed_training_goes_on_and_ends_as_if_nothing_had_happened(case: Case, tmp_path: Path, after: int) -> None:
    case.killed(tmp_path, after)
    newest = checkpoint.newest(tmp_path)
    assert newest is not None and checkpoint.read_state(newest).step == after
    assert_ends_alike(case, tmp_path)


@pytest.mark.parametrize("damage", ["model.safetensors", checkpoint.TRAINER, checkpoint.STATE, checkpoint.SEAL])
@pytest.mark.parametrize("how", ["truncated", "removed"])
def test_a_damaged_newest_checkpoint_is_left_out_and_named_t03(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str, how: str
) -> None:
    case.killed(tmp_path, after=6)
    newest = tmp_path / "step-00000006"
    content = (newest / damage).read_bytes()
    (newest / damage).unlink()
    if how == "truncated":
        (newest / damage).write_bytes(content[: len(content) // 2])
    assert_ends_alike(case, tmp_path)
    said = capsys.readouterr().out
    assert "step-00000006 is not complete" in said and damage in said


def test_a_flipped_bit_of_the_same_size_is_found_t03(case: Case, tmp_path: Path) -> None:
    case.killed(tmp_path, after=6)
    weights = tmp_path / "step-00000006/model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-5] ^= 1
    weights.write_bytes(content)
    assert_ends_alike(case, tmp_path)


def test_a_checkpoint_whose_best_one_is_lost_is_not_gone_on_from_t03(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case.killed(tmp_path, after=6)
    best = checkpoint.read_state(tmp_path / "step-00000006").best_step
    shutil.rmtree(checkpoint.step_folder(tmp_path, best or 0))
    assert_ends_alike(case, tmp_path)
    assert "best one so far" in capsys.readouterr().out


def test_a_half_written_folder_is_swept_away(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case.killed(tmp_path, after=3)
    (tmp_path / ".step-00000004.x1y2").mkdir()
    checkpoint.sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000003"]
    assert "step-00000004 was only half written" in capsys.readouterr().out


def test_only_the_best_and_the_newest_two_are_kept(case: Case, tmp_path: Path) -> None:
    case.run().finish(tmp_path)
    kept = sorted(int(path.name.removeprefix("step-")) for path in tmp_path.iterdir())
    assert case.whole.state.best_step in kept and kept[-1] == 16 and len(kept) <= 3


def test_a_full_disk_leaves_the_earlier_checkpoints_and_says_so_t03(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.killed(tmp_path, after=3)
    run = case.run(checkpoint.newest(tmp_path))

    def full(*_args: object, **_kwargs: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(type(run.net), "save_pretrained", full)
    with pytest.raises(OSError, match="no space left") as raised:
        run.finish(tmp_path)
    assert raised.value.errno == errno.ENOSPC
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000003"]


def test_what_is_published_answers_like_the_best_checkpoint_and_holds_nothing_else(case: Case, tmp_path: Path) -> None:
    run = case.run().finish(tmp_path / "run")
    best = checkpoint.step_folder(tmp_path / "run", run.state.best_step or 0)
    contract = bundle.read_contract(best).model_copy(update={"training": {"lr": 1.0}})
    checkpoint.publish(best, contract, tmp_path / "checkpoint")
    names = {path.name for path in (tmp_path / "checkpoint").iterdir()}
    assert names == {*bundle.MODEL_FILES, bundle.CONTRACT, checkpoint.NOTICE}
    assert bundle.read_contract(tmp_path / "checkpoint") == contract
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (best, tmp_path / "checkpoint"))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
