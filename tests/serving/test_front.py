"""What stands in front: where it listens, what it answers itself, and that it ends with Serve."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from registry.bundle import VersionRef
from serving import front, haproxy
from tests.serving.conftest import Deploy, free_port
from tests.serving.test_running import SCRIPT

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """global
    maxconn 10
defaults
    mode http
    errorfile 503 /tmp/500.http
frontend prometheus
    bind :9101
    # a word
    mode http
frontend http_frontend
    bind 127.0.0.1:8000
backend default_backend
    http-request return status 404 content-type text/plain lf-string "Path not found."
listen stats
  bind *:8404
  stats enable
"""


def ours(parent: int) -> list[psutil.Process]:
    return [one for one in psutil.Process(parent).children(recursive=True) if one.name() == "haproxy"]


def alive(processes: list[psutil.Process], timeout: float) -> list[psutil.Process]:
    """Those that have not ended after `timeout` seconds; one that only waits to be reaped has."""
    _, left = psutil.wait_procs(processes, timeout=timeout)
    return [one for one in left if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def asked(port: int, request: bytes) -> tuple[int, dict[str, object]]:
    """Status and JSON of the answer to these bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request)
        answer = b""
        while b"\r\n\r\n" not in answer or not answer.endswith(b"}"):
            answer += connection.recv(4096)
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head[9:12]), json.loads(body)


def test_the_configuration_keeps_one_bind_and_gets_our_errors() -> None:
    config = haproxy.ours(CONFIG)
    assert [line.strip() for line in config.splitlines() if "bind" in line] == ["bind 127.0.0.1:8000"]
    assert "errorfile" not in config
    assert "text/plain" not in config
    assert config.startswith("global\n    maxconn 10\n")


def test_what_the_environment_says_wins_and_places_are_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = dict(os.environ)
    monkeypatch.setenv("RAY_SERVE_ENABLE_HA_PROXY", "0")
    with front.raised():
        assert os.environ["RAY_SERVE_ENABLE_HA_PROXY"] == "0"
        first = {name: os.environ[name] for name in front.PLACES}
        with front.raised():
            assert not {os.environ[name] for name in front.PLACES} & set(first.values())
        assert {name: os.environ[name] for name in front.PLACES} == first
    monkeypatch.undo()
    assert dict(os.environ) == before


def test_the_variables_for_a_cluster_are_printed() -> None:
    done = subprocess.run([sys.executable, "-m", "serving.front"], cwd=ROOT, capture_output=True, text=True, check=True)
    said = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert said.keys() == {*front.CHOSEN, *front.PLACES}
    assert os.access(said["RAY_SERVE_HAPROXY_BINARY_PATH"], os.X_OK)
    assert not any(character in done.stdout for character in " '\"")


@pytest.fixture(scope="module")
def url(deploy: Deploy, tiny_version: VersionRef) -> Iterator[str]:
    with deploy(tiny_version) as at:
        yield at


def test_it_listens_only_where_it_was_told(url: str, serve_port: int) -> None:
    listening = {(s.laddr.ip, s.laddr.port) for one in ours(os.getpid()) for s in one.net_connections() if s.laddr}
    assert {place for place in listening if place[1] in {serve_port, 9101, 8404}} == {("127.0.0.1", serve_port)}
    everywhere = [
        s
        for one in psutil.Process().children(recursive=True)
        if one.name() == "haproxy" or "Ingress" in one.name() or "Proxy" in one.name()
        for s in one.net_connections()
        if s.status == "LISTEN" and s.laddr.ip == "0.0.0.0"  # noqa: S104
    ]
    assert everywhere == []


@pytest.mark.parametrize("name", haproxy.DECODED)
def test_a_header_that_serve_could_not_decode_is_refused_in_our_shape(url: str, serve_port: int, name: str) -> None:
    prefix = url.rsplit("/", 1)[1]
    request = f"GET /{prefix}/live HTTP/1.1\r\nhost: a\r\n{name}: ".encode() + b"\xff\r\n\r\n"
    status, body = asked(serve_port, request)
    assert (status, body["error"]["type"]) == (400, "header")  # type: ignore[index]
    assert len(str(body["request_id"])) == 36


def test_outside_of_the_prefix_is_404_in_our_shape(url: str, serve_port: int) -> None:
    status, body = asked(serve_port, b"GET /nowhere HTTP/1.1\r\nhost: a\r\n\r\n")
    assert (status, body["error"]["type"]) == (404, "not_found")  # type: ignore[index]


@pytest.mark.parametrize(
    ("asks", "status"),
    {
        "POST {}/predict HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: 9999999\r\n": 413,
        "POST {}/predict HTTP/1.1\r\ncontent-type: text/plain\r\ncontent-length: 20\r\n": 415,
        "POST {}/predict HTTP/1.1\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n": 415,
        "POST {}/live HTTP/1.1\r\ncontent-length: 20\r\n": 405,
        "GET {}/live HTTP/1.1\r\ncontent-length: 20\r\n": 200,
        "POST /nowhere HTTP/1.1\r\ncontent-length: 20\r\n": 404,
    }.items(),
)
def test_an_answer_before_the_end_of_the_body_says_that_the_connection_closes(
    url: str, serve_port: int, asks: str, status: int
) -> None:
    with socket.create_connection(("127.0.0.1", serve_port), timeout=10) as connection:
        connection.sendall((asks.format("/" + url.rsplit("/", 1)[1]) + "host: a\r\n\r\n").encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += connection.recv(65536)
    head = answer.partition(b"\r\n\r\n")[0].lower().split(b"\r\n")
    assert head[0].split()[1] == str(status).encode()
    assert b"connection: close" in head


def test_a_whole_body_keeps_the_connection(url: str) -> None:
    with httpx.Client() as client:
        answers = [client.post(f"{url}/predict", json=body) for body in ({"text": "fine"}, {"text": ""})]
    assert [(answer.status_code, answer.headers.get("connection")) for answer in answers] == [(200, None), (422, None)]


@pytest.mark.slow
def test_start_stop_kill_and_start_again_ten_times(tiny_version: VersionRef) -> None:
    port, up = free_port(), SCRIPT.replace("{inside}", "sys.stdin.read()")
    script = [sys.executable, "-c", up, tiny_version.model_dump_json()]
    agents: list[psutil.Process] = []
    for time_around in range(10):
        process = subprocess.Popen(
            [*script, str(port)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None and process.stdin is not None
        said = [line for line in iter(process.stdout.readline, "UP\n") if process.poll() is None]
        assert process.poll() is None, said
        children = psutil.Process(process.pid).children(recursive=True)
        agents += [one for one in children if one.name() in {"ray::RuntimeEnvAgent", "ray::DashboardAgent"}]
        (proxy,) = ours(process.pid)
        if time_around % 3 == 0:
            process.stdin.close()
            assert process.wait(30) == 0
            assert "OUT\n" in process.stdout.readlines()
        elif time_around % 3 == 1:
            process.kill()
        else:
            # Serve's own manager of HAProxy, and then the command.
            proxy.parent().kill()
            assert alive([proxy], timeout=5) == []
            process.kill()
        process.wait(30)
        # Ray's own agents look for their raylet less often: see below.
        left = alive([one for one in children if one not in agents], timeout=15)
        assert left == []
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            free.bind(("127.0.0.1", port))
    assert alive(agents, timeout=90) == []
