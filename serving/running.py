"""A graph that runs for the length of a block, with a deadline, and is gone after it on every way out."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import httpx
import ray
from ray import serve
from ray.serve.exceptions import RayServeException

from registry.errors import MachineFault

POLL_S = 0.1


class NotRunning(MachineFault):
    """The graph did not come up; the message holds Serve's own words."""


@contextlib.contextmanager
def running(
    app: Any,
    *,
    host: str,
    port: int,
    name: str = "default",
    route_prefix: str = "/",
    timeout_s: float = 120.0,
    request_timeout_s: float | None = None,
) -> Iterator[str]:
    """Serve `app` and yield its base URL once `/health` says 200; Ray must be up. Raises NotRunning by the deadline."""
    deadline = time.monotonic() + timeout_s
    options = {"host": host, "port": port, "request_timeout_s": request_timeout_s}
    try:
        # Stated, because Serve's defaults differ between Python and a config file.
        serve.start(proxy_location="HeadOnly", http_options=options)
        serve.api._run(app, _blocking=False, name=name, route_prefix=route_prefix)
        base_url = f"http://{host}:{port}{route_prefix.rstrip('/')}"
        _wait(name, base_url, deadline)
        yield base_url
    finally:
        if ray.is_initialized():
            _end(name)


def _end(name: str) -> None:
    # A deleted app answers what it has begun; to shut Serve down at once would cut that off.
    with contextlib.suppress(RayServeException, TimeoutError):
        serve.delete(name)
    serve.shutdown()


def _wait(name: str, base_url: str, deadline: float) -> None:
    while time.monotonic() < deadline:
        state = serve.status().applications[name]
        if state.status == "DEPLOY_FAILED":
            raise NotRunning(f"the graph could not be deployed: {state.message}")
        if state.status == "RUNNING" and _healthy(base_url):
            return
        time.sleep(POLL_S)
    raise NotRunning(f"the graph was not up in time: {serve.status().applications[name]}")


def _healthy(base_url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{base_url}/health", timeout=2).status_code == 200
    return False
