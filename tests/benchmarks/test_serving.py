"""The serving benchmark: its client counts right, its ratios are what its rounds say."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import http_load, ratios
from benchmarks.contestants import CONTESTANTS


class Server:
    """Answers every request after 10 ms, each third in chunks, each fifth with 503; hangs up when told to."""

    def __init__(self) -> None:
        self.port, self.hangs_up, self.bodies = 0, False, list[bytes]()
        self._loop = asyncio.new_event_loop()
        self._up = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()
        self._up.wait(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._up.set()
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            self.bodies.append(await reader.readexactly(length))
            turn = len(self.bodies)
            await asyncio.sleep(0.01)
            if self.hangs_up:
                writer.close()
                return
            status = b"503 No" if turn % 5 == 0 else b"200 OK"
            if turn % 3 == 0:
                writer.write(b"HTTP/1.1 " + status + b"\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
            else:
                writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\n{}")

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.stop()


def requests(server: Server, *bodies: bytes) -> list[bytes]:
    return [http_load.request("127.0.0.1", server.port, "/predict", body) for body in bodies]


def test_every_request_is_counted_once_with_its_status_and_its_time(server: Server) -> None:
    done = http_load.run("127.0.0.1", server.port, requests(server, b"one", b"two", b"three"), clients=3, seconds=0.5)
    assert len(done) == len(server.bodies) > 30
    assert {one.status for one in done} == {200, 503}
    assert sum(one.status == 503 for one in done) == len(done) // 5
    assert set(server.bodies) == {b"one", b"two", b"three"}
    assert all(0.009 < one.ended - one.began < 0.4 for one in done)


def test_a_connection_that_breaks_is_an_error_and_no_endless_wait(server: Server) -> None:
    server.hangs_up = True
    began = time.monotonic()
    done = http_load.run("127.0.0.1", server.port, requests(server, b"one"), clients=4, seconds=0.3)
    assert [one.status for one in done] == [0, 0, 0, 0]
    assert time.monotonic() - began < 2


def a_round(contender: str, texts_per_s: float, p50: float) -> dict[str, object]:
    cell = {"texts_per_s": texts_per_s, "p50_ms": p50, "p95_ms": p50, "p99_ms": 2 * p50, "errors": 0}
    cells = {name: {**cell, "cpu_ms_per_request": 3.0} for name in ("1x1", "16x1", "64x1", "16x32")}
    return {"contender": contender, "cold_start_s": 20.0, "shutdown_s": 4.0, "pss_mb": 900, "cells": cells}


def test_ratios_are_ratios_of_medians() -> None:
    fp32 = ratios.OURS["fp32"]
    speeds = {fp32: (90.0, 100.0, 300.0), ratios.FASTAPI: (50.0, 50.0, 50.0), "LitServe": (10.0, 125.0, 130.0)}
    rounds = [a_round(name, speed, p50=20.0) for name, of in speeds.items() for speed in of]
    raw = [
        {"precision": precision, "threads": threads, "texts_per_s": threads * speed, "p50_ms": 12.0}
        for precision, speed in (("fp32", 100.0), ("int8", 300.0))
        for threads in (1, 2)
    ]
    found = ratios.ratios(rounds, raw, cpus=2)
    assert found["fp32_c64_vs_best_peer"] == 0.8
    assert found["fp32_list32_vs_raw"] == 0.5
    assert found["fp32_c1_p50_minus_raw_ms"] == 8.0
    assert found["fp32_p99_over_p50_c16"] == 2.0
    assert found["fp32_c1_p50_vs_fastapi"] == 1.0
    assert not [name for name in found if not name.startswith("fp32")], "these were not run"
    assert f"| {fp32} | 100 [90-300] (20, 40)" in ratios.table(rounds, raw)
    assert "fp32, 2 thread(s): 200 texts/s" in ratios.table(rounds, raw)


def test_the_committed_ratios_are_those_of_the_committed_rounds() -> None:
    told = json.loads((Path(ratios.__file__).parent / "results/serving.json").read_text())
    assert told["ratios"] == ratios.ratios(told["rounds"], told["raw"], told["model_cpus"])
    assert len({found["round"] for found in told["rounds"]}) >= 3
    assert {found["contender"] for found in told["rounds"]} == set(CONTESTANTS)
