"""python -m pipeline serve: the champion over HTTP, until it is told to stop."""

import argparse
import contextlib
import ipaddress
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from types import FrameType

import psutil

from pipeline.params import load
from registry.params import RegistryParams
from serving.graph import graph_digest
from serving.params import ListenParams, ServeParams
from serving.port import reserved

DEPLOY_TIMEOUT_S = 300.0


class _ToldToStop(BaseException):
    """SIGTERM or SIGINT came; every block on the way out is left in order."""


def main(argv: list[str]) -> None:
    """Serve the champion. SIGTERM or SIGINT: requests in flight are answered, nothing is left, exit 0."""
    listen, unverified = _listen(argv)
    serve, registry = load("serve", ServeParams), load("registry", RegistryParams)
    try:
        with _told_by_signals(), reserved(listen, registry.name, graph_digest(serve)) as port:
            _serve(listen, serve, registry, unverified, port.close)
    except _ToldToStop:
        print("serve: stopped", flush=True)


def _listen(argv: list[str]) -> tuple[ListenParams, bool]:
    """The `listen` branch with what the command line overrides, and whether an unverified version may be served."""
    parser = argparse.ArgumentParser(prog="python -m pipeline serve", description=__doc__)
    parser.add_argument("--port", type=int, help="instead of listen.port")
    parser.add_argument("--host", help="instead of listen.host")
    parser.add_argument("--unverified", action="store_true", help="serve although no passing report says that it may")
    given = parser.parse_args(argv)
    if given.port is not None and not 1 <= given.port <= 65535:
        parser.error("--port must be from 1 to 65535")
    overrides = {name: value for name in ("port", "host") if (value := getattr(given, name)) is not None}
    return load("listen", ListenParams).model_copy(update=overrides), bool(given.unverified)


def _serve(
    listen: ListenParams, serve: ServeParams, registry: RegistryParams, unverified: bool, release: Callable[[], None]
) -> None:
    # Here, so that a port that is taken is told at once: Ray takes seconds to import.
    from pipeline.cluster import RayParams, cluster
    from serving import front
    from serving.app import build
    from serving.choosing import ServedVersion, choose
    from serving.metrics import url as metrics_url
    from serving.running import running

    chosen = choose(ServedVersion(registry=registry, serve=serve, unverified=unverified), front.planned())
    version = chosen.version
    print(f"serve: {version.name} version {version.version}, {version.digest}; starting Ray and the graph", flush=True)
    app = build(version, serve, nonce=secrets.token_hex(8), verified=chosen.verified)
    times = [psutil.Process().create_time(), time.time()]
    with front.raised(), cluster(load("ray", RayParams)):
        times.append(time.time())
        release()
        with running(
            app,
            host=listen.host,
            port=listen.port,
            route_prefix=listen.route_prefix,
            timeout_s=DEPLOY_TIMEOUT_S,
            request_timeout_s=serve.request_timeout_s,
        ) as url:
            times.append(time.time())
            _announce(listen.host, url, chosen.verified)
            print(f"serve: {_told(times)}", flush=True)
            print(f"serve: metrics for Prometheus: {metrics_url()}", flush=True)
            while True:
                time.sleep(3600)


def _told(times: Sequence[float]) -> str:
    """How long the start took, by its steps."""
    chosen, ray_up, up = (after - before for before, after in pairwise(times))
    steps = (
        f"{chosen:.1f} s to choose the version, {ray_up:.1f} s for Ray, {up:.1f} s for Serve, the graph and the model"
    )
    return f"{times[-1] - times[0]:.1f} s from the start: {steps}"


def _announce(host: str, url: str, verified: bool) -> None:
    key = ' -H "Authorization: Bearer ${SERVE_API_KEYS%%,*}"' if os.environ.get("SERVE_API_KEYS") else ""
    if not verified:
        print("serve: NOT VERIFIED: no passing report covers this version served this way; /health says so", flush=True)
    if not _is_loopback(host):
        guard = "with API keys" if key else "WITHOUT API KEYS (set SERVE_API_KEYS)"
        print(f"serve: OPEN TO THE NETWORK on {host}, {guard}", flush=True)
    print(f"serve: up; a page to try it on: {url}/  and from a shell:", flush=True)
    print(
        f"  curl -s {url}/predict{key} -H 'Content-Type: application/json' -d '{{\"text\": \"a place to start\"}}'",
        flush=True,
    )


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


@contextlib.contextmanager
def _told_by_signals() -> Iterator[None]:
    signals = (signal.SIGTERM, signal.SIGINT)

    def told(_signum: int, _frame: FrameType | None) -> None:
        # Once: a second one in the middle of the way out would leave things behind.
        for one in signals:
            signal.signal(one, signal.SIG_IGN)
        print("serve: stopping; requests in flight are answered first", flush=True)
        raise _ToldToStop

    before = {one: signal.signal(one, told) for one in signals}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
