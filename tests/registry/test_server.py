"""The same registry behind an MLflow server: artifacts travel, folders are copies, cut-off uploads leave no version."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from registry.attaching import attach
from registry.home import resolve
from registry.promotion import promote, rollback
from registry.registering import register, restore
from registry.store import StoreFault
from registry.versions import Registry
from tests import registered

pytestmark = pytest.mark.slow
START_S = 90


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """An MLflow server that keeps the artifacts itself: its address and its folder."""
    folder = tmp_path_factory.mktemp("server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", f"{folder}/store"]
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True) as its,
    ):
        try:
            _wait(f"http://127.0.0.1:{port}/health")
            yield f"http://127.0.0.1:{port}", folder
        finally:
            os.killpg(its.pid, signal.SIGTERM)


def _wait(address: str) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        try:
            httpx.get(address, timeout=2)
        except httpx.TransportError:
            time.sleep(0.3)
        else:
            return
    raise AssertionError(f"{address} does not answer")


def remote(root: Path, address: str, name: str) -> Registry:
    """A project's registry on that server, under a name of the test's own."""
    params = registered.PARAMS.model_copy(update={"tracking_uri": address})
    return Registry(resolve(root, params), name, "tests")


@pytest.fixture
def registry(server: tuple[str, Path], tmp_path: Path, request: pytest.FixtureRequest) -> Registry:
    return remote(tmp_path / "here", server[0], request.node.name[:80])


@pytest.fixture
def page(tmp_path: Path) -> Path:
    (tmp_path / "report.html").write_text("<h1>report</h1>")
    return tmp_path / "report.html"


def test_another_project_on_the_same_server_finds_the_champion_and_its_bytes(
    registry: Registry, server: tuple[str, Path], tiny_bundle: Path, tmp_path: Path, page: Path
) -> None:
    version = register(registry, tiny_bundle, registered.record(files=(page,)))
    assert version.folder.is_relative_to(tmp_path / "here/.dvc/mlflow")
    assert register(registry, tiny_bundle, registered.record()) == version
    report = registered.report(version.digest)
    assert attach(registry, report, page)
    promote(registry, report, lambda: registered.GRAPH)

    other = remote(tmp_path / "there", server[0], registry.name)
    champion = other.champion()
    assert champion is not None and champion.digest == version.digest
    assert champion.folder.is_relative_to(tmp_path / "there/.dvc/mlflow")
    assert other.report(version.digest, registered.GRAPH) == report
    assert [entry.action for entry in other.journal()] == ["promote"]
    assert "nothing to do" in rollback(other, version.version, registered.GRAPH, "complaints", force=False)


def test_a_damaged_copy_is_copied_again(
    registry: Registry, tiny_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    version = register(registry, tiny_bundle, registered.record())
    (version.folder / "stray").touch()
    assert registry.find(version.digest) == version
    assert not (version.folder / "stray").exists()
    assert "copying" in capsys.readouterr().out


def test_r09_an_upload_that_was_cut_leaves_no_version_and_is_made_good(
    registry: Registry, server: tuple[str, Path], tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = registry.client.log_model_artifacts

    def cut(model_id: str, folder: str, path: str | None = None) -> None:
        upload(model_id, folder, path)
        for weights in server[1].rglob(f"{model_id}/**/model.safetensors"):
            weights.write_bytes(weights.read_bytes()[:1000])

    monkeypatch.setattr(registry.client, "log_model_artifacts", cut, raising=False)
    with pytest.raises(StoreFault, match="came back"):
        register(registry, tiny_bundle, registered.record())
    assert registry.all() == []
    monkeypatch.undo()
    assert register(registry, tiny_bundle, registered.record()).version == "1"


def test_bytes_lost_on_the_server_are_put_back(registry: Registry, server: tuple[str, Path], tiny_bundle: Path) -> None:
    version = register(registry, tiny_bundle, registered.record())
    for weights in server[1].rglob("model.safetensors"):
        weights.write_bytes(b"lost")
    assert registry.find(version.digest) == version, "the copy here is whole"
    assert "model.safetensors" in str(restore(registry, tiny_bundle))
    assert restore(registry, tiny_bundle) is None
    assert registry.find(version.digest) == version


def test_a_server_that_goes_away_is_the_machines_fault(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    assert registry.client.search_registered_models() is not None
    monkeypatch.setattr("requests.Session.request", _refused)
    with pytest.raises(StoreFault, match="busy or out of reach"):
        registry.all()


def _refused(*_: object, **__: object) -> None:
    from requests.exceptions import ConnectionError as Refused

    raise Refused("connection refused")
