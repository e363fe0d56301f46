"""A local registry that was moved or copied with its project: MLflow records absolute paths, so they are rewritten.

The database says where it lay, in the artifact locations of the experiments made here.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from registry.home import ARTIFACTS, PATIENCE_S, Home, HomeFault, damaged

# Every column of MLflow's schema that holds a path below the artifact folder.
COLUMNS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)


def follow(home: Home) -> None:
    """Point the database of a local home at that home's artifacts, if it still points elsewhere.

    A copy's database is rewritten in the copy only; the original keeps its own. Raises HomeFault when it cannot be
    written now, HomeError when it is damaged.
    """
    if home.database is None or home.artifact_root is None or not home.exists:
        return
    try:
        with closing(sqlite3.connect(home.database, timeout=PATIENCE_S, isolation_level=None)) as connection:
            for old in _former_roots(connection, home.artifact_root):
                print(f"registry: it lay at {old.parent} before; its paths now say {home.folder}", flush=True)
                _rewrite(connection, old, home.artifact_root)
    except sqlite3.OperationalError as error:
        raise HomeFault(f"the registry's database {home.database} cannot be used now: {error}") from error
    except sqlite3.DatabaseError as error:
        raise damaged(home.database, error) from error


def _former_roots(connection: sqlite3.Connection, root: Path) -> list[Path]:
    tables = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'experiments'").fetchall()
    if not tables:
        return []
    recorded = connection.execute("SELECT DISTINCT artifact_location FROM experiments").fetchall()
    return [Path(path) for (path,) in recorded if path and Path(path).name == ARTIFACTS and Path(path) != root]


def _rewrite(connection: sqlite3.Connection, old: Path, new: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for table, column in COLUMNS:
        connection.execute(
            f"UPDATE {table} SET {column} = :new || substr({column}, length(:old) + 1) "  # noqa: S608 - names from COLUMNS
            f"WHERE {column} = :old OR substr({column}, 1, length(:old) + 1) = :old || '/'",
            {"old": str(old), "new": str(new)},
        )
    connection.execute("COMMIT")
