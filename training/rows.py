"""Files -> rows, strictly and losslessly: a cell is the text that stands there, whatever it looks like.

CSV and TSV are what Python's `csv` module reads, JSONL what `json` reads line by line, Parquet what it stores.
Only an empty cell, an absent key and a null are missing. Nothing is guessed from the first rows.
"""

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from training.cells import (
    Columns,
    Fault,
    Row,
    Unreadable,
    picks,
    refuse_utf16,
    undecodable,
    unknown_column,
    without_mark,
)
from training.parquet import parquet

MAX_FAULTS = 10
"""Faults listed of one file before its reading stops."""
LARGEST_CELL = 2**31 - 1
"""Characters; the csv module's own limit of 131,072 is lower than some texts are long."""
MAX_KEYS = 50
"""Keys of a JSONL file named when a column is not there."""


def read(path: Path, columns: Columns, encoding: str = "utf-8") -> Iterator[Row | Fault]:
    """All rows in the order of the file. Faults stand in their place; after MAX_FAULTS of them reading stops."""
    faults = 0
    for item in _until_broken(path, columns, encoding):
        yield item
        faults += isinstance(item, Fault)
        if faults == MAX_FAULTS:
            return


def _until_broken(path: Path, columns: Columns, encoding: str) -> Iterator[Row | Fault]:
    try:
        yield from READERS[path.suffix.lower()](path, columns, encoding)
    except Unreadable as error:
        yield error.fault
    except UnicodeDecodeError as error:
        yield Fault(*undecodable(path, encoding, error))
    except (pa.ArrowException, OSError) as error:
        yield Fault(None, f"cannot be read: {' '.join(str(error).split())}")


# --- CSV and TSV -----------------------------------------------------------------------------------------------------


def _delimited(path: Path, columns: Columns, encoding: str, delimiter: str) -> Iterator[Row | Fault]:
    csv.field_size_limit(LARGEST_CELL)
    refuse_utf16(path, encoding)
    with path.open(encoding=encoding, newline="") as file:
        table = csv.reader(without_mark(file), delimiter=delimiter, strict=True)
        start = 1
        try:
            header = next(table, None)
            if header is None:
                raise Unreadable(None, "is empty\nthe first line must name the columns")
            wanted = picks(header, columns)
            start = table.line_num + 1
            for cells in table:
                if len(cells) == len(header):
                    yield Row(start, *(None if at is None else cells[at] or None for at in wanted))
                elif cells:  # a blank line is no row
                    yield Fault(
                        start,
                        f"has {len(cells)} cells, the header {len(header)}\nput quotes around a cell that holds "
                        f"{delimiter!r} or a line break",
                    )
                start = table.line_num + 1
        except csv.Error as error:
            raise Unreadable(
                start,
                f"is not valid: {error}\na quote inside a quoted cell is written twice, and every quote is closed",
            ) from error


def _csv(path: Path, columns: Columns, encoding: str) -> Iterator[Row | Fault]:
    return _delimited(path, columns, encoding, ",")


def _tsv(path: Path, columns: Columns, encoding: str) -> Iterator[Row | Fault]:
    return _delimited(path, columns, encoding, "\t")


# --- JSONL -----------------------------------------------------------------------------------------------------------


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with all its keys, repeated ones included."""


class _Number(str):
    """A JSON number as it is written."""

    __slots__ = ()


def _jsonl(path: Path, columns: Columns, encoding: str) -> Iterator[Row | Fault]:
    refuse_utf16(path, encoding)
    absent = set(columns.named().values())
    keys: dict[str, None] = {}
    with path.open(encoding=encoding, newline="\n") as file:
        for number, line in enumerate(without_mark(file), start=1):
            if line.isspace():
                continue
            try:
                pairs = _object(line)
                yield _json_row(number, pairs, columns)
            except json.JSONDecodeError as error:
                yield Fault(
                    number, f"is no JSON object: {error.msg} at column {error.colno}\neach line holds one object"
                )
            except (ValueError, RecursionError) as error:
                yield Fault(number, str(error))
            else:
                absent.difference_update(key for key, _ in pairs)
                keys |= dict.fromkeys(key for key, _ in pairs[:MAX_KEYS] if len(keys) < MAX_KEYS)
    for dial, name in columns.named().items():
        if name in absent:
            raise Unreadable(None, unknown_column(dial, name, list(keys)))


def _object(line: str) -> _Pairs:
    pairs = json.loads(
        line, object_pairs_hook=_Pairs, parse_int=_Number, parse_float=_Number, parse_constant=_no_constant
    )
    if not isinstance(pairs, _Pairs):
        raise ValueError("is no JSON object\neach line holds one object")
    return pairs


def _json_row(number: int, pairs: _Pairs, columns: Columns) -> Row:
    """Raises ValueError for a key that is there twice or holds a list or an object."""
    wanted = columns.named().values()
    found: dict[str, str | None] = {}
    for key, value in pairs:
        if key not in wanted:
            continue
        if key in found:
            raise ValueError(f"has the key {key!r} twice")
        found[key] = _scalar(key, value)
    part = None if columns.slice is None else found.get(columns.slice)
    return Row(number, found.get(columns.text), found.get(columns.label), part)


def _scalar(key: str, value: Any) -> str | None:
    """A scalar's JSON text; an empty string is missing, as in a CSV."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        raise ValueError(f"{key!r} is {'an object' if isinstance(value, _Pairs) else 'a list'}, not one value")
    return str(value) if value else None


def _no_constant(name: str) -> None:
    raise ValueError(f"holds {name}, which is no JSON")


READERS: dict[str, Callable[[Path, Columns, str], Iterator[Row | Fault]]] = {
    ".csv": _csv,
    ".tsv": _tsv,
    ".jsonl": _jsonl,
    ".parquet": parquet,
}
