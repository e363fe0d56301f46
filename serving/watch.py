"""`/health`, asked again and again beside whatever else happens."""

import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import httpx

from serving.probe import Target


@dataclass(frozen=True, slots=True)
class Look:
    """One question to `/health`; seconds of `time.monotonic`."""

    began: float
    ended: float
    status: str
    """HTTP status, or the kind of error when no answer came."""


class Watch:
    """Asks for the length of a block, in a thread and on a connection of its own."""

    def __init__(self, target: Target, every_s: float, timeout_s: float) -> None:
        """`timeout_s`: how long one answer is waited for."""
        self._target, self._every_s, self._timeout_s = target, every_s, timeout_s
        self._stop, self._thread = threading.Event(), threading.Thread(target=self._ask, daemon=True)
        self.looks: list[Look] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(2 * self._timeout_s)

    def _ask(self) -> None:
        with httpx.Client(headers=dict(self._target.headers), timeout=self._timeout_s, trust_env=False) as client:
            while not self._stop.is_set():
                began = time.monotonic()
                try:
                    status = str(client.get(f"{self._target.url}/health").status_code)
                except httpx.HTTPError as error:
                    status = type(error).__name__
                self.looks.append(Look(began, time.monotonic(), status))
                self._stop.wait(max(0.0, began + self._every_s - time.monotonic()))
