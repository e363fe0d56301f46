"""One Ray and one Serve for this folder; every test deploys its app beside the others, under its own prefix."""

import itertools
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import pytest
from ray import serve

from pipeline.cluster import RayParams, cluster
from registry.bundle import VersionRef
from serving import front
from serving.app import build
from serving.params import ServeParams
from serving.replica import Load, load_bundle
from serving.running import running

# A tiny model on a fraction of a core: several apps fit beside each other.
TINY = {"num_cpus": 0.1, "batch_wait_s": 0.02}


class Deploy(Protocol):
    """Runs an app for the length of a block and yields its base URL."""

    def __call__(
        self, version: VersionRef, load: Load = load_bundle, nonce: str = "", **dials: Any
    ) -> AbstractContextManager[str]: ...


def free_port() -> int:
    """A port of the system's choice."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture(scope="package")
def serve_port() -> Iterator[int]:
    """The port of a Serve that lasts for this folder's tests."""
    port = free_port()
    with front.raised(), cluster(RayParams(num_cpus=4)):
        serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": port})
        yield port
        serve.shutdown()


@pytest.fixture(scope="package")
def deploy(serve_port: int) -> Deploy:
    """Deploy a version beside the others."""
    names = (f"app{number}" for number in itertools.count())

    def run(
        version: VersionRef, load: Load = load_bundle, nonce: str = "", **dials: Any
    ) -> AbstractContextManager[str]:
        name = next(names)
        app = build(version, ServeParams(**TINY | dials), nonce=nonce, verified=False, load=load)
        return running(app, host="127.0.0.1", port=serve_port, name=name, route_prefix=f"/{name}", timeout_s=90)

    return run
