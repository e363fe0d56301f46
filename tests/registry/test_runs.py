"""What a run in MLflow says about a bundle."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from registry import bundle, lineage, runs
from registry.versions import Registry
from tests import registered


@pytest.fixture
def logged(registry: Registry, tiny_bundle: Path, tmp_path: Path) -> Any:
    """The run after a record was logged to it, files and all."""
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots/confusion.json").write_text("[]")
    (tmp_path / "trials.json").write_text("[]")
    record = registered.record(files=(tmp_path / "plots", tmp_path / "trials.json", tmp_path / "never made"))
    experiment_id = registry.client.create_experiment("tests", artifact_location=str(registry.home.artifact_root))
    with runs.recording(registry.client, experiment_id, "a run", runs.tags_of(record)) as run_id:
        runs.log(registry.client, run_id, record, bundle.read_contract(tiny_bundle))
    return registry.client.get_run(run_id)


def test_history_is_replayed_by_step(registry: Registry, logged: Any) -> None:
    points = registry.client.get_metric_history(logged.info.run_id, "train_loss")
    assert [(point.step, point.value) for point in points] == [(20, 1.0), (60, 0.8)]
    assert [point.timestamp for point in points] == sorted(point.timestamp for point in points)
    assert logged.data.metrics["val_macro_f1"] == 0.5


def test_final_metrics_stand_under_short_names_and_under_their_runtime(logged: Any) -> None:
    metrics = logged.data.metrics
    assert metrics["test_accuracy"] == metrics["torch-fp32/accuracy"] == 0.8
    assert metrics["onnx-int8/accuracy"] == pytest.approx(0.79)
    assert metrics["torch-fp32/classes/positive/f1"] == 0.65
    assert metrics["torch-fp32/slices/tweets/accuracy"] == 0.8
    assert metrics["baselines/tfidf/macro_f1"] == 0.2
    assert metrics["rows/test"] == 120
    assert "torch-fp32/classes/positive/recall" not in metrics, "null is no number"


def test_params_are_flat_and_the_settings_that_were_used_stand_beside_them(logged: Any) -> None:
    assert logged.data.params["train.lr"] == "0.0001"
    assert logged.data.params["tune.space.lr"] == "[1]"
    assert logged.data.params["used.lr"] == "0.003"


def test_the_dataset_is_an_input_with_its_digest(logged: Any) -> None:
    (found,) = logged.inputs.dataset_inputs
    assert (found.dataset.name, found.dataset.digest) == ("mine.csv", "ab" * 16)
    assert json.loads(found.dataset.source)["sha256"] == "ab" * 32
    assert json.loads(found.dataset.profile) == {"rows": 1200}
    assert found.tags[0].value == "training"


def test_files_and_the_label_map_are_kept(registry: Registry, logged: Any) -> None:
    kept = {file.path for file in registry.client.list_artifacts(logged.info.run_id)}
    assert kept == {"labels.json", "plots", "trials.json"}


def test_the_code_that_made_it_is_named(logged: Any) -> None:
    tags = logged.data.tags
    assert tags["mlflow.source.git.commit"] == tags["git_commit"] == "c" * 40
    assert tags["git_changed"] == "false"
    assert {"ray", "torch", "transformers", "python"} <= tags.keys()


def test_long_values_are_cut_to_what_every_server_takes(registry: Registry, tiny_bundle: Path) -> None:
    record = registered.record(params={"data": {f"key{i}": "x" * 9000 for i in range(150)}})
    experiment_id = registry.client.create_experiment("tests", artifact_location=str(registry.home.artifact_root))
    with runs.recording(registry.client, experiment_id, "a run", {}) as run_id:
        runs.log(registry.client, run_id, record, bundle.read_contract(tiny_bundle))
    params = registry.client.get_run(run_id).data.params
    assert len(params["data.key149"]) == runs.LONGEST_PARAM


def test_m10_odd_labels_get_names_of_their_own() -> None:
    labels = ("positive", "a/b", "a:b", "😀", "..", "%41", "50 % off", "x" * 200)
    names = runs.safe_names(labels)
    assert names[0] == "positive"
    assert len(set(names)) == len(labels)
    assert all(runs.SAFE.fullmatch(name) for name in names)


def test_the_commit_is_judged_without_what_the_stages_write(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", "-C", str(tmp_path), *identity, *words], check=True, capture_output=True)

    assert lineage.git_state(tmp_path) == ("none", False)
    git("init", "-q")
    (tmp_path / "artifacts").mkdir()
    for name in ("code.py", "dvc.lock", "artifacts/metrics.json"):
        (tmp_path / name).write_text("1")
    git("add", ".")
    git("commit", "-qm", "first")
    (tmp_path / "dvc.lock").write_text("2")
    (tmp_path / "artifacts/metrics.json").write_text("2")
    (tmp_path / "notes.txt").write_text("untracked")
    commit, changed = lineage.git_state(tmp_path)
    assert (len(commit), changed) == (40, False)
    (tmp_path / "code.py").write_text("2")
    assert lineage.git_state(tmp_path) == (commit, True)
