"""One whole path through all nine stages: real DVC, Ray, MLflow and HTTP on tiny rows."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from registry.report import Report
from tests.project import Project

QUIET = ("prepare", "tune", "train", "package", "evaluate", "verify")
"""Stages that must not run again when nothing changed."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project in a folder with a space and an é in its path, after one `dvc repro`."""
    project = Project.make(tmp_path_factory.mktemp("flow") / "a projéct")
    project.dvc("repro")
    return project


def test_the_champion_has_one_digest_along_the_whole_chain(project: Project) -> None:
    status = project.status()
    assert set(status["chain"]) == {"bundle", "registered", "verified", "promoted"}
    assert len(set(status["chain"].values())) == 1
    assert status["champion"] == status["candidate"]
    assert status["champion"]["digest"] == status["chain"]["bundle"]
    assert status["report"]["passed"]
    assert status["stale"] == []


def test_the_report_judges_with_every_gate_of_the_default_set(project: Project) -> None:
    report = Report.model_validate(project.read("artifacts/verify/report.json"))
    gates = {verdict.gate for verdict in report.verdicts}
    expected = {"quality", "champion", "slices", "calibration", "identity", "contract", "parity", "batching", "latency"}
    assert gates >= expected | {"shutdown"}
    assert report.digest == report.loaded_digest == report.answered_digest
    page = (project.folder / "artifacts/verify/report.html").read_text(encoding="utf-8")
    assert report.digest in page
    assert "http://" not in page.replace("http://127.0.0.1", "").replace("http://www.w3.org", "")


def test_int8_is_kept_answers_like_fp32_and_is_what_was_verified(project: Project) -> None:
    kept = project.read("artifacts/package.json")["runtimes"]["onnx-int8"]
    assert kept["kept"] and kept["agreement"] >= 0.975
    measured = project.read("artifacts/metrics.json")["runtimes"]
    assert measured.keys() == {"torch-fp32", "onnx-int8"}
    assert measured["torch-fp32"]["agreement"] == 1 and measured["onnx-int8"]["agreement"] >= 0.95
    report = Report.model_validate(project.read("artifacts/verify/report.json"))
    (identity,) = (verdict for verdict in report.verdicts if verdict.gate == "identity")
    assert "onnx-int8" in identity.why


def test_every_row_is_in_a_split_or_itemised(project: Project) -> None:
    report = project.read("data/splits/data_report.json")
    rows = [pq.read_table(project.folder / f"data/splits/{name}.parquet").num_rows for name in ("train", "val", "test")]
    assert sum(rows) + sum(report["dropped"].values() if isinstance(report.get("dropped"), dict) else []) == 600


def test_the_tuned_settings_are_visible_all_the_way(project: Project) -> None:
    best = project.read("artifacts/best.json")["settings"]
    training = project.read("artifacts/bundle/contract.json")["training"]
    assert best.items() <= training.items()


def test_a_second_repro_runs_no_model_work(project: Project) -> None:
    done = project.dvc("repro")
    assert not [name for name in QUIET if f"Running stage '{name}'" in done.stdout]
    assert project.status()["stale"] == []


def test_metrics_and_plots_can_be_shown(project: Project) -> None:
    metrics = json.loads(project.dvc("metrics", "show", "--json").stdout)
    assert "artifacts/metrics.json" in metrics[""]["data"]
    project.dvc("plots", "show")
    page = (project.folder / "dvc_plots/index.html").read_text(encoding="utf-8")
    assert "cdn" not in page.split("<body>")[1]
    assert page.count("vegaEmbed(") >= 3


def test_nothing_lands_outside_the_declared_outs(project: Project) -> None:
    assert project.git("status", "--porcelain", "--untracked-files=all").split() in (
        [],
        ["??", "dvc.lock", "??", "artifacts/metrics.json", "??", "data/splits/data_report.json"],
        ["??", "artifacts/metrics.json", "??", "data/splits/data_report.json", "??", "dvc.lock"],
    )
    assert not (project.folder / "mlruns").exists()
    assert not list(project.folder.rglob("*.db")) or all(".dvc" in str(p) for p in project.folder.rglob("*.db"))
    assert not any(Path(project.folder / ".work").glob("*/*"))
