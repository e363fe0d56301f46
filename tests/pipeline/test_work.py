"""Unfinished work belongs to exact inputs."""

import contextlib
from pathlib import Path

import pytest
from pydantic import BaseModel

from pipeline import paths
from pipeline.work import unfinished


class Dials(BaseModel):
    lr: float = 0.1


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(paths, "WORK", tmp_path / "work")
    (tmp_path / "rows.csv").write_text("a")
    return tmp_path / "rows.csv"


def left_by_an_error(source: Path, dials: Dials) -> Path:
    """The folder that a stage leaves which fails half way."""
    with contextlib.suppress(RuntimeError), unfinished("train", [source], [dials]) as folder:
        (folder / "half").write_text("done")
        raise RuntimeError
    return folder


def test_an_error_leaves_the_folder_for_the_same_inputs_and_success_removes_it(source: Path) -> None:
    folder = left_by_an_error(source, Dials())
    with unfinished("train", [source], [Dials()]) as again:
        assert again == folder and (again / "half").read_text() == "done"
    assert not folder.exists()


@pytest.mark.parametrize("what", ["bytes", "params"])
def test_other_inputs_start_anew_and_remove_the_old_folder(source: Path, what: str) -> None:
    folder = left_by_an_error(source, Dials())
    if what == "bytes":
        source.write_text("b")
    with unfinished("train", [source], [Dials(lr=0.1 if what == "bytes" else 0.2)]) as other:
        assert other != folder and not folder.exists() and not list(other.iterdir())


def test_other_code_starts_anew(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = left_by_an_error(source, Dials())
    monkeypatch.setattr("pipeline.work.import_closure", lambda *_: ("pipeline/stage.py",))
    with unfinished("train", [source], [Dials()]) as other:
        assert other != folder


def test_the_work_of_another_stage_is_left_alone(source: Path) -> None:
    folder = left_by_an_error(source, Dials())
    with unfinished("tune", [source], [Dials()]):
        assert folder.exists()


def test_a_folder_is_an_input_with_all_its_files(source: Path) -> None:
    base = source.parent / "base"
    base.mkdir()
    (base / "config.json").write_text("{}")
    folder = left_by_an_error(base, Dials())
    (base / "config.json").write_text("{ }")
    with unfinished("train", [base], [Dials()]) as other:
        assert other != folder
