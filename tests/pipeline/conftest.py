"""A project's files up to the stage register, in a folder of the test's own."""

import shutil
from pathlib import Path

import pytest

from pipeline import paths
from registry.files import write_json, write_text
from tests import registered


@pytest.fixture
def registered_project(tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What register reads, with its registry in `home/`; params.yaml is the project's own."""
    for name, value in list(vars(paths).items()):
        if name.isupper() and isinstance(value, Path) and value not in {paths.ROOT, paths.PARAMS}:
            monkeypatch.setattr(paths, name, tmp_path / value.relative_to(paths.ROOT))
    monkeypatch.delenv("DVC_EXP_NAME", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/home/mlflow.db")
    (tmp_path / "home").mkdir()
    shutil.copyfile(registered.empty_database(), tmp_path / "home/mlflow.db")
    shutil.copytree(tiny_bundle, paths.BUNDLE)
    write_json(paths.METRICS, registered.scores())
    write_json(paths.SOURCE, {"source": "mine.csv", "files": [], "sha256": "ab" * 32})
    write_json(paths.DATA_REPORT, {"rows": 1200})
    for path in (paths.TRIALS, paths.BEST, paths.PACKAGE, paths.PLOTS / "confusion.json"):
        write_json(path, [])
    write_text(paths.HISTORY, '{"step": 20, "epoch": 0.5, "train_loss": 1.0, "lr": 0.0001}\n')
    return tmp_path
