"""The port that a service is to have: taken before anything slow begins, or its holder named."""

import contextlib
import socket
from collections.abc import Iterator

import httpx
import psutil

from registry.errors import MachineFault
from serving.params import ListenParams

ASK_S = 0.5


class PortTaken(MachineFault):
    """Somebody else listens there."""


@contextlib.contextmanager
def reserved(listen: ListenParams, name: str, graph_digest: str) -> Iterator[socket.socket]:
    """Hold the port, so that nobody takes it while Ray starts; close what is yielded to let the service have it.

    Raises PortTaken naming the holder; `name` and `graph_digest` tell whether it is the same service already.
    """
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    with socket.socket(family) as held:
        # Connections of an ended service that are still closing do not count, a listener does.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            held.bind((listen.host, listen.port))
            # Only a listener keeps others away.
            held.listen()
        except OSError as error:
            raise PortTaken(_why(listen, name, graph_digest, error)) from error
        yield held


def _why(listen: ListenParams, name: str, graph_digest: str, error: OSError) -> str:
    holder = _service(listen, name, graph_digest) or _holder(listen.port)
    if holder is None:
        return f"{listen.host}:{listen.port} cannot be listened on: {error}"
    other = listen.port + 1 if listen.port < 65535 else listen.port - 1
    return f"port {listen.port} is taken: {holder}. For another port: make serve PORT={other}"


def _service(listen: ListenParams, name: str, graph_digest: str) -> str | None:
    """What it says about itself, when it is a service of ours."""
    host = f"[{listen.host}]" if ":" in listen.host else listen.host
    with contextlib.suppress(httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError):
        health = httpx.get(f"http://{host}:{listen.port}{listen.route_prefix.rstrip('/')}/health", timeout=ASK_S).json()
        model = health["model"]
        which = f"{model['name']} version {model['version']}, {model['digest']}"
        same = health["verified"] and model["name"] == name and health["graph_digest"] == graph_digest
        return f"this champion already serves here ({which})" if same else f"another service of ours is here ({which})"
    return None


def _holder(port: int) -> str | None:
    """Who listens on the port, as far as this user may know."""
    with contextlib.suppress(psutil.Error):
        for found in psutil.net_connections(kind="tcp"):
            if found.status == psutil.CONN_LISTEN and found.laddr and found.laddr.port == port:
                pid = found.pid
                return f"by {psutil.Process(pid).name()}, process {pid}" if pid else "by a process of another user"
    return None
