"""A copy of this project in a folder of its own, with tiny data and a tiny base model, driven as a person would."""

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests import tiny

ROOT = Path(__file__).resolve().parents[1]

MADE = {"dvc.lock", "artifacts/metrics.json", "data/splits/data_report.json"}
"""Committed, but made by the stages: a copy makes its own."""

TINY_PARAMS: dict[str, Any] = {
    "data": {
        "source": "mine.csv",
        "label_column": "label",
        "slice_column": "slice",
        "rating_thresholds": None,
    },
    "tune": {"trials": 2, "space": {"lr": [3.0e-3, 1.0e-3], "batch_size": [16]}, "min_rows": 100},
    "train": {"base": "base", "max_tokens": tiny.MAX_TOKENS, "epochs": 8, "lr": 3.0e-3, "batch_size": 16},
    "registry": {"name": "tiny"},
    "serve": {"num_cpus": 0.5},
    # A tiny model's own time is nothing beside HTTP's, and other tests may be busy beside this one.
    "gates": {"enough_texts_per_s": 5.0, "max_p95_ms": 5000.0, "max_health_s": 5.0},
}


class Project:
    """One checkout of the project: its files, its params, its commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def make(cls, folder: Path, rows: int = 600) -> "Project":
        """A git repository with this project's files, `rows` tiny rows in mine.csv and a tiny base model in base/."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (ROOT / name).is_file() and name not in MADE:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, folder / name)
        project = cls(folder)
        project.write_rows(tiny.rows(rows))
        tiny.base_model(folder / "base")
        # JSON is YAML.
        (folder / "data/behaviour.yaml").write_text(json.dumps(tiny.BEHAVIOUR), encoding="utf-8")
        project.edit(TINY_PARAMS)
        project.git("init", "-q", "-b", "main")
        project.commit("start")
        return project

    def copy(self, folder: Path) -> "Project":
        """The whole folder somewhere else: files, cache, registry."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return Project(folder)

    def write_rows(self, rows: list[dict[str, str]]) -> None:
        """Rows as mine.csv."""
        with (self.folder / "mine.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["text", "label", "slice"])
            writer.writeheader()
            writer.writerows(rows)

    def edit(self, changes: dict[str, Any]) -> None:
        """Set values in params.yaml, branch by branch; comments stay."""
        yaml = YAML()
        tree = yaml.load(self.folder / "params.yaml")
        for branch, values in changes.items():
            tree[branch].update(values)
        yaml.dump(tree, self.folder / "params.yaml")

    def git(self, *arguments: str) -> str:
        """Run git here."""
        return self.run("git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments).stdout

    def commit(self, message: str) -> None:
        """Commit everything that is not ignored."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def dvc(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run dvc here."""
        return self.run("dvc", *arguments, check=check)

    def pipeline(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run `python -m pipeline …` here."""
        return self.run(sys.executable, "-m", "pipeline", *arguments, check=check)

    def run(self, *command: str, check: bool = True, timeout_s: float = 540) -> "subprocess.CompletedProcess[str]":
        """Run a command here as a user's shell would; with `check`, a failure shows all it printed."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.env(), capture_output=True, text=True, timeout=timeout_s, check=False
        )
        assert not check or done.returncode == 0, f"{command} exited {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done

    def env(self) -> dict[str, str]:
        """The environment of a user's shell with the venv first; nothing of this session's own settings."""
        mine = {"PYTHONDONTWRITEBYTECODE", "MLFLOW_TRACKING_URI", "RAY_ADDRESS", "SERVE_API_KEYS", "PYTHONPATH"}
        kept = {name: value for name, value in os.environ.items() if name not in mine and not name.startswith("PYTEST")}
        kept["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
        return kept

    def status(self) -> dict[str, Any]:
        """`python -m pipeline status --json`."""
        status: dict[str, Any] = json.loads(self.pipeline("status", "--json").stdout)
        return status

    def read(self, name: str) -> Any:
        """A JSON file of the project."""
        return json.loads((self.folder / name).read_text(encoding="utf-8"))
