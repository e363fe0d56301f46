"""Registering and finding versions: one for each bundle, whole or not at all, here or on a server."""

import json
import shutil
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from registry import bundle
from registry.bundle import BundleError
from registry.errors import MachineFault
from registry.home import HomeError, resolve
from registry.registering import register, restore
from registry.runs import Record
from registry.store import StoreFault
from registry.versions import Registry, RegistryError
from tests import registered

Bundles = tuple[Path, ...]


def runs(registry: Registry) -> list[Any]:
    """All runs of the experiment."""
    experiment = registry.client.get_experiment_by_name(registry.experiment)
    return list(registry.client.search_runs([experiment.experiment_id])) if experiment else []


def test_a_project_without_a_registry_is_asked_without_making_one(tmp_path: Path) -> None:
    registry = Registry(resolve(tmp_path, registered.PARAMS), "tiny", "tests")
    assert registry.champion() is None
    assert registry.known("sha256:0") is None
    assert registry.journal() == []
    assert not any(tmp_path.iterdir())


def test_one_bundle_is_one_version_whose_folder_is_the_artifact(registry: Registry, bundles: Bundles) -> None:
    first = register(registry, bundles[0], registered.record())
    again = register(registry, bundles[0], registered.record(base="something else"))
    other = register(registry, bundles[1], registered.record())
    assert again == first
    assert (first.version, other.version) == ("1", "2")
    assert first.digest == bundle.read_manifest(bundles[0]).digest
    assert registry.home.artifact_root is not None
    assert first.folder.is_relative_to(registry.home.artifact_root)
    assert registry.find(first.digest) == first
    assert registry.version("2") == other
    assert [run.info.status for run in runs(registry)] == ["FINISHED", "FINISHED"]


def test_a_version_says_what_it_is_to_a_person(registry: Registry, bundles: Bundles) -> None:
    register(registry, bundles[0], registered.record(changed=True, experiment="acerb-foal"))
    version = registry.client.get_model_version("tiny", "1")
    assert version.tags["base"] == "tiny-base"
    assert version.tags["accuracy"] == "0.8000"
    assert version.tags["macro_f1"] == "0.7000"
    assert version.tags["data_digest"] == "sha256:" + "ab" * 32
    assert version.tags["git_commit"] == "c" * 40
    assert version.tags["git_changed"] == "true"
    assert version.tags["experiment"] == "acerb-foal"
    for word in (
        "**3 classes**",
        "`positive`",
        "| tfidf baseline | 0.4000 | 0.2000 |",
        "with changes on top",
        "lr 0.003",
    ):
        assert word in version.description
    (run,) = runs(registry)
    assert run.info.run_name == "tiny 1: tiny-base"
    model_id = version.tags["model_id"]
    assert run.outputs.model_outputs[0].model_id == model_id
    assert version.source == f"models:/{model_id}"
    named = registry.client.get_logged_model(model_id).tags["mlflow.modelVersions"]
    assert json.loads(named) == [{"name": "tiny", "version": "1"}]


def test_an_unknown_number_lists_the_known_ones(registry: Registry, bundles: Bundles) -> None:
    register(registry, bundles[0], registered.record())
    with pytest.raises(RegistryError, match=r"no version 7 .* there are: 1 \(registry: sqlite:"):
        registry.version("7")


def test_a_flipped_byte_is_refused_by_file_and_remedy_and_restored_on_demand(
    registry: Registry, bundles: Bundles
) -> None:
    version = register(registry, bundles[0], registered.record())
    weights = version.folder / "model/model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    (version.folder / "stray.txt").touch()
    for ask in (
        lambda: registry.find(version.digest),
        lambda: registry.version("1"),
        lambda: register(registry, bundles[0], registered.record()),
    ):
        with pytest.raises(BundleError, match=r"model\.safetensors differs.*pipeline\.register --again"):
            ask()
    assert "model.safetensors" in str(restore(registry, bundles[0]))
    assert registry.find(version.digest) == version
    assert restore(registry, bundles[0]) is None
    with pytest.raises(RegistryError, match="never registered"):
        restore(registry, bundles[1])


