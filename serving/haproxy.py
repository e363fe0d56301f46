"""Start HAProxy for Serve: without the ports that nobody asked for, and only for as long as Serve lives.

Runs as `haproxy.py PROGRAM ARGUMENT…`, with nothing but the standard library.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path

SURPLUS = ("frontend prometheus", "listen stats")
"""Sections that would listen on a port of every interface; Serve reads the same through HAProxy's socket."""
PR_SET_PDEATHSIG = 1


def without_surplus(config: str) -> str:
    """HAProxy's configuration without those sections; a section ends where the next line begins with a word."""
    kept, keep = [], True
    for line in config.splitlines(keepends=True):
        if line[:1].strip() and not line.startswith("#"):
            keep = not line.startswith(SURPLUS)
        if keep:
            kept.append(line)
    return "".join(kept)


def main(program: str, arguments: list[str]) -> None:
    """Become HAProxy; the kernel ends it when the process that started it ends (prctl(2), PR_SET_PDEATHSIG)."""
    config = Path(arguments[arguments.index("-f") + 1])
    config.write_text(without_surplus(config.read_text()))
    started_by = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != started_by:
        sys.exit("the process that started this one has ended already")
    os.execv(program, [program, *arguments])  # noqa: S606 - a program and its arguments, no words of a shell's


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
