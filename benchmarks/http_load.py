"""Closed-loop HTTP load from one light process: each client sends its next request when its answer is whole.

Requests are encoded before the clock runs and answers are not parsed beyond their frame, so that on a machine that the
server shares the client costs as little as it can: about 50 us of CPU a request.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

LONGEST_S = 60.0


@dataclass(frozen=True, slots=True)
class Done:
    """One request; seconds of `time.monotonic`."""

    began: float
    ended: float
    status: int
    """HTTP status; 0 when the connection broke."""


class _Client(asyncio.Protocol):
    """One kept-alive connection."""

    def __init__(self, requests: Iterator[bytes], until: float, answered: list[Done]) -> None:
        self._requests, self._until, self._answered = requests, until, answered
        self._buffer = bytearray()
        self._need: int | None = None
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._next()

    def _next(self) -> None:
        if time.monotonic() >= self._until:
            self._transport.close()
            if not self.over.done():
                self.over.set_result(None)
            return
        self._buffer.clear()
        self._need = None
        self._began = time.monotonic()
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._need is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._buffer[:end]).lower()
            at = head.find(b"content-length:")
            # Chunked answers end with an empty chunk.
            self._need = end + 4 + int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else -1
        whole = self._buffer.endswith(b"0\r\n\r\n") if self._need < 0 else len(self._buffer) >= self._need
        if whole:
            status = int(bytes(self._buffer[9:12]))
            self._answered.append(Done(self._began, time.monotonic(), status))
            self._next()

    def connection_lost(self, _: Exception | None) -> None:
        if not self.over.done():
            self._answered.append(Done(self._began, time.monotonic(), 0))
            self.over.set_result(None)


def run(host: str, port: int, requests: Sequence[bytes], clients: int, seconds: float) -> list[Done]:
    """All answers to what began within `seconds`; each client starts at another of the requests."""

    async def drive() -> list[Done]:
        loop, answered = asyncio.get_running_loop(), list[Done]()
        until = time.monotonic() + seconds
        protocols = []
        for number in range(clients):
            own = islice(cycle(requests), number * len(requests) // clients, None)
            _, protocol = await loop.create_connection(lambda own=own: _Client(own, until, answered), host, port)
            protocols.append(protocol)
        await asyncio.wait([protocol.over for protocol in protocols], timeout=seconds + LONGEST_S)
        return answered

    return asyncio.run(drive())


def request(host: str, port: int, path: str, body: bytes) -> bytes:
    """A POST of JSON as bytes."""
    head = f"POST {path} HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
