"""Verify serves the registered version for real, judges it, and leaves nothing behind but the report."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from registry.packing import seal
from registry.params import RegistryParams
from registry.report import Report
from registry.versions import open_registry
from tests import tiny
from tests.pipeline import prepared
from tests.project import Project

REPORT = "artifacts/verify/report.json"
OLD = '{"old": "report"}\n'


@pytest.fixture(scope="module")
def registered(tmp_path_factory: pytest.TempPathFactory, tiny_bundle: Path) -> Project:
    """A project whose tiny bundle is registered as version 1."""
    return prepared.project(tmp_path_factory.mktemp("verify") / "a project", tiny_bundle)


@pytest.fixture
def project(registered: Project, tmp_path: Path) -> Project:
    """A copy of it with a report of old."""
    copy = registered.copy(tmp_path / "project")
    (copy.folder / "artifacts/verify").mkdir(exist_ok=True)
    (copy.folder / REPORT).write_text(OLD)
    return copy


def verify(project: Project, *arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
    """`python -m pipeline.verify`."""
    command = [sys.executable, "-m", "pipeline.verify", *arguments]
    return subprocess.run(
        command, cwd=project.folder, env=project.env() | env, capture_output=True, text=True, timeout=300, check=False
    )


def report(project: Project) -> Report:
    """The report that verify wrote."""
    return Report.model_validate(project.read(REPORT))


def verdicts(done: "subprocess.CompletedProcess[str]") -> dict[str, str]:
    """Gate -> outcome, as said."""
    said = [line.split()[1:3] for line in done.stdout.splitlines() if line.startswith("verify: ")]
    return {gate: outcome for outcome, gate in said if outcome in {"pass", "fail", "not_enough_rows"}}


def left_over(project: Project) -> list[str]:
    """Processes that still run in the project's name."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(project.folder) in line or process.info["cwd"] == str(project.folder):
            found.append(line)
    return found


def weights(project: Project) -> Path:
    """The registered weights."""
    (found,) = (project.folder / ".dvc/mlflow").rglob("bundle/model/model.safetensors")
    return found


def test_a_good_version_passes_every_gate_and_leaves_nothing_but_the_report(registered: Project) -> None:
    done = verify(registered)
    assert done.returncode == 0, done.stdout + done.stderr
    found = report(registered)
    assert found.passed, [v.why for v in found.failures]
    assert [v.gate for v in found.verdicts][:6] == [
        *("quality", "champion", "slices", "calibration", "behaviour", "identity")
    ]
    version = registered.read("artifacts/version.json")
    assert (found.digest, found.graph_digest) == (version["digest"], version["graph_digest"])
    assert found.digest == found.loaded_digest == found.answered_digest
    assert found.baseline_digest is None
    evidence: Any = found.evidence
    end = evidence["shutdown"]
    # What had not yet been let in when the order came is refused with 503, nothing is left unanswered.
    assert end["finished"] + end["refused"] == end["in_flight"] and end["finished"] > 0 and end["lost"] == {}
    assert {way["labels_differ"] for way in evidence["parity"]["ways"].values()} == {0}
    assert len(evidence["contract"]) > 40 and len(evidence["identity"]["loaded"]) == 1
    page = (registered.folder / "artifacts/verify/report.html").read_text()
    assert found.digest in page and "may be promoted" in page
    assert "verify: passed" in done.stdout.splitlines()[-1]
    assert left_over(registered) == []


def test_a_gate_on_the_model_is_measured_again_without_serving_and_writes_nothing(project: Project) -> None:
    done = verify(project, "--only", "slices", "quality")
    assert done.returncode == 0, done.stderr
    assert verdicts(done) == {"quality": "pass", "slices": "pass"}
    assert "starting Ray" not in done.stdout
    assert (project.folder / REPORT).read_text() == OLD


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--only", "looks"], 2, "looks"),
        (["--version", "1"], 2, "--only"),
        (["--only", "quality", "--version", "1"], 1, "leave --version out"),
        (["--only", "parity", "--version", "12"], 1, "no version 12"),
    ],
)
def test_what_cannot_be_measured_again_is_refused_with_the_remedy(
    project: Project, arguments: list[str], code: int, words: str
) -> None:
    done = verify(project, *arguments)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr


