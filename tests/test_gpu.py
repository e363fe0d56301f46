"""The same path on a GPU: `pytest -m gpu`. Skipped, with the reason, where there is none."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import torch

from tests.project import Project

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]
PORT = 18433


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_model_is_trained_verified_and_served_on_a_gpu(tmp_path: Path, precision: str) -> None:
    project = Project.make(tmp_path / "gpu")
    precisions = list(dict.fromkeys(["fp32", precision]))
    # A tiny model's labels say little about half precision: it is kept whatever it answers, and its parity is judged.
    project.edit(
        {
            "train": {"use_gpu": True},
            "package": {"precisions": precisions, "min_agreement": 0.9, "max_f1_drop": 0.1},
            "serve": {"num_gpus": 1.0, "precision": precision},
        }
    )
    project.dvc("repro")
    assert project.status()["report"]["passed"]

    command = [sys.executable, "-m", "pipeline", "serve", "--port", str(PORT)]
    with subprocess.Popen(command, cwd=project.folder, env=project.env()) as server:
        try:
            health = _health(server)
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    assert str(health["device"]).startswith("cuda") and health["precision"] == precision


def _health(server: "subprocess.Popen[bytes]") -> dict[str, object]:
    for _ in range(120):
        assert server.poll() is None, "serve ended early"
        try:
            answer = httpx.get(f"http://127.0.0.1:{PORT}/health", timeout=2)
        except httpx.HTTPError:
            time.sleep(1)
            continue
        if answer.status_code == 200:
            body: dict[str, object] = answer.json()
            return body
        time.sleep(1)
    raise AssertionError("no healthy answer within two minutes")
