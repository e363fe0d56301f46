"""Clients on kept-alive connections, in threads, who write down every answer."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx


@dataclass
class Seen:
    """What the clients and the watchdog saw; a failed connection is written down by its error's name."""

    answers: list[tuple[int | str, float]] = field(default_factory=list)
    """Status and seconds of every prediction."""
    health: list[tuple[int | str, float]] = field(default_factory=list)
    versions: set[str] = field(default_factory=set)
    replicas: set[str] = field(default_factory=set)

    @property
    def statuses(self) -> Counter[int | str]:
        """How often each status came."""
        return Counter(status for status, _ in self.answers)


@contextmanager
def load(url: str, clients: int, pause_s: float = 0.0, timeout_s: float = 60) -> Iterator[Seen]:
    """Ask for the length of the block, and ask /health five times a second."""
    seen, stop = Seen(), threading.Event()

    def once(client: httpx.Client, method: str, path: str, **body: object) -> tuple[int | str, float]:
        began = time.monotonic()
        try:
            response = client.request(method, url + path, **body)  # type: ignore[arg-type]
        except httpx.HTTPError as error:
            return type(error).__name__, time.monotonic() - began
        if response.status_code == 200 and path == "/predict":
            seen.versions.add(response.headers["x-model-version"])
            seen.replicas.update(response.headers["x-served-by"].split(","))
        return response.status_code, time.monotonic() - began

    def predict() -> None:
        with httpx.Client(timeout=timeout_s) as client:
            while not stop.is_set():
                seen.answers.append(once(client, "POST", "/predict", json={"text": "good film"}))
                time.sleep(pause_s)

    def watch() -> None:
        with httpx.Client(timeout=5) as client:
            while not stop.is_set():
                seen.health.append(once(client, "GET", "/health"))
                time.sleep(0.2)

    threads = [threading.Thread(target=predict) for _ in range(clients)] + [threading.Thread(target=watch)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        stop.set()
        for thread in threads:
            thread.join()