@pytest.mark.slow
def test_a_gate_on_the_service_is_measured_again_for_any_version(project: Project) -> None:
    before = sorted(path for path in (project.folder / ".dvc/mlflow").rglob("*") if path.is_file())
    done = verify(project, "--only", "parity", "identity", "--version", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert verdicts(done) == {"identity": "pass", "parity": "pass"}
    assert (project.folder / REPORT).read_text() == OLD
    assert sorted(path for path in (project.folder / ".dvc/mlflow").rglob("*") if path.is_file()) == before
    assert left_over(project) == []


def test_changed_bytes_in_the_registry_are_refused_by_name_with_the_remedy(project: Project) -> None:
    content = bytearray(weights(project).read_bytes())
    content[-1] ^= 1
    weights(project).write_bytes(content)
    done = verify(project)
    assert done.returncode == 1
    assert "model.safetensors differs" in done.stderr and "pipeline.register --again" in done.stderr
    assert (project.folder / REPORT).read_text() == OLD


def test_a_cluster_out_of_reach_is_the_machines_fault_and_leaves_the_old_report(project: Project) -> None:
    done = verify(project, RAY_ADDRESS="127.0.0.1:1")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "127.0.0.1:1" in done.stderr.splitlines()[-1] or "127.0.0.1:1" in done.stderr
    assert (project.folder / REPORT).read_text() == OLD
    assert left_over(project) == []


@pytest.mark.parametrize(
    ("branch", "values", "words"),
    [
        ("serve", {"max_batch_size": 16}, "is about graph"),
        ("gates", {"max_drop": 2.0}, "gates.max_drop"),
    ],
)
def test_what_does_not_fit_together_is_refused_before_anything_starts(
    project: Project, branch: str, values: dict[str, Any], words: str
) -> None:
    project.edit({branch: values})
    done = verify(project)
    assert (done.returncode, words in done.stderr) == (1, True), done.stderr
    assert "starting Ray" not in done.stdout
    assert (project.folder / REPORT).read_text() == OLD


def test_a_behaviour_case_with_an_unknown_label_is_refused_before_anything_starts(project: Project) -> None:
    cases = {"labels": list(tiny.LABELS), "minimum": [{"text": "it was good", "label": "excellent"}]}
    (project.folder / "data/behaviour.yaml").write_text(json.dumps(cases), encoding="utf-8")
    done = verify(project)
    assert (done.returncode, "'excellent'" in done.stderr) == (1, True), done.stderr
    assert "starting Ray" not in done.stdout
    assert (project.folder / REPORT).read_text() == OLD


def test_an_empty_golden_split_is_refused_before_anything_starts(project: Project) -> None:
    golden = project.folder / "data/splits/golden.parquet"
    pq.write_table(pq.read_table(golden).slice(0, 0), golden)
    done = verify(project)
    assert (done.returncode, "golden.parquet holds no rows" in done.stderr) == (1, True), done.stderr
    assert "starting Ray" not in done.stdout
    assert (project.folder / REPORT).read_text() == OLD


def test_metrics_of_another_run_are_refused(project: Project) -> None:
    metrics = project.read("artifacts/metrics.json")
    metrics["runtimes"]["torch-fp32"]["accuracy"] -= 0.1
    (project.folder / "artifacts/metrics.json").write_text(json.dumps(metrics))
    done = verify(project)
    assert (done.returncode, "dvc repro evaluate" in done.stderr) == (1, True)


@pytest.mark.slow
def test_an_untrained_model_fails_with_exit_0_and_a_report_that_says_why(project: Project, tmp_path: Path) -> None:
    untrained = tiny.checkpoint(tmp_path / "untrained", tiny.base_model(tmp_path / "base"), steps=0)
    seal(untrained, tmp_path / "bundle", temperature=1.0)
    prepared.use(project, tmp_path / "bundle")
    done = verify(project)
    assert done.returncode == 0, done.stderr
    found = report(project)
    assert not found.passed
    assert "quality" in [v.gate for v in found.failures]
    assert "serve.status(): " in str(found.evidence["last_words"]) and "replica" in str(found.evidence["last_words"])
    assert {"identity", "contract", "parity"} <= {v.gate for v in found.verdicts if v.outcome == "pass"}
    assert "champion stays" in (project.folder / "artifacts/verify/report.html").read_text()
    again = verify(project, "--only", "quality")
    assert (again.returncode, "quality" in again.stderr.splitlines()[-1]) == (1, True), again.stderr


@pytest.mark.slow
def test_the_full_set_breaks_the_graph_in_every_way_and_watches_its_memory(project: Project) -> None:
    project.edit({"gates": {"full": True}})
    done = verify(project)
    assert done.returncode == 0, done.stdout + done.stderr
    found = report(project)
    assert found.passed, [v.why for v in found.failures]
    assert [v.gate for v in found.verdicts][-4:] == ["overload", "faults", "shutdown", "memory"]
    evidence: Any = found.evidence
    drills = evidence["faults"]["drills"]
    on_any = {"replica killed", "ingress killed", "clients leave", "half a body", "slow readers", "overload"}
    assert drills.keys() == on_any | {"one of several killed", "poison", "hang"}
    assert set(drills["one of several killed"]["statuses"]) == {"200"}
    # Few while the ingress is gone: each waits for an answer.
    assert all(drill["looks"] > 2 for drill in drills.values())
    assert sum(drill["looks"] for drill in drills.values()) > 200
    assert evidence["gates"] == "full"
    page = (project.folder / "artifacts/verify/report.html").read_text()
    assert "SIGKILL of the only model replica" in page and "Resident memory" in page
    assert left_over(project) == []


@pytest.mark.slow
def test_a_rollback_to_what_passed_in_another_graph_verifies_it_in_todays(
    project: Project, tmp_path: Path, tiny_checkpoint: Path
) -> None:
    assert verify(project).returncode == 0
    first = report(project)
    project.run(sys.executable, "-m", "pipeline.promote")
    seal(tiny_checkpoint, tmp_path / "bundle", temperature=1.01)
    prepared.use(project, tmp_path / "bundle")
    project.pipeline("rollback", "--to", "2", "--force", "--reason", "a second champion")
    project.edit({"serve": {"max_batch_size": 16}})
    done = project.pipeline("rollback", "--to", "1", "--reason", "complaints")
    assert "version 1 passed in another graph; verifying it in today's" in done.stdout
    assert "champion is version 1" in done.stdout
    where = open_registry(project.folder, RegistryParams(name="tiny", experiment="train-to-serve"))
    last, version = where.journal()[-1], where.champion()
    assert version is not None and (last.action, version.digest) == ("rollback", first.digest)
    kept = where.report(first.digest, last.graph_digest)
    assert kept is not None and kept.passed and kept.sha256 == last.report_sha256
    assert last.graph_digest != first.graph_digest and first.sha256 in str(kept.evidence["on_the_model"])
    assert left_over(project) == []


@pytest.mark.slow
def test_a_worse_candidate_fails_against_the_champion_it_would_replace(registered: Project, tmp_path: Path) -> None:
    project = registered.copy(tmp_path / "project")
    assert verify(project).returncode == 0
    first = report(project).digest
    project.run(sys.executable, "-m", "pipeline.promote")
    hasty = tiny.checkpoint(tmp_path / "hasty", tiny.base_model(tmp_path / "base"), steps=12)
    seal(hasty, tmp_path / "bundle", temperature=1.0)
    prepared.use(project, tmp_path / "bundle")
    assert verify(project).returncode == 0
    found = report(project)
    assert found.baseline_digest == first
    champion = next(v for v in found.verdicts if v.gate == "champion")
    assert champion.outcome == "fail" and first[:19] in champion.why
    assert "0 rows left out" in champion.why


@pytest.mark.slow
def test_the_table_and_the_load_know_the_api_key(project: Project) -> None:
    done = verify(project, SERVE_API_KEYS="first-key, second-key")
    assert done.returncode == 0, done.stderr
    assert report(project).passed
    assert "first-key" not in (project.folder / REPORT).read_text()
    assert {"no key", "a wrong key"} <= {case["name"] for case in report(project).evidence["contract"]}  # type: ignore[index,call-overload,union-attr]


@pytest.mark.slow
@pytest.mark.parametrize("after", ["starting Ray", "round 2"])
def test_told_to_stop_it_tears_everything_down_and_leaves_the_old_report(project: Project, after: str) -> None:
    command = [sys.executable, "-u", "-m", "pipeline.verify"]
    with subprocess.Popen(command, cwd=project.folder, env=project.env(), stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if after in line:
                break
        time.sleep(3)
        running.send_signal(signal.SIGTERM)
        running.stdout.read()
        # While Ray starts, handlers of its own stand, in Python and below, each with a code of its own.
        assert running.wait(60) != 0 if after == "starting Ray" else running.wait(60) == 128 + signal.SIGTERM
    # The one below aborts the process: then Ray's agents see by themselves, within a minute, that they are alone.
    until = time.monotonic() + (90 if after == "starting Ray" else 5)
    while left_over(project) and time.monotonic() < until:
        time.sleep(0.5)
    assert left_over(project) == []
    assert (project.folder / REPORT).read_text() == OLD


@pytest.mark.slow
def test_a_replica_that_dies_while_it_is_measured_is_the_machines_fault(project: Project) -> None:
    command = [sys.executable, "-u", "-m", "pipeline.verify"]
    with subprocess.Popen(
        command, cwd=project.folder, env=project.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None and running.stderr is not None
        for line in running.stdout:
            if "round 2" in line:
                break
        (replica,) = (
            child
            for child in psutil.Process(running.pid).children(recursive=True)
            if "ServeReplica" in " ".join(child.cmdline()) and ":Model" in " ".join(child.cmdline())
        )
        os.kill(replica.pid, signal.SIGKILL)
        running.stdout.read()
        said = running.stderr.read()
        assert running.wait(120) == 3, said
    assert "died while it was measured" in said and "serve.status()" in said
    assert (project.folder / REPORT).read_text() == OLD
    assert left_over(project) == []


def test_a_project_without_a_version_says_which_command_makes_one(project: Project) -> None:
    shutil.rmtree(project.folder / ".dvc/mlflow")
    done = verify(project)
    assert done.returncode == 1
    assert "does not hold" in done.stderr and "dvc repro register" in done.stderr
