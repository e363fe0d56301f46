"""Clients that do not keep to the rules, on bare sockets: they leave, stop half-way, or read a byte a second."""

import json
import socket
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx

from serving.probe import Target

LEAVE_S = 0.05
"""What a client that leaves gives its request: enough to ride in a batch, too little for an answer."""
HALF_S = 3.0
SLOW_BYTES = 5
SMALL_BUFFER = 2048
ANSWER_S = 30.0


def leave(target: Target, texts: Sequence[str]) -> "Counter[str]":
    """Send each text whole and hang up while it is in the model."""
    with ExitStack() as open_ones:
        for text in texts:
            open_ones.enter_context(_connect(target)).sendall(_request(target, {"text": text}))
        time.sleep(LEAVE_S)
    return Counter()


def half_a_body(target: Target, texts: Sequence[str]) -> "Counter[str]":
    """Send half of each request, wait, hang up."""
    with ExitStack() as open_ones:
        for text in texts:
            request = _request(target, {"text": text})
            open_ones.enter_context(_connect(target)).sendall(request[: -len(text) // 2 - 2])
        time.sleep(HALF_S)
    return Counter()


def read_slowly(target: Target, texts: Sequence[str], clients: int) -> "Counter[str]":
    """Each client asks for all of them as one list and reads a byte a second at first; the statuses they got.

    An answer that is not whole counts by what is wrong with it.
    """
    statuses: Counter[str] = Counter()
    with ExitStack() as open_ones:
        connections = [open_ones.enter_context(_connect(target)) for _ in range(clients)]
        for one in connections:
            one.sendall(_request(target, {"texts": list(texts)}))
        begun = [bytearray() for _ in connections]
        for _ in range(SLOW_BYTES):
            for one, read in zip(connections, begun, strict=True):
                read += one.recv(1)
            time.sleep(1)
        for one, read in zip(connections, begun, strict=True):
            statuses[_rest(one, read, len(texts))] += 1
    return statuses


def _rest(connection: socket.socket, begun: bytearray, texts: int) -> str:
    while chunk := connection.recv(SMALL_BUFFER):
        begun += chunk
    head, _, body = bytes(begun).partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1].decode() if head.count(b" ") > 1 else "no answer"
    if status != "200":
        return status
    try:
        whole = len(json.loads(body)["predictions"]) == texts
    except ValueError:
        whole = False
    return status if whole else "cut short"


def _connect(target: Target) -> socket.socket:
    where = urlsplit(target.url)
    connection = socket.socket(socket.AF_INET6 if ":" in (where.hostname or "") else socket.AF_INET)
    # Set before the connection is made, or it has no effect.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
    connection.settimeout(ANSWER_S)
    connection.connect((where.hostname, where.port))
    return connection


def _request(target: Target, body: Mapping[str, object]) -> bytes:
    request = httpx.Request("POST", f"{target.url}/predict", json=body, headers=dict(target.headers))
    lines = [f"POST {urlsplit(target.url).path}/predict HTTP/1.1", "connection: close"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + request.content
