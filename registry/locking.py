"""One writer at a time: a lock file in the registry's home, and a database that another program does not hold."""

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from registry import home
from registry.home import Home, HomeFault

LOCK = "lock"
QUIET_S = 2.0
"""How long it waits before it says so."""


@contextmanager
def writing(where: Home) -> Iterator[None]:
    """Be the only writer of ours on this machine, with a home that can be written.

    Waits for other writers up to `home.PATIENCE_S`. Raises HomeFault within seconds when the home is read-only.
    """
    with ExitStack() as held:
        try:
            where.folder.mkdir(parents=True, exist_ok=True)
            held.callback(_acquired(FileLock(where.folder / LOCK)).release)
            if where.database:
                _wait_for(where.database)
        except Timeout as error:
            raise HomeFault(f"{error.lock_file} is held by another command for {home.PATIENCE_S:.0f} s now.") from error
        except OSError as error:
            raise HomeFault(f"the registry's home {where.folder} cannot be written: {error}") from error
        yield


def _acquired(lock: FileLock) -> FileLock:
    try:
        lock.acquire(timeout=QUIET_S)
    except Timeout:
        _say_waiting()
        lock.acquire(timeout=home.PATIENCE_S)
    return lock


def _wait_for(database: Path) -> None:
    if not _can_write(database, QUIET_S):
        _say_waiting()
        if not _can_write(database, home.PATIENCE_S):
            raise HomeFault(f"another program has been writing to {database} for {home.PATIENCE_S:.0f} s.")


def _can_write(database: Path, patience_s: float) -> bool:
    """Whether a write transaction could begin in time. Raises HomeFault, or HomeError when it is damaged."""
    try:
        with closing(sqlite3.connect(database, timeout=patience_s, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise HomeFault(f"the registry's database {database} cannot be written: {error}") from error
        return False
    except sqlite3.DatabaseError as error:
        raise home.damaged(database, error) from error
    return True


def _say_waiting() -> None:
    print("registry: another program is writing to it; waiting", flush=True)
