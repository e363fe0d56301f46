"""Who may write to the registry, and for how long it is waited."""

import os
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from registry import home, locking
from registry.home import DATABASE, Home, HomeError, HomeFault, local
from registry.locking import writing


@pytest.fixture
def where(tmp_path: Path) -> Home:
    return local(tmp_path / "home" / DATABASE, "for tests")


def test_r03_a_home_that_cannot_be_written_is_the_machines_fault_within_seconds(tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    where = local(tmp_path / "a file/mlflow.db", "for tests")
    start = time.monotonic()
    with pytest.raises(HomeFault, match="cannot be written"), writing(where):
        pass
    assert time.monotonic() - start < 5


def test_a_database_that_cannot_be_written_is_the_machines_fault(where: Home) -> None:
    assert where.database is not None
    where.database.mkdir(parents=True)
    with pytest.raises(HomeFault, match="cannot be written"), writing(where):
        pass


def test_r02_a_writer_waits_for_another_programs_transaction(where: Home) -> None:
    release = _hold(where, seconds=1.5)
    start = time.monotonic()
    with writing(where):
        waited_s = time.monotonic() - start
    release.join()
    assert waited_s > 1


def test_a_database_held_for_too_long_is_the_machines_fault(where: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home, "PATIENCE_S", 0.2)
    monkeypatch.setattr(locking, "QUIET_S", 0.1)
    release = _hold(where, seconds=1.5)
    with pytest.raises(HomeFault, match="another program has been writing"), writing(where):
        pass
    release.join()


def test_waiting_is_said(where: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(locking, "QUIET_S", 0.1)
    release = _hold(where, seconds=0.6)
    with writing(where):
        assert "another program is writing to it; waiting" in capsys.readouterr().out
    release.join()


def test_a_damaged_database_is_named_with_what_to_do(where: Home) -> None:
    assert where.database is not None
    where.folder.mkdir()
    where.database.write_bytes(b"not a database at all, sorry" * 100)
    with pytest.raises(HomeError, match=r"is damaged.*move it away"), writing(where):
        pass


def test_only_one_of_our_commands_writes_at_a_time(where: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home, "PATIENCE_S", 0.2)
    monkeypatch.setattr(locking, "QUIET_S", 0.1)
    with (
        writing(where),
        pytest.raises(HomeFault, match="held by another command"),
        writing(where),
    ):
        pass
    with writing(where):
        assert os.listdir(where.folder)


def _hold(where: Home, seconds: float) -> threading.Thread:
    """Hold a write transaction on the database from another connection."""
    assert where.database is not None
    where.folder.mkdir(parents=True, exist_ok=True)
    held = threading.Event()

    def hold() -> None:
        connection = sqlite3.connect(str(where.database), isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        held.set()
        time.sleep(seconds)
        connection.execute("ROLLBACK")
        connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(5)
    return thread
