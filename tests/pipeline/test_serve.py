"""python -m pipeline serve, as a person starts and stops it."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from pipeline.params import load
from registry.params import RegistryParams
from serving.params import ServeParams
from tests.champions import promoted
from tests.registered import registry

ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty registry of this test's own, in the environment."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", registry(tmp_path).home.uri)
    monkeypatch.delenv("SERVE_API_KEYS", raising=False)
    return tmp_path


class Served:
    """The running command and what it said."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pipeline", "serve", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.said: list[str] = []

    def wait_for(self, words: str) -> str:
        """Read until a line holds these words; that line."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if words in line:
                return line
        raise AssertionError("".join(self.said))

    def end(self, timeout_s: float = 60) -> int:
        """Read the rest; the exit code."""
        assert self.process.stdout is not None
        self.said += self.process.stdout.readlines()
        return self.process.wait(timeout_s)


@pytest.fixture
def serving(request: pytest.FixtureRequest) -> Iterator[list[Served]]:
    """What the test starts is ended with it."""
    started: list[Served] = []
    yield started
    for served in started:
        if served.process.poll() is None:
            served.process.terminate()
            served.end()


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pipeline", "serve", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_a_taken_port_ends_it_with_3_before_anything_slow() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("--port", str(port))
    assert done.returncode == 3
    assert f"port {port} is taken" in done.stderr
    assert f"process {os.getpid()}" in done.stderr
    assert f"make serve PORT={port + 1}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_port_is_told_without_importing_ray() -> None:
    code = "import pipeline.serve, sys; assert not {'ray', 'torch', 'mlflow', 'fastapi'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_without_a_champion_it_is_refused_with_the_remedy(home: Path) -> None:
    done = run("--port", str(free_port()))
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith("serve: refused:")
    assert "dvc repro" in done.stderr


@pytest.mark.parametrize("arguments", [["--port", "0"], ["--port", "x"], ["--nope"]])
def test_wrong_usage_is_a_2(arguments: list[str]) -> None:
    assert run(*arguments).returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize("told_by", [signal.SIGTERM, signal.SIGINT])
def test_the_champion_is_served_until_told_to_stop_and_nothing_is_left(
    home: Path, tiny_bundle: Path, serving: list[Served], told_by: signal.Signals
) -> None:
    version = promoted(tiny_bundle, load("registry", RegistryParams), load("serve", ServeParams), home / "r.html")
    port = free_port()
    served = Served("--port", str(port))
    serving.append(served)
    curl = served.wait_for("curl -s")
    asked = subprocess.run(shlex.split(curl), capture_output=True, text=True, check=True)
    assert version.digest in asked.stdout
    assert re.search(r"[\d.]+ s from the start: [\d.]+ s to choose", served.wait_for("from the start"))
    health = httpx.get(f"http://127.0.0.1:{port}/health").json()
    assert (health["verified"], health["model"]["digest"]) == (True, version.digest)

    again = run("--port", str(port))
    assert again.returncode == 3
    assert "this champion already serves here" in again.stderr

    children = psutil.Process(served.process.pid).children(recursive=True)
    statuses: list[int | str] = []
    started = threading.Event()

    def ask() -> None:
        started.set()
        with httpx.Client(timeout=30) as client:
            while not statuses or statuses[-1] == 200:
                try:
                    statuses.append(client.post(f"http://127.0.0.1:{port}/predict", json={"text": "good"}).status_code)
                except httpx.HTTPError as error:
                    statuses.append(type(error).__name__)

    clients = [threading.Thread(target=ask) for _ in range(8)]
    for client in clients:
        client.start()
    time.sleep(1)
    # As a terminal or a container does: the whole group hears SIGINT, one process SIGTERM.
    if told_by == signal.SIGINT:
        os.killpg(served.process.pid, told_by)
    else:
        served.process.send_signal(told_by)
    assert served.end() == 0, served.said
    for client in clients:
        client.join()
    assert statuses.count(200) > 8
    assert set(statuses) <= {200, 503, "ConnectError"}, statuses
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive
    assert served.said[-1] == "serve: stopped\n"
    assert not [line for line in served.said if re.search("Traceback|Error|raylet", line)], served.said
    with socket.socket() as freed:
        freed.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        freed.bind(("127.0.0.1", port))
        freed.listen()


@pytest.mark.slow
def test_an_unverified_graph_is_refused_and_served_only_on_demand_saying_so(
    home: Path, tiny_bundle: Path, serving: list[Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVE_API_KEYS", "key-one,key-two")
    other = load("serve", ServeParams).model_copy(update={"max_batch_size": 7})
    promoted(tiny_bundle, load("registry", RegistryParams), other, home / "r.html")
    port = free_port()
    refused = run("--port", str(port))
    assert refused.returncode == 1
    assert "no passing report" in refused.stderr
    served = Served("--port", str(port), "--unverified", "--host", "0.0.0.0")  # noqa: S104 - what it warns of
    serving.append(served)
    served.wait_for("NOT VERIFIED")
    served.wait_for("OPEN TO THE NETWORK on 0.0.0.0, with API keys")
    curl = served.wait_for("curl -s")
    asked = subprocess.run(["bash", "-c", curl], capture_output=True, text=True, check=True)
    assert '"predictions"' in asked.stdout
    assert httpx.get(f"http://127.0.0.1:{port}/health").json() == {"status": "ok"}
    keyed = httpx.get(f"http://127.0.0.1:{port}/health", headers={"authorization": "Bearer key-two"}).json()
    assert keyed["verified"] is False
    served.process.terminate()
    assert served.end() == 0
