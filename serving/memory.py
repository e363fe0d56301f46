"""Resident memory of a running app's processes under steady load."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence

import psutil
import ray
from ray.exceptions import RayError

from registry.service_evidence import Memory, Resident
from serving import handles
from serving.load import OK, Load
from serving.probe import ProbeFault, Target

MEMORY_S, READ_EVERY_S = 20.0, 0.5


def memory(target: Target, texts: Sequence[str], clients: int) -> Memory:
    """Read it while `clients` ask. Raises ProbeFault when requests get no answer or a process is lost."""
    processes = {
        f"{deployment} {replica}": process
        for deployment in (handles.INGRESS, handles.MODEL)
        for replica, process in handles.processes(target.app, deployment).items()
    }
    load = Load(target.url, texts, clients, 2 * MEMORY_S, target.headers)
    load.start()
    try:
        residents = _residents(processes)
    except RayError as error:
        raise ProbeFault(f"its memory could not be read: {type(error).__name__} {error}") from error
    finally:
        answers = load.stop()
    if silent := Counter(a.status for a in answers if not a.status.isdigit()):
        raise ProbeFault(f"requests got no answer while its memory was watched: {dict(silent)}")
    return Memory(
        texts=sum(a.status == OK for a in answers),
        seconds=max(a.ended for a in answers) - min(a.began for a in answers),
        processes={name: Resident(over_time=tuple(seen)) for name, seen in residents.items()},
    )


def _residents(of: Mapping[str, handles.Process]) -> dict[str, list[tuple[float, int]]]:
    """Name -> (seconds since the start, bytes), read where each process runs. Raises RayError when one is lost."""
    readings = [
        handles.task(_read, node).remote({name: p.pid for name, p in of.items() if p.node == node}, MEMORY_S)
        for node in {process.node for process in of.values()}
    ]
    found: dict[str, list[tuple[float, int]]] = {}
    for reading in ray.get(readings, timeout=handles.START_S + MEMORY_S + handles.ANSWER_S):
        found |= reading
    return found


def _read(pids: Mapping[str, int], seconds: float) -> dict[str, list[tuple[float, int]]]:
    readers, began = {name: psutil.Process(pid) for name, pid in pids.items()}, time.monotonic()
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in pids}
    while (passed := time.monotonic() - began) < seconds:
        for name, reader in readers.items():
            found[name].append((round(passed, 2), reader.memory_info().rss))
        time.sleep(READ_EVERY_S)
    return found
