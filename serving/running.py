"""A graph that runs for the length of a block, with a deadline, and is gone after it on every way out."""

import contextlib
import io
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TextIO

import httpx
import ray
from ray import serve
from ray._private.worker import print_worker_logs, stdout_deduplicator
from ray.exceptions import RayError
from ray.serve.context import _get_global_client
from ray.serve.exceptions import RayServeException

from registry.errors import MachineFault
from serving import handles, resources

POLL_S = 0.1
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where to ask a service that listens everywhere
SHUTDOWN_S, FAREWELL_S = 60.0, 0.1
CLOSED_DOOR_S = 0.5
"""How long the closed ingress stays: what is on its way through HAProxy finds a 503, and not a broken connection."""

logger = logging.getLogger("ray.serve")


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
    """Serve `app` and yield its base URL once `/health` says 200; after the block it is drained and gone.

    Ray must be up. Where Serve runs already, its port serves and only this app is deleted. Raises TooSmall at once
    when Ray lacks what the graph needs, NotRunning when it is not up by the deadline.
    """
    deadline = time.monotonic() + timeout_s
    print(f"serving: {resources.check(app)}", flush=True)
    guest = _controller() is not None
    try:
        with _quiet():
            base_url = _start(host, port, request_timeout_s) + route_prefix.rstrip("/")
            _deploy(app, name, route_prefix)
        _wait(name, base_url, deadline)
        yield base_url
    finally:
        with _quiet():
            _while_ray_lives(lambda: _drain(name))
            _while_ray_lives(lambda: _end(name, guest))


def _start(host: str, port: int, request_timeout_s: float | None) -> str:
    """Serve's own URL. Both options are stated: Serve's defaults differ between Python and a config file."""
    options = {"host": host, "port": port, "request_timeout_s": request_timeout_s}
    try:
        serve.start(proxy_location="HeadOnly", http_options=options)
    except (RayError, TimeoutError) as error:
        raise NotRunning(f"Serve could not start on {host}:{port}: {str(error).strip().splitlines()[-1]}") from error
    actual = _get_global_client().http_config
    reachable = ANYWHERE.get(actual.host, actual.host)
    return f"http://[{reachable}]:{actual.port}" if ":" in reachable else f"http://{reachable}:{actual.port}"


def _deploy(app: Any, name: str, route_prefix: str) -> None:
    # Not serve.run: it waits without an end.
    target = serve.RunTarget(target=app, name=name, route_prefix=route_prefix)
    serve.run_many([target], wait_for_applications_running=False)


def _wait(name: str, base_url: str, deadline: float) -> None:
    while True:
        state = serve.status().applications[name]
        if state.status == "RUNNING" and _healthy(base_url):
            return
        late = time.monotonic() > deadline
        if late or state.status == "DEPLOY_FAILED":
            what = "was not up in time" if late else "could not be deployed"
            raise NotRunning(f"the graph {what}; Serve says:\n{_status(state)}")
        time.sleep(POLL_S)


def _healthy(base_url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{base_url}/health", timeout=2).status_code == 200
    return False


def _status(state: Any) -> str:
    lines = [f"application: {state.status.value} {state.message}"]
    lines += [f"{name}: {found.status.value} {found.message}" for name, found in state.deployments.items()]
    return "\n".join(lines)


def _drain(name: str) -> None:
    """Every ingress takes no more requests and answers those it has; their own grace is the limit."""
    if not ray.is_initialized():
        return
    with contextlib.suppress(RayError):
        if left := handles.close(name, SHUTDOWN_S):
            print(f"serving: {left} requests were not answered within serve.graceful_shutdown_s", flush=True)
        time.sleep(CLOSED_DOOR_S)


def _end(name: str, guest: bool) -> None:
    if not ray.is_initialized():
        return
    if guest:
        with contextlib.suppress(RayError, RayServeException, TimeoutError):
            serve.delete(name)
        return
    if controller := _controller():
        # `serve.shutdown` would wait for an answer that the controller, ending itself, never gives.
        controller.graceful_shutdown.remote(False)
        _stop_listening()
        deadline = time.monotonic() + SHUTDOWN_S
        while _controller() and time.monotonic() < deadline:
            time.sleep(POLL_S)
        time.sleep(FAREWELL_S)
    serve.shutdown()


def _stop_listening() -> None:
    """End the proxies at once: one that outlives its routes answers 404, which says that there never was such a one."""
    for actor in ray.util.list_named_actors(all_namespaces=True):
        if "SERVE_PROXY_ACTOR" in actor["name"]:
            with contextlib.suppress(ValueError):
                ray.kill(ray.get_actor(actor["name"], namespace=actor["namespace"]))


def _while_ray_lives(work: Callable[[], None]) -> None:
    """Do it, but stop waiting once a process of our own Ray has ended, as when a signal went to the whole group.

    What is asked of a Ray without its head waits a minute, and then Ray ends this process.
    """
    thread = threading.Thread(target=work, daemon=True)
    if not _is_dying():
        thread.start()
    while thread.is_alive() and not _is_dying():
        thread.join(POLL_S)


def _is_dying() -> bool:
    node = ray._private.worker._global_node
    return node is not None and bool(node.dead_processes())


def _controller() -> Any:
    """Serve's controller, or None where Serve does not run."""
    with contextlib.suppress(ValueError):
        return ray.get_actor("SERVE_CONTROLLER_ACTOR", namespace="serve")
    return None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep what Serve says in this process about its own start and end from our users."""
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(_WithoutFarewell(sys.stdout)):
            yield
            for held_back in stdout_deduplicator.flush():
                print_worker_logs(held_back, sys.stdout)
    finally:
        logger.setLevel(level)


class _WithoutFarewell(io.TextIOBase):
    """Ray reports every call of ours that the controller, told to end, left unanswered."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._dropped = stream, False

    def write(self, text: str) -> int:
        self._dropped = "Task ServeController." in text or (self._dropped and text == "\n")
        return len(text) if self._dropped else self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()
