"""The way in: who is inside, and how it is closed so that everybody inside is served first."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from serving.errors import unavailable

POLL_S = 0.02
# After the last answer has left the app, Serve's proxy needs a moment to put it on the wire.
FLUSH_S = 0.25


class Door:
    """Counts the requests inside one ingress."""

    def __init__(self) -> None:
        self.open, self.inside = True, 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Be inside for the block. Raises ApiError 503 when the door is closed."""
        if not self.open:
            raise unavailable("the service is stopping")
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1

    async def close(self, timeout_s: float) -> int:
        """Let nobody in any more, wait until everybody has left; the number of those that are left after the time."""
        self.open = False
        deadline = time.monotonic() + timeout_s
        while self.inside and time.monotonic() < deadline:
            await asyncio.sleep(POLL_S)
        await asyncio.sleep(FLUSH_S)
        return self.inside
