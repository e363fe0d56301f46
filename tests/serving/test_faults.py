"""What the running graph does when replicas die, versions change and too many ask."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx
import psutil
import pytest
from ray import serve

from registry.bundle import VersionRef, read_manifest
from serving.app import build
from serving.params import AutoscalingParams, ServeParams
from serving.resources import room_beside
from tests.registered import variant
from tests.serving.conftest import TINY, Deploy
from tests.serving.fakes import slow
from tests.serving.load import load

pytestmark = pytest.mark.slow


def replicas_of(url: str) -> list[psutil.Process]:
    """The processes of an app's model replicas."""
    name = f"ServeReplica:{url.rsplit('/', 1)[1]}:Model"
    return [p for p in psutil.Process().children(recursive=True) if any(name in part for part in p.cmdline())]


def within(seconds: float, true: Callable[[], bool]) -> bool:
    """Whether it becomes true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.2)
    return False


def test_s12_with_two_replicas_a_killed_one_loses_nothing(deploy: Deploy, tiny_version: VersionRef) -> None:
    with deploy(tiny_version, num_replicas=2) as url, load(url, clients=8, pause_s=0.3) as seen:
        time.sleep(3)
        replicas_of(url)[0].kill()
        assert within(60, lambda: len(seen.replicas) == 3)
    assert set(seen.statuses) == {200}
    assert {status for status, _ in seen.health} == {200}


def test_s12_with_one_replica_it_is_503_until_the_next_is_up(deploy: Deploy, tiny_version: VersionRef) -> None:
    with deploy(tiny_version) as url, load(url, clients=4, pause_s=0.3) as seen:
        time.sleep(3)
        replicas_of(url)[0].kill()
        assert within(60, lambda: len(seen.replicas) == 2)
        time.sleep(1)
        assert seen.answers[-1][0] == 200
    assert set(seen.statuses) <= {200, 503}
    assert {status for status, _ in seen.health} <= {200, 503}
    assert max(seconds for _, seconds in seen.health) < 1
    # Nobody waits much longer than the four seconds after which the model counts as gone.
    assert max(seconds for _, seconds in seen.answers) < 10


def test_a_frozen_replica_is_replaced_and_its_requests_are_answered(deploy: Deploy, tiny_version: VersionRef) -> None:
    with deploy(tiny_version, num_replicas=2) as url, load(url, clients=8, pause_s=0.3) as seen:
        time.sleep(3)
        replicas_of(url)[0].suspend()
        assert within(60, lambda: len(seen.replicas) == 3)
    assert set(seen.statuses) == {200}


def test_autoscaling_adds_a_replica_under_load_and_takes_it_away(deploy: Deploy, tiny_version: VersionRef) -> None:
    scaling = AutoscalingParams(min_replicas=1, max_replicas=2, upscale_delay_s=1.0, downscale_delay_s=2.0)

    def running(url: str) -> int:
        model = serve.status().applications[url.rsplit("/", 1)[1]].deployments["Model"]
        return int(model.replica_states.get("RUNNING", 0))

    with deploy(tiny_version, partial(slow, pause_s=0.2), autoscaling=scaling, max_batch_size=8) as url:
        assert running(url) == 1
        with load(url, clients=32) as seen:
            assert within(60, lambda: running(url) == 2)
            assert within(20, lambda: len(seen.replicas) == 2)
        assert within(90, lambda: running(url) == 1)
        assert httpx.post(f"{url}/predict", json={"text": "good"}, timeout=30).status_code == 200
        assert set(seen.statuses) == {200}


def test_s13_a_new_version_takes_over_without_a_failed_request(
    deploy: Deploy, tiny_version: VersionRef, tmp_path: Path
) -> None:
    folder = variant(tiny_version.folder, tmp_path / "bundle", temperature=1.0001)
    following = VersionRef(name="tiny", version="2", digest=read_manifest(folder).digest, folder=folder)
    load_slowly = partial(slow, pause_s=0.3)
    with deploy(tiny_version, load_slowly) as url, load(url, clients=8, pause_s=0.1) as seen:
        time.sleep(2)
        params = ServeParams(**TINY)
        app = build(following, params, verified=False, surge=room_beside(params), load=load_slowly)
        name = url.rsplit("/", 1)[1]
        serve.run_many([serve.RunTarget(app, name, f"/{name}")], wait_for_applications_running=False)
        assert within(60, lambda: "2" in seen.versions)
        time.sleep(2)
    assert set(seen.statuses) == {200}, seen.statuses
    assert seen.versions == {"1", "2"}


def test_s12_overload_is_200_or_429_and_health_keeps_answering(deploy: Deploy, tiny_version: VersionRef) -> None:
    dials = {"max_queued_texts": 64, "max_texts": 8, "max_batch_size": 8}
    with deploy(tiny_version, partial(slow, pause_s=0.5), **dials) as url:
        with load(url, clients=150) as seen:
            time.sleep(15)
        assert set(seen.statuses) == {200, 429}
        assert {status for status, _ in seen.health} == {200}
        assert sorted(seconds for _, seconds in seen.health)[-2] < 1
        assert httpx.post(f"{url}/predict", json={"texts": ["good"] * 8}, timeout=30).status_code == 200
