"""Where the registry lives, and what is refused or waited for before anything is written."""

import subprocess
from pathlib import Path

import pytest
from pydantic import ValidationError

from registry import home
from registry.home import HomeError, resolve
from registry.params import RegistryParams
from tests.registered import PARAMS


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("MLFLOW_TRACKING_URI", *home.STRAY):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DVC_GLOBAL_CONFIG_DIR", str(tmp_path / "of the user"))
    monkeypatch.setenv("DVC_SYSTEM_CONFIG_DIR", str(tmp_path / "of the system"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project/.dvc").mkdir(parents=True)
    return tmp_path / "project"


def test_the_default_is_sqlite_beside_the_dvc_cache(project: Path) -> None:
    found = resolve(project, PARAMS)
    assert found.uri == f"sqlite:///{project}/.dvc/mlflow/default/mlflow.db"
    assert found.artifact_root == project / ".dvc/mlflow/default/artifacts"
    assert not found.exists
    assert not (project / ".dvc/mlflow").exists(), "resolving makes nothing"


def test_a_committed_line_names_the_project(project: Path) -> None:
    (project / ".dvc/project").write_text("my-project\n")
    assert resolve(project, PARAMS).folder == project / ".dvc/mlflow/my-project"
    (project / ".dvc/project").write_text("../elsewhere\n")
    with pytest.raises(HomeError, match="one line of letters"):
        resolve(project, PARAMS)


@pytest.mark.parametrize(
    ("level", "given"),
    [
        ("--local", "../../shared cache"),
        ("--project", "/tmp/some/cache, with comma#"),  # noqa: S108 - never made
        ("--global", "../shared"),
        ("--system", "/opt/cache"),
    ],
)
def test_the_cache_is_where_dvc_says_it_is(project: Path, level: str, given: str) -> None:
    subprocess.run(["dvc", "init", "--no-scm", "-q", "-f"], cwd=project, check=True)
    subprocess.run(["dvc", "config", level, "cache.dir", given], cwd=project, check=True)
    said = subprocess.run(["dvc", "cache", "dir"], cwd=project, check=True, capture_output=True, text=True)
    assert str(home.dvc_cache(project)) == said.stdout.strip()


def test_local_configuration_wins_and_a_temporary_experiment_shares_the_home(project: Path, tmp_path: Path) -> None:
    (project / ".dvc/config").write_text("[cache]\n    dir = ../../shared\n")
    assert resolve(project, PARAMS).folder == tmp_path / "mlflow/default"
    # what `dvc exp run --temp` writes into its copy of the project
    copy = tmp_path / "project/.dvc/tmp/exps/standalone/xyz"
    (copy / ".dvc").mkdir(parents=True)
    (copy / ".dvc/config").write_text("[cache]\n    dir = ../../shared\n")
    (copy / ".dvc/config.local").write_text(f"[cache]\n    dir = {tmp_path}/shared\n")
    assert resolve(copy, PARAMS) == resolve(project, PARAMS)


def test_dvc_is_quiet_about_the_project_file(project: Path) -> None:
    subprocess.run(["dvc", "init", "--no-scm", "-q", "-f"], cwd=project, check=True)
    (project / ".dvc/project").write_text("my-project\n")
    done = subprocess.run(["dvc", "status"], cwd=project, check=True, capture_output=True, text=True)
    assert "WARNING" not in done.stdout + done.stderr


def test_the_environment_wins_over_params_and_both_are_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params = PARAMS.model_copy(update={"tracking_uri": "sqlite:///kept/here.db"})
    found = resolve(project, params)
    assert (found.uri, found.why) == (f"sqlite:///{project}/kept/here.db", "registry.tracking_uri in params.yaml")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://user:secret@mlflow.example/")
    found = resolve(project, params)
    assert (found.uri, found.artifact_root) == ("https://user:secret@mlflow.example", None)
    assert found.why == "MLFLOW_TRACKING_URI"
    assert "secret" not in found.shown


def test_r03_the_current_directory_does_not_matter(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    params = PARAMS.model_copy(update={"tracking_uri": "sqlite:///kept/here.db"})
    here = resolve(project, params)
    monkeypatch.chdir(tmp_path)
    assert resolve(project, params) == here


@pytest.mark.parametrize("uri", ["file:./mlruns", "file:///tmp/mlruns", "./mlruns", "/tmp/mlruns", "databricks"])  # noqa: S108
def test_r07_a_store_that_mlflow_refuses_is_refused_here_with_one_that_works(
    project: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValidationError, match=r"sqlite:///.*or null"):
        RegistryParams(name="tiny", experiment="tests", tracking_uri=uri)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(HomeError, match=r"MLFLOW_TRACKING_URI is .* sqlite:///"):
        resolve(project, PARAMS)


def test_a_path_that_mlflow_cannot_open_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HomeError, match="move the project"):
        resolve(tmp_path / "50%?", PARAMS)


def test_r10_stray_variables_are_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", "f" * 32)
    (line,) = home.stray_variables(resolve(project, PARAMS))
    assert "MLFLOW_RUN_ID" in line and ".dvc/mlflow" in line
