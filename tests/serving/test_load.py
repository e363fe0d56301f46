"""The load: as many clients at once as asked for, every answer kept, no answer no exception."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from serving.load import Load


class Server(ThreadingHTTPServer):
    """Answers like the app, slowly enough that clients overlap, and counts how many do."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock, self.now, self.most, self.status = threading.Lock(), 0, 0, 200
        self.keys: set[str | None] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        text = json.loads(self.rfile.read(int(self.headers["content-length"])))["text"]
        with self.server.lock:
            self.server.now += 1
            self.server.most = max(self.server.most, self.server.now)
            self.server.keys.add(self.headers["authorization"])
        time.sleep(0.02)
        with self.server.lock:
            self.server.now -= 1
        body = json.dumps({"predictions": [{"label": text, "scores": {text: 1.0}}]}).encode()
        self.send_response(self.server.status)
        self.send_header("content-length", str(len(body)))
        self.send_header("server-timing", 'queue;dur=1.0, forward;dur=2.0, batch;desc="17"')
        self.send_header("x-served-by", "r1")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_so_many_clients_ask_at_once_and_each_answer_says_its_text_and_batch(server: Server) -> None:
    answers = Load(server.url, ["a", "b", "é"], 6, 0.5, {"authorization": "Bearer k"}).run()
    assert server.most == 6
    assert server.keys == {"Bearer k"}
    assert {(a.text, a.label) for a in answers} == {(0, "a"), (1, "b"), (2, "é")}
    assert {(a.status, a.batch, a.served_by) for a in answers} == {("200", 17, "r1")}
    assert all(a.ms >= 20 for a in answers)
    assert max(a.began for a in answers) - min(a.began for a in answers) <= 0.5


def test_it_begins_where_it_is_told(server: Server) -> None:
    assert Load(server.url, ["a", "b", "c"], 1, 0.01, start=2).run()[0].label == "c"


def test_a_refusal_is_an_answer_with_its_status(server: Server) -> None:
    server.status = 503
    answers = Load(server.url, ["a"], 2, 0.3).run()
    assert {(a.status, a.label) for a in answers} == {("503", None)}
    assert len(answers) < 20, "a refused client waits before it asks again"


def test_where_nobody_answers_clients_ask_seldom_and_do_not_give_up() -> None:
    answers = Load("http://127.0.0.1:9", ["a"], 3, 1.2).run()
    assert {a.status for a in answers} == {"connection refused"}
    assert 6 <= len(answers) <= 9


def test_in_the_background_it_goes_on_until_it_is_stopped(server: Server) -> None:
    load = Load(server.url, ["a"], 2, 30.0)
    load.start()
    assert load.wait_for(3, at_most_s=5.0)
    answers = load.stop()
    seen = len(answers)
    time.sleep(0.1)
    assert len(load.answers) == seen
    assert {a.status for a in answers} == {"200"}
