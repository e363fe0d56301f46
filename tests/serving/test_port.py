"""A port that is taken is told at once, with its holder."""

import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from serving.params import ListenParams
from serving.port import PortTaken, reserved


@pytest.fixture
def service() -> Iterator[HTTPServer]:
    """Something that answers /clf/health; `service.body` is what it says."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/clf/health"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self.server.body)  # type: ignore[attr-defined]

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def why(port: int) -> str:
    """What is said when this port is asked for."""
    listen = ListenParams(port=port, route_prefix="/clf")
    with pytest.raises(PortTaken) as taken, reserved(listen, "tiny", "sha256:graph"):
        pass
    return str(taken.value)


@pytest.mark.parametrize(
    ("verified", "name", "graph", "told"),
    [
        ("true", "tiny", "sha256:graph", "this champion already serves here (tiny version 3, sha256:bundle)"),
        ("false", "tiny", "sha256:graph", "another service of ours is here (tiny version 3"),
        ("true", "other", "sha256:graph", "another service of ours is here (other version 3"),
        ("true", "tiny", "sha256:else", "another service of ours is here"),
    ],
)
def test_a_service_of_ours_is_named_by_what_it_says(
    service: HTTPServer, verified: str, name: str, graph: str, told: str
) -> None:
    model = f'{{"name": "{name}", "version": "3", "digest": "sha256:bundle"}}'
    service.body = f'{{"verified": {verified}, "graph_digest": "{graph}", "model": {model}}}'.encode()  # type: ignore[attr-defined]
    message = why(service.server_port)
    assert told in message
    assert f"make serve PORT={service.server_port + 1}" in message


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"status": "ok"}', b'{"model": 1}'])
def test_anything_else_is_named_by_its_process(service: HTTPServer, body: bytes) -> None:
    service.body = body  # type: ignore[attr-defined]
    assert f"process {os.getpid()}" in why(service.server_port)


def test_a_listener_that_never_answers_does_not_hold_us_up() -> None:
    with socket.socket() as silent:
        silent.bind(("0.0.0.0", 0))  # noqa: S104 - a listener on every interface is in the way of loopback too
        silent.listen()
        assert f"process {os.getpid()}" in why(silent.getsockname()[1])


def test_an_address_of_another_machine_is_told_as_it_is() -> None:
    elsewhere = ListenParams(host="192.0.2.1")
    with pytest.raises(PortTaken, match=r"192\.0\.2\.1:8000 cannot be listened on"), reserved(elsewhere, "tiny", "g"):
        pass


def test_a_free_port_is_held_until_it_is_let_go() -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    with reserved(ListenParams(port=port), "tiny", "g") as held:
        with pytest.raises(PortTaken), reserved(ListenParams(port=port), "tiny", "g"):
            pass
        held.close()
        with socket.socket() as service:
            service.bind(("127.0.0.1", port))
