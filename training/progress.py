"""Progress of work that runs elsewhere: workers append lines to a file, the command shows the newest one."""

import atexit
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

EVERY_S = 10.0
"""Seconds between two lines where there is no terminal."""
LOOK_EVERY_S = 0.25
LAST_WAIT_S = 10.0
BAR = 30
"""Characters of the bar."""


def note(file: Path, line: dict[str, Any]) -> None:
    """Append one line, with the time; safe for several writers, as a short append is one write."""
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps({"time": round(time.time(), 3), **line}) + "\n")


def follow(name: str, file: Path, work: Callable[[], T]) -> T:
    """Do `work` on a thread of its own and show what is noted in `file` meanwhile: a bar, or a line every 10 s.

    The caller's thread stays free for signals. Raises what `work` raises.
    """
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True)
    # After a signal the interpreter must not end under a thread that is still inside Ray.
    atexit.register(thread.join, LAST_WAIT_S)
    screen = Screen(name, file)
    thread.start()
    while thread.is_alive():
        thread.join(LOOK_EVERY_S)
        screen.refresh()
    screen.close()
    if failure:
        raise failure[0]
    return outcome[0]


class Screen:
    """The newest lines of a progress file on stdout."""

    def __init__(self, name: str, file: Path) -> None:
        self._name, self._file = name, file
        self._offset = file.stat().st_size if file.exists() else 0
        self._bar = sys.stdout.isatty()
        self._began, self._last_print = time.monotonic(), time.monotonic()
        self._first_step: int | None = None

    def refresh(self) -> None:
        """Show what has been noted since the last call."""
        lines = self._new_lines()
        for line in lines:
            if "said" in line:
                self._print(str(line["said"]))
        steps = [line for line in lines if "step" in line]
        if not steps:
            return
        if self._first_step is None:
            self._first_step, self._began = steps[0]["step"], time.monotonic()
        if self._bar:
            print(f"\r\x1b[K{self._text(steps[-1])}", end="", flush=True)
        elif time.monotonic() - self._last_print >= EVERY_S:
            self._print(self._text(steps[-1]))

    def close(self) -> None:
        """Leave the terminal on a line of its own."""
        self.refresh()
        if self._bar:
            print("\r\x1b[K", end="", flush=True)

    def _print(self, text: str) -> None:
        self._last_print = time.monotonic()
        print(f"\r\x1b[K{text}" if self._bar else f"{self._name}: {text}", flush=True)

    def _text(self, line: dict[str, Any]) -> str:
        step, steps = line["step"], line["steps"]
        taken = step - (self._first_step or 0)
        left = f", {(time.monotonic() - self._began) / taken * (steps - step):.0f} s left" if taken > 0 else ""
        filled = "#" * (BAR * step // max(steps, 1))
        bar = f"[{filled:.<{BAR}}] " if self._bar else ""
        return f"{bar}{line.get('what', '')}step {step} of {steps}, loss {line['train_loss']:.3f}{left}"

    def _new_lines(self) -> list[dict[str, Any]]:
        if not self._file.exists():
            return []
        with self._file.open("rb") as file:
            file.seek(self._offset)
            whole, newline, _rest = file.read().rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        return [json.loads(line) for line in whole.splitlines() if line]
