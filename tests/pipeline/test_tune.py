"""The tune stage as a command: its two files, and the switch."""

from pathlib import Path

import pytest

from registry.files import read_json
from tests.pipeline import project


@pytest.fixture
def made(tmp_path: Path, tiny_base: Path) -> Path:
    space = {"lr": [1.0, 3e-3], "batch_size": [8, 16]}
    tune = {"space": space, "min_rows": 100, "trials": 4}
    return project.make(tmp_path / "project", tiny_base, tune=tune, train={"freeze_embeddings": False})


def test_the_best_of_the_trials_is_written_with_all_of_them_t06(made: Path) -> None:
    code, said = project.run(made, "tune")
    assert code == 0, said
    best, trials = (read_json(made / "artifacts" / name) for name in ("best.json", "trials.json"))
    assert [trial["trial"] for trial in trials] == ["00", "01", "02", "03"]
    assert set(trials[0]) == {"trial", "settings", "rung", "steps", "score", "status"}
    sound = [trial for trial in trials if trial["score"] is not None]
    top = max(trial["rung"] for trial in sound)
    winner = max((trial for trial in sound if trial["rung"] == top), key=lambda trial: trial["score"])
    assert best == {name: winner[name] for name in ("settings", "trial", "score")}
    assert not list((made / ".work/tune").iterdir())


def test_switched_off_it_overrides_nothing_and_starts_no_ray(tmp_path: Path, tiny_base: Path) -> None:
    folder = project.make(tmp_path / "project", tiny_base, tune={"enabled": False})
    project.best(folder, lr=1.0)
    code, said = project.run(folder, "tune", RAY_ADDRESS="nobody.invalid:6379")
    assert code == 0, said
    assert read_json(folder / "artifacts/best.json") == {"settings": {}, "trial": None, "score": None}
    assert read_json(folder / "artifacts/trials.json") == []


def test_when_all_trials_fail_the_stage_refuses_and_lists_the_reasons_t06(tmp_path: Path, tiny_base: Path) -> None:
    folder = project.make(tmp_path / "project", tiny_base, tune={"space": {"lr": [1e9, 1e8]}, "min_rows": 50})
    code, said = project.run(folder, "tune")
    assert code == 1 and "no trial came to a score" in said and said.count("lower train.lr") >= 2
    assert "Traceback" not in said
