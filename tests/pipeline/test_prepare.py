"""Raw files in, splits out: whole or not at all, and the same on any number of cores."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline import paths
from pipeline import prepare as stage
from pipeline.cluster import RayParams, cluster
from pipeline.fetch import fetch
from pipeline.params import load
from pipeline.prepare import prepare
from registry.files import sha256
from tests.training.test_rows import write_csv
from training.data_report import DataRefused
from training.params import DataParams

OUTS = ["data_report.json", "golden.parquet", "labels.json", "test.parquet", "train.parquet", "val.parquet"]


def params(source: Path) -> DataParams:
    return DataParams(source=str(source), text_column="text", label_column="label")


def digests(folder: Path) -> dict[str, str]:
    return {path.name: sha256(path) for path in sorted(folder.iterdir())}


def test_a_users_two_classes_of_300_rows_run_through_and_one_class_changes_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw, splits = tmp_path / "raw", tmp_path / "splits"
    source = write_csv(tmp_path / "mine.csv", [(f"review number {i}", ["spam", "ham"][i % 2]) for i in range(300)])
    fetch(str(source), raw)
    monkeypatch.setattr(stage, "PULSE_S", 0.1)
    with cluster(RayParams(num_cpus=1)):
        prepare(raw, splits, params(source))
        assert list(digests(splits)) == OUTS
        report = json.loads((splits / "data_report.json").read_text(encoding="utf-8"))
        assert report["rows"]["in"] == sum(report["rows"][split] for split in ("train", "val", "test")) == 300
        assert json.loads((splits / "labels.json").read_text(encoding="utf-8")) == ["ham", "spam"]
        golden = pq.read_table(splits / "golden.parquet").to_pylist()
        assert golden == pq.read_table(splits / "test.parquet").to_pylist()
        assert min(Counter(row["label"] for row in golden).values()) >= 10
        shown = capfd.readouterr()
        assert "300 rows came in, 0 dropped" in shown.out and "ham:" in shown.out
        assert "still preparing" in shown.out
        assert "ray" not in shown.err.lower(), "Ray's own lines stay off the terminal"

        before = digests(splits)
        write_csv(source, [(f"review number {i}", "ok") for i in range(300)])
        fetch(str(source), raw)
        with pytest.raises(DataRefused, match=r"needs at least 2 classes, found 1 \(`ok`\)"):
            prepare(raw, splits, params(source))
        assert digests(splits) == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.csv", "raw", "splits"]


def test_raw_rows_that_are_not_there_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(DataRefused, match=r"pipeline\.fetch"):
        prepare(tmp_path / "raw", tmp_path / "splits", params(tmp_path))


@pytest.mark.slow
def test_d20_one_core_or_four_make_the_same_bytes(tmp_path: Path) -> None:
    folder, raw = tmp_path / "parts", tmp_path / "raw"
    folder.mkdir()
    for part in range(3):
        write_csv(folder / f"{part}.csv", [(f"text {part} {i}", "ab"[i % 2]) for i in range(2000)])
    fetch(str(folder), raw)
    for cpus in (1, 4):
        with cluster(RayParams(num_cpus=cpus)):
            prepare(raw, tmp_path / f"splits{cpus}", params(folder))
    assert digests(tmp_path / "splits1") == digests(tmp_path / "splits4")


@pytest.mark.slow
def test_the_built_in_corpus_is_split_in_even_shares(tmp_path: Path) -> None:
    if not paths.SOURCE.is_file() or "hutto-gilbert.csv" not in paths.SOURCE.read_text(encoding="utf-8"):
        pytest.skip("the corpus is not in data/raw: run `python -m pipeline.fetch`")
    shutil.copytree(paths.RAW, tmp_path / "raw")
    with cluster(RayParams()):
        prepare(tmp_path / "raw", tmp_path / "splits", load("data", DataParams))
    report = json.loads((tmp_path / "splits/data_report.json").read_text(encoding="utf-8"))
    assert report["rows"]["in"] == 23_703 and report["rows"]["dropped"] == 0
    assert set(report["slices"]) == {"tweets", "amazon", "movies", "nyt"}
    assert not [warning for warning in report["warnings"] if "repeats" in warning]
