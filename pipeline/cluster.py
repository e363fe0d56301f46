"""The only place that starts, joins and leaves Ray."""

import contextlib
import logging
import os
import secrets
import shlex
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import psutil
import ray
from pydantic import Field

from pipeline.paths import ROOT
from registry.branch import Branch
from registry.errors import MachineFault

PACKAGES = ("pipeline", "registry", "serving", "training")
# Ray's sockets lie 60 characters below its folder, and a Unix socket's path may have 107.
LONGEST_TEMP_DIR = 40
KNOCK_S = 5
ENDED_S = 5


class RayParams(Branch):
    """Which Ray the stages use: the `ray` branch of params.yaml."""

    address: str | None = None
    """A cluster to join; the environment's RAY_ADDRESS wins; null: a private local Ray."""
    num_cpus: Annotated[int, Field(ge=1)] | None = None
    """CPUs of the private local Ray; null: those of the machine."""


@contextlib.contextmanager
def cluster(params: RayParams) -> Iterator[None]:
    """Have Ray for the length of the block. A private Ray is ended after it, a joined cluster only left.

    Raises MachineFault when Ray cannot start or the cluster does not answer.
    """
    address = os.environ.get("RAY_ADDRESS") or params.address
    on_sigterm = signal.getsignal(signal.SIGTERM)
    with contextlib.chdir(ROOT), _short_temp_dir() as temp_dir:
        try:
            if address:
                _join(address)
            else:
                _start(params, temp_dir)
        except (KeyboardInterrupt, SystemExit):
            _give_up(temp_dir)
            raise
        except Exception as error:
            _give_up(temp_dir)
            where = f"the Ray cluster at {address}" if address else "a private local Ray"
            raise MachineFault(f"{where} could not be reached: {error}") from error
        if threading.current_thread() is threading.main_thread():
            # Ray's own handler ends the command with another code and a dump of the stack.
            signal.signal(signal.SIGTERM, on_sigterm)
        try:
            yield
        finally:
            ray.shutdown()


def _start(params: RayParams, temp_dir: Path) -> None:
    # Ray turns token authentication on by itself and keeps the token for the process;
    # one of our own means that nothing is read from or written to the home folder.
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    # Ray 2.60 starts workers that have a runtime environment (Tune's and Train's do) through `bash -c`
    # and does not quote the interpreter: in a folder with a space they would never come up.
    python = shlex.quote(sys.executable)
    ray.init(
        address="local",
        num_cpus=params.num_cpus,
        runtime_env={"py_executable": python} if python != sys.executable else None,
        include_dashboard=False,
        log_to_driver=bool(os.environ.get("RAY_LOGS")),
        logging_level=logging.ERROR,
        _temp_dir=str(temp_dir),
    )


def _join(address: str) -> None:
    _knock(address)
    # Only code travels: never data, databases, caches or secrets.
    modules = [str(ROOT / package) for package in PACKAGES]
    ray.init(address=address, runtime_env={"py_modules": modules}, log_to_driver=False, logging_level=logging.ERROR)
    print(f"joined the Ray cluster at {address}: {ray.cluster_resources()}", flush=True)


def _give_up(temp_dir: Path) -> None:
    """End a start that was cut short, the agents too, which else outlive their raylet by up to a minute."""
    ray.shutdown()
    ours = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            # Every process of a Ray names its session's folder, and this one is of this start alone.
            if any(str(temp_dir) in word for word in process.cmdline()):
                process.kill()
                ours.append(process)
    psutil.wait_procs(ours, timeout=ENDED_S)


def _knock(address: str) -> None:
    """Raises OSError when nobody listens at `host:port`; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_S).close()


@contextlib.contextmanager
def _short_temp_dir() -> Iterator[Path]:
    """A folder for Ray's session whose path is short enough for its sockets; removed after it."""
    parent = tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir=parent if len(parent) <= LONGEST_TEMP_DIR else "/tmp"))  # noqa: S108 - mkdtemp makes it private
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
