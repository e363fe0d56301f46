"""A copy of the project with tiny splits and a tiny base, in which stages run as commands."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from ruamel.yaml import YAML

from registry.files import write_json
from tests import tiny

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("pipeline", "registry", "serving", "training")


def make(folder: Path, base: Path, train_rows: int = 120, val_rows: int = 30, **branches: dict[str, Any]) -> Path:
    """The project in `folder`: code, splits, `models/tiny`, and a params.yaml with these branches' dials changed."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(base, folder / "models/tiny")
    made = tiny.rows(train_rows + val_rows)
    write_split(folder / "data/splits/train.parquet", made[:train_rows])
    write_split(folder / "data/splits/val.parquet", made[train_rows:])
    write_json(folder / "data/splits/labels.json", list(tiny.LABELS))
    yaml = YAML(typ="safe", pure=True)
    tree = yaml.load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    tree["train"] |= {"base": "models/tiny", "max_tokens": 32, "lr": 3e-3, "batch_size": 16, "epochs": 3}
    for branch, dials in branches.items():
        tree[branch] |= dials
    with (folder / "params.yaml").open("w", encoding="utf-8") as file:
        yaml.dump(tree, file)
    best(folder)
    return folder


def best(folder: Path, **settings: float) -> None:
    """What the search would have found."""
    trial = "00" if settings else None
    write_json(folder / "artifacts/best.json", {"settings": settings, "trial": trial, "score": None})


def write_split(path: Path, rows: list[dict[str, str]]) -> None:
    """A split as prepare writes it, in the order given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {name: [row[name] for row in rows] for name in ("text", "label", "slice")}
    columns |= {"row": [f"tiny.csv:{i}" for i in range(len(rows))], "key": [f"{i:064x}" for i in range(len(rows))]}
    pq.write_table(pa.table(columns), path)


@contextlib.contextmanager
def started(folder: Path, stage: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """`python -m pipeline.<stage>` in the project, running; ended when the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"pipeline.{stage}"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": "", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def run(folder: Path, stage: str, **environment: str) -> tuple[int, str]:
    """Its exit code and everything it said."""
    with started(folder, stage, **environment) as process:
        said, _ = process.communicate(timeout=300)
    return process.returncode, said
