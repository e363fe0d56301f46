"""The end of an app under load: what became of the requests in flight, and what was left behind."""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import psutil
import ray
from ray import serve

from registry.service_evidence import Shutdown
from serving.load import OK, REFUSED, Load
from serving.ports import is_free
from serving.probe import ProbeFault, Target

FIRST_ANSWER_S, SETTLE_S = 20.0, 3.0
LONGEST_END_S = 120.0
ORPHAN_S = 10.0
"""What processes are given to end after Ray has been left."""
TURNED_AWAY = {"503", "429", REFUSED}
"""Told to ask elsewhere, or never let in: a client that began before the order and connected after the end."""
LOG_LINES = 15


class Ending:
    """Make it as the last thing before the app is told to stop; ask `seen` when Ray has been left."""

    def __init__(self, target: Target, texts: Sequence[str], clients: int, since: set[psutil.Process]) -> None:
        """Starts the load; returns when it is being answered. `since`: the processes that were there before Ray."""
        self._load = Load(target.url, texts, clients, LONGEST_END_S, target.headers)
        self._load.start()
        if not self._load.wait_for(1, FIRST_ANSWER_S):
            self._load.stop()
            raise ProbeFault(f"no request was answered within {FIRST_ANSWER_S:g} s of the last load")
        # Once all clients have had an answer, they are spread over the way and not all at the entrance.
        self._load.wait_for(2 * clients, SETTLE_S)
        self._processes = [p for p in psutil.Process().children(recursive=True) if p not in since]
        self._ordered = self._down = time.monotonic()

    def app_is_down(self) -> None:
        """Call it when the app's block has been left, and before Ray is.

        While Ray shuts down, a thread that happens to free one of its references ends the whole process: the load's
        ends here.
        """
        self._down = time.monotonic()
        self._load.stop()

    def seen(self, host: str, port: int) -> Shutdown:
        """What became of what was in flight when the order came, and what is left."""
        answers = self._load.answers
        statuses = Counter(a.status for a in answers if a.began < self._ordered <= a.ended)
        _, alive = psutil.wait_procs(self._processes, timeout=ORPHAN_S)
        return Shutdown(
            in_flight=statuses.total(),
            finished=statuses[OK],
            refused=sum(statuses[status] for status in TURNED_AWAY),
            lost={status: count for status, count in statuses.items() if status not in {OK, *TURNED_AWAY}},
            seconds=self._down - self._ordered,
            orphans=tuple(sorted(filter(None, map(_named, alive)))),
            port_free=is_free(host, port),
        )


def _named(process: psutil.Process) -> str | None:
    try:
        zombie = process.status() == psutil.STATUS_ZOMBIE
        return None if zombie else f"{process.name()} {process.pid}"
    except psutil.NoSuchProcess:
        return None


def last_words() -> str:
    """Serve's own status and the ends of its newest logs, for a fault's message; Ray must still be there."""
    lines = []
    try:
        lines.append(f"serve.status(): {serve.status().applications}")
    except Exception as error:
        lines.append(f"serve.status(): {error}")
    for path in _newest_logs():
        lines += [f"{path.name}:", *path.read_text(errors="replace").splitlines()[-LOG_LINES:]]
    return "\n".join(lines)


def _newest_logs() -> list[Path]:
    node = ray._private.worker._global_node
    if node is None:
        return []
    logs = [path for path in Path(node.get_logs_dir_path()).glob("serve/*.log") if path.stat().st_size]
    return sorted(logs, key=lambda path: path.stat().st_mtime)[-3:]
