"""Whether the model answers, known before anybody asks: a canary every second."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

from pydantic import JsonValue

from serving.messages import Alive, Held

PERIOD_S = 1.0
TIMEOUT_S = 2.0
STALE_S = 4.0


class Monitor:
    """Asks the model deployment a canary every second and remembers the answer; `/health` only reads."""

    def __init__(self, ask: Callable[[], Awaitable[Alive]], wanted: Held) -> None:
        """`wanted`: what a replica must hold."""
        self._ask, self._wanted = ask, wanted
        self._fault: str | None = "no canary has been answered yet"
        self._right_at: float | None = None
        self.loaded: dict[str, JsonValue] = {}
        """What the replica that answered last holds."""
        self.heard = asyncio.Event()
        """Set from the model's first answer on, right or wrong."""
        self._down: asyncio.Future[None] | None = None

    @property
    def fault(self) -> str | None:
        """Why the model cannot be trusted to answer now, or None."""
        if self._fault:
            return self._fault
        age = time.monotonic() - (self._right_at or 0.0)
        return f"no canary has been answered for {age:.0f} s" if age > STALE_S else None

    @property
    def down(self) -> "asyncio.Future[None]":
        """Done as soon as a model that has been heard is down: one for all who wait, so nobody may cancel it."""
        if self._down is None:
            self._down = asyncio.get_running_loop().create_future()
        return self._down

    async def watch(self) -> None:
        """Ask for ever, once a second; ends when cancelled."""
        while True:
            began = time.monotonic()
            await self._once()
            await asyncio.sleep(max(0.0, began + PERIOD_S - time.monotonic()))

    async def _once(self) -> None:
        # Silence makes stale (4 s), a wrong answer is a fault at once.
        with contextlib.suppress(Exception):
            alive = await asyncio.wait_for(self._ask(), TIMEOUT_S)
            self._hear(alive)
        is_down = bool(self.heard.is_set() and self.fault)
        if is_down and not self.down.done():
            self.down.set_result(None)
        elif not is_down and self.down.done():
            self._down = None

    def _hear(self, alive: Alive) -> None:
        if alive.held != self._wanted:
            return
        self._fault, self.loaded = alive.fault, alive.loaded
        self.heard.set()
        if alive.fault is None:
            self._right_at = time.monotonic()
