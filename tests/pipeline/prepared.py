"""A project whose stages up to `evaluate` are done, in seconds: what `verify` and those after it start from."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from registry.files import write_json
from tests import tiny
from tests.project import Project
from training.keys import key_of, split_of
from training.params import DataParams

DATA = DataParams(source="mine.csv", text_column="text", label_column="label", slice_column="slice")


def project(folder: Path, bundle: Path, rows: int = 600) -> Project:
    """A project with `rows` tiny rows split by their keys, this bundle evaluated and registered."""
    made = Project.make(folder, rows=rows)
    _write_splits(folder, tiny.rows(rows))
    for name, content in {"raw/source.json": _source(), "splits/data_report.json": {}}.items():
        write_json(folder / "data" / name, content)
    for name in ("history.jsonl", "trials.json", "best.json", "package.json"):
        (folder / "artifacts").mkdir(exist_ok=True)
        (folder / "artifacts" / name).touch()
    use(made, bundle)
    return made


def use(made: Project, bundle: Path) -> None:
    """Let this be the bundle that the stages before made: evaluated and registered."""
    shutil.rmtree(made.folder / "artifacts/bundle", ignore_errors=True)
    shutil.copytree(bundle, made.folder / "artifacts/bundle")
    for stage in ("evaluate", "register"):
        made.run(sys.executable, "-m", f"pipeline.{stage}")


def _source() -> dict[str, Any]:
    return {"source": "mine.csv", "files": [], "sha256": "0" * 64}


def _write_splits(folder: Path, rows: list[dict[str, str]]) -> None:
    splits: dict[str, list[dict[str, str]]] = {"train": [], "val": [], "test": []}
    for number, row in enumerate(rows, start=2):
        key = key_of(row["text"], DATA.seed)
        splits[split_of(key, DATA)].append({**row, "row": f"mine.csv:{number}", "key": key})
    splits["golden"] = sorted(splits["test"], key=lambda row: row["key"])[:40]
    (folder / "data/splits").mkdir(parents=True, exist_ok=True)
    for name, kept in splits.items():
        table = pa.Table.from_pylist(sorted(kept, key=lambda row: row["key"]))
        pq.write_table(table, folder / f"data/splits/{name}.parquet")
    write_json(folder / "data/splits/labels.json", list(tiny.LABELS))