def test_r05_a_moved_project_finds_its_artifacts_and_so_does_mlflow(
    registry: Registry, bundles: Bundles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    version = register(registry, bundles[0], registered.record(files=(bundles[0] / "contract.json",)))
    shutil.move(tmp_path / "a project", tmp_path / "another place")
    moved = registered.registry(tmp_path / "another place")
    found = moved.find(version.digest)
    assert found is not None
    assert found.folder.is_relative_to(tmp_path / "another place")
    assert "it lay at" in capsys.readouterr().out
    (run,) = runs(moved)
    assert moved.client.list_artifacts(run.info.run_id)
    source = moved.client.get_model_version_download_uri("tiny", "1")
    assert Path(source).is_relative_to(tmp_path / "another place")
    # and once more, quietly
    assert registered.registry(tmp_path / "another place").find(version.digest) == found
    assert "it lay at" not in capsys.readouterr().out


def test_r05_a_copy_leaves_the_original_alone(registry: Registry, bundles: Bundles, tmp_path: Path) -> None:
    version = register(registry, bundles[0], registered.record())
    shutil.copytree(tmp_path / "a project", tmp_path / "a project too")
    copied = registered.registry(tmp_path / "a project too").find(version.digest)
    assert copied is not None and copied.folder.is_relative_to(tmp_path / "a project too")
    assert registered.registry(tmp_path / "a project").find(version.digest) == version


def test_r05_lost_artifacts_are_said_by_path_and_restored(registry: Registry, bundles: Bundles) -> None:
    version = register(registry, bundles[0], registered.record())
    shutil.rmtree(version.folder)
    with pytest.raises(BundleError, match=str(version.folder)):
        registry.find(version.digest)
    restore(registry, bundles[0])
    assert registry.find(version.digest) == version


def test_r07_an_old_file_store_in_the_current_directory_does_not_matter(
    registry: Registry, bundles: Bundles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mlruns/0").mkdir(parents=True)
    (tmp_path / "mlruns/0/meta.yaml").write_text("name: Default\n")
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("mlruns/**"))
    assert register(registry, bundles[0], registered.record()).version == "1"
    assert sorted(tmp_path.rglob("mlruns/**")) == before


def test_r10_somebody_elses_run_in_the_environment_does_not_redirect(
    registry: Registry, bundles: Bundles, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", "f" * 32)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "theirs")
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", f"sqlite:///{tmp_path}/theirs.db")
    register(registry, bundles[0], registered.record())
    assert [run.info.run_id for run in runs(registry)] != ["f" * 32]
    assert registry.client.get_experiment_by_name("theirs") is None
    assert not (tmp_path / "theirs.db").exists()


def test_a_deleted_experiment_is_restored(registry: Registry, bundles: Bundles) -> None:
    register(registry, bundles[0], registered.record())
    experiment = registry.client.get_experiment_by_name("tests")
    registry.client.delete_experiment(experiment.experiment_id)
    assert register(registry, bundles[1], registered.record()).version == "2"


@pytest.mark.parametrize("writes", [1, 3, 5, 8, 10, 12])
def test_r09_killed_anywhere_there_is_no_version_and_the_next_try_makes_one(
    registry: Registry, bundles: Bundles, writes: int
) -> None:
    with registered.dying(registry, writes), pytest.raises(registered.Killed):
        register(registry, bundles[0], registered.record())
    assert registry.all() == []
    version = register(registry, bundles[0], registered.record())
    assert version.version == "1"
    statuses = [run.info.status for run in runs(registry)]
    assert statuses.count("FINISHED") == 1
    assert "RUNNING" not in statuses
    kept = [path for path in version.folder.parents[2].iterdir() if path.is_dir()]
    assert kept == [version.folder.parents[1]], "half a model takes no disk"


def test_r04_a_killed_run_of_another_bundle_is_closed_too(registry: Registry, bundles: Bundles) -> None:
    with registered.dying(registry, 8), pytest.raises(registered.Killed):
        register(registry, bundles[0], registered.record())
    register(registry, bundles[1], registered.record())
    assert sorted(run.info.status for run in runs(registry)) == ["FINISHED", "KILLED"]


def test_r09_what_comes_back_changed_is_no_version(
    registry: Registry, bundles: Bundles, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = registry.client.log_model_artifacts

    def cut(model_id: str, folder: str, path: str | None = None) -> None:
        upload(model_id, folder, path)
        place = Path(registry.client.get_logged_model(model_id).artifact_location)
        if path:
            (place / path / "model/model.safetensors").write_bytes(b"half")

    monkeypatch.setattr(registry.client, "log_model_artifacts", cut, raising=False)
    with pytest.raises(StoreFault, match=r"came back .* changed"):
        register(registry, bundles[0], registered.record())
    assert registry.all() == []
    (run,) = runs(registry)
    assert run.info.status == "FAILED"
    monkeypatch.undo()
    assert register(registry, bundles[0], registered.record()).version == "1"


def test_r04_a_run_that_was_killed_after_naming_its_version_is_finished_later(
    registry: Registry, bundles: Bundles, capsys: pytest.CaptureFixture[str]
) -> None:
    with registered.dying(registry, 13), pytest.raises(registered.Killed):
        register(registry, bundles[0], registered.record())
    assert [run.info.status for run in runs(registry)] == ["RUNNING"]
    assert register(registry, bundles[0], registered.record()).version == "1"
    assert [run.info.status for run in runs(registry)] == ["FINISHED"]
    assert "had been killed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("end", "status"), [(ValueError("of ours"), "FAILED"), (SystemExit(143), "KILLED"), (KeyboardInterrupt(), "KILLED")]
)
def test_r04_a_run_ends_as_its_command_did(
    registry: Registry, bundles: Bundles, monkeypatch: pytest.MonkeyPatch, end: BaseException, status: str
) -> None:
    def fail(*_: Any) -> None:
        raise end

    monkeypatch.setattr("registry.mlmodel.wrap", fail)
    with pytest.raises(type(end)):
        register(registry, bundles[0], registered.record())
    assert [run.info.status for run in runs(registry)] == [status]
    assert registry.all() == []


def test_r02_a_program_that_writes_meanwhile_is_waited_for(registry: Registry, bundles: Bundles) -> None:
    register(registry, bundles[0], registered.record())
    database = str(registry.home.database)
    stop, held = threading.Event(), threading.Event()

    def hold_again_and_again() -> None:
        connection = sqlite3.connect(database, isolation_level=None, timeout=30)
        while not stop.is_set():
            connection.execute("BEGIN IMMEDIATE")
            held.set()
            time.sleep(0.1)
            connection.execute("ROLLBACK")
            time.sleep(0.02)
        connection.close()

    thread = threading.Thread(target=hold_again_and_again)
    thread.start()
    held.wait()
    try:
        assert register(registry, bundles[1], registered.record()).version == "2"
    finally:
        stop.set()
        thread.join()


@pytest.mark.slow
def test_r02_a_transaction_of_25_seconds_in_the_middle_is_outlasted(
    registry: Registry, bundles: Bundles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow itself gives up after 20 s."""
    from registry import runs as recording

    log, threads = recording.log, []

    def hold() -> None:
        connection = sqlite3.connect(str(registry.home.database), isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        held.set()
        time.sleep(25)
        connection.close()

    held = threading.Event()

    def log_while_held(*args: Any) -> None:
        threads.append(threading.Thread(target=hold))
        threads[0].start()
        held.wait()
        log(*args)

    monkeypatch.setattr(recording, "log", log_while_held)
    assert register(registry, bundles[0], registered.record()).version == "1"


def test_a_server_that_does_not_answer_is_the_machines_fault_within_seconds(tmp_path: Path) -> None:
    params = registered.PARAMS.model_copy(update={"tracking_uri": "http://127.0.0.1:9"})
    start = time.monotonic()
    with pytest.raises(MachineFault, match="no MLflow server answers"):
        Registry(resolve(tmp_path, params), "tiny", "tests").champion()
    assert time.monotonic() - start < 10


def test_a_database_of_another_program_is_refused(registry: Registry) -> None:
    assert registry.home.database is not None
    registry.home.database.write_bytes(b"not a database at all, sorry" * 100)
    with pytest.raises(HomeError, match="is damaged"):
        registry.champion()


def test_m10_150_long_odd_class_names_are_registered(registry: Registry, bundles: Bundles) -> None:
    labels = tuple(f"{i} " + "ä/:%😀 long " * 6 for i in range(150))
    record: Record = registered.record(metrics=registered.scores(labels=labels))
    version = register(registry, bundles[0], record)
    assert version.version == "1"
    (run,) = runs(registry)
    assert sum(name.startswith("torch-fp32/classes/") and name.endswith("/f1") for name in run.data.metrics) == 150
    text = registry.client.download_artifacts(run.info.run_id, "labels.json")
    assert set(json.loads(Path(text).read_text(encoding="utf-8")).values()) == {"negative", "neutral", "positive"}
