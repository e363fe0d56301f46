"""python -m pipeline ui, as a person starts it and a service manager stops it."""

import signal
import subprocess
import sys
from pathlib import Path

import httpx
import psutil
import pytest

from tests.project import Project


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_told_to_stop_it_takes_its_server_along(tmp_path: Path, stop: signal.Signals) -> None:
    project = Project.make(tmp_path / "a project", rows=1)
    command = [sys.executable, "-m", "pipeline", "ui"]
    with subprocess.Popen(
        command, cwd=project.folder, env=project.env(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        assert running.stdout is not None
        said = running.stdout.readline()
        assert "a project/.dvc/mlflow" in said
        url = next(word for word in said.split() if word.startswith("http://127.0.0.1"))
        assert any("running on" in line for line in running.stdout)
        assert httpx.get(url, timeout=20).status_code == 200
        family = psutil.Process(running.pid).children(recursive=True)
        running.send_signal(stop)
        running.stdout.read()
        assert running.wait(20) in {0, 128 + signal.SIGTERM}
        assert family and psutil.wait_procs(family, timeout=10)[1] == []
