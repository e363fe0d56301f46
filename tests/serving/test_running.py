"""A graph that comes up in time or says why, and leaves nothing behind."""

import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest
from ray import serve

from registry.bundle import BundleError, VersionRef
from registry.errors import MachineFault
from registry.runtimes import Engine
from registry.scorer import Scorer
from serving.app import build
from serving.params import ServeParams
from serving.resources import TooSmall
from serving.running import NotRunning, running
from tests.serving.conftest import TINY, Deploy, free_port

ROOT = Path(__file__).resolve().parents[2]


def refuses(folder: Path, digest: str, engine: Engine) -> Scorer:
    """A bundle that is not what it was."""
    raise BundleError(f"{folder}/model/model.safetensors differs")


def dawdles(folder: Path, digest: str, engine: Engine) -> Scorer:
    """A bundle that takes for ever."""
    time.sleep(3600)
    raise AssertionError


@pytest.mark.slow
def test_a_guest_deletes_its_own_app_and_nothing_else(deploy: Deploy, tiny_version: VersionRef) -> None:
    with deploy(tiny_version) as first:
        with deploy(tiny_version) as second:
            assert httpx.get(f"{second}/health").status_code == 200
        assert httpx.get(f"{second}/health").status_code == 404
        assert httpx.get(f"{first}/health").status_code == 200


def test_a_bundle_that_does_not_load_is_told_in_its_own_words(serve_port: int, tiny_version: VersionRef) -> None:
    app = build(tiny_version, ServeParams(**TINY), verified=False, constructor_retries=1, load=refuses)
    with (
        pytest.raises(NotRunning, match=r"model\.safetensors differs"),
        running(app, host="127.0.0.1", port=serve_port, name="refused", route_prefix="/refused", timeout_s=60),
    ):
        pass
    assert "refused" not in serve.status().applications


def test_the_deadline_is_ours_although_serve_would_wait_for_ever(serve_port: int, tiny_version: VersionRef) -> None:
    app = build(tiny_version, ServeParams(**TINY), verified=False, load=dawdles)
    began = time.monotonic()
    with (
        pytest.raises(NotRunning, match=r"not up in time(.|\n)*DEPLOYING(.|\n)*Model: UPDATING"),
        running(app, host="127.0.0.1", port=serve_port, name="late", route_prefix="/late", timeout_s=5),
    ):
        pass
    assert time.monotonic() - began < 60


def test_a_gpu_that_is_not_there_is_told_at_once(serve_port: int, tiny_version: VersionRef) -> None:
    app = build(tiny_version, ServeParams(**TINY, num_gpus=64), verified=False)
    began = time.monotonic()
    with (
        pytest.raises(TooSmall, match="64 GPU"),
        running(app, host="127.0.0.1", port=serve_port, name="gpu", route_prefix="/gpu"),
    ):
        pass
    assert time.monotonic() - began < 2
    assert issubclass(TooSmall, MachineFault)


SCRIPT = """
import sys
from pathlib import Path
from pipeline.cluster import RayParams, cluster
from registry.bundle import VersionRef
from serving import front
from serving.app import build
from serving.params import ServeParams
from serving.running import running
version = VersionRef.model_validate_json(sys.argv[1])
with front.raised(), cluster(RayParams(num_cpus=1)):
    try:
        app = build(version, ServeParams(num_cpus=0.5), verified=False)
        with running(app, host="127.0.0.1", port=int(sys.argv[2])):
            print("UP", flush=True)
            {inside}
    except ZeroDivisionError:
        pass
print("OUT", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("inside", ["pass", "1 / 0"])
def test_nothing_is_left_on_any_way_out(tiny_version: VersionRef, inside: str) -> None:
    port = free_port()
    script = SCRIPT.replace("{inside}", inside)
    process = subprocess.Popen(
        [sys.executable, "-c", script, tiny_version.model_dump_json(), str(port)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = []
    children: list[psutil.Process] = []
    for line in process.stdout:
        said.append(line)
        if line == "UP\n":
            children = psutil.Process(process.pid).children(recursive=True)
    assert process.wait(60) == 0, said
    assert len(children) > 3
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive
    assert not [c for c in psutil.net_connections("tcp") if c.laddr and c.laddr.port == port and c.status == "LISTEN"]
    assert not [line for line in said if "Controller" in line], said
