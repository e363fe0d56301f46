"""python -m pipeline ui: MLflow's pages on exactly the registry that the stages use, on loopback."""

import argparse
import contextlib
import os
import socket
import sys

import psutil

from pipeline import paths
from pipeline.params import load
from registry import home, relocation
from registry.params import RegistryParams

FIRST_PORT, LAST_PORT = 5000, 5100


def main(argv: list[str]) -> None:
    """Serve `mlflow ui` on --port, or on port 5000 or the next free one, until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m pipeline ui", description=__doc__)
    parser.add_argument("--port", type=int)
    port = parser.parse_args(argv).port or _free_port()
    where = home.resolve(paths.ROOT, load("registry", RegistryParams))
    relocation.follow(where)
    if where.artifact_root is None:
        print(f"the registry is a server; open {where.uri} in a browser")
        return
    print(f"MLflow on http://127.0.0.1:{port} (registry: {where.uri}); stop it with Ctrl-C", flush=True)
    command = [sys.executable, "-m", "mlflow", "ui", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", where.uri, "--default-artifact-root", str(where.artifact_root)]
    with psutil.Popen(command, env=os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}) as server:
        try:
            with contextlib.suppress(KeyboardInterrupt):
                server.wait()
        finally:
            # SIGTERM comes here as an exception; `mlflow ui` hands none on to the server that it starts.
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in [*server.children(recursive=True), server]:
                    process.terminate()


def _free_port() -> int:
    for port in range(FIRST_PORT, LAST_PORT):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    return 0
