"""What a row, a column and a fault are, and how a file's text is decoded: shared by the readers of `training.rows`."""

import codecs
import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


@dataclass(frozen=True)
class Columns:
    """Which columns matter, by their exact names; `slice` may be none."""

    text: str
    label: str
    slice: str | None = None

    def named(self) -> dict[str, str]:
        """Dial of params.yaml -> column."""
        dials = {"data.text_column": self.text, "data.label_column": self.label}
        return dials | ({"data.slice_column": self.slice} if self.slice is not None else {})


class Row(NamedTuple):
    """One row as it stands in its file; None is missing."""

    number: int
    """Line on which it starts (CSV, TSV, JSONL) or position (Parquet), from 1."""
    text: str | None
    label: str | None
    slice: str | None


class Fault(NamedTuple):
    """Something in a file that we refuse to guess about."""

    number: int | None
    """Of the row, as in Row; None: the whole file."""
    message: str
    """What is wrong; on a second line, where there is one, what to do."""


class Unreadable(Exception):
    """Reading cannot go on in this file."""

    def __init__(self, number: int | None, message: str) -> None:
        super().__init__(message)
        self.fault = Fault(number, message)


def picks(header: Sequence[str], columns: Columns) -> tuple[int, int, int | None]:
    """Positions of text, label and slice. Raises Unreadable when one is absent or there twice."""
    for dial, name in columns.named().items():
        if header.count(name) > 1:
            raise Unreadable(None, f"has {header.count(name)} columns named {name!r} ({dial})\nrename one of them")
        if name not in header:
            raise Unreadable(None, unknown_column(dial, name, header))
    at = header.index
    return at(columns.text), at(columns.label), None if columns.slice is None else at(columns.slice)


def unknown_column(dial: str, name: str, found: Sequence[str]) -> str:
    """Why a column that may print identically is not there."""
    remedy = f"correct {dial} in params.yaml" + (", or set it to null" if dial == "data.slice_column" else "")
    hints = [f"{column!r} has blanks at an end" for column in found if column != column.strip()]
    hints += [f"{column!a} has invisible characters" for column in found if not column.isprintable()]
    hints += [f"{column!r} differs in case" for column in found if column.lower() == name.lower()]
    if len(found) == 1 and any(mark in found[0] for mark in ",;\t|"):
        hints.append("the cells are separated by something else than the file's ending says")
    shown = ", ".join(repr(column) if column.isascii() else f"{column!r} = {column!a}" for column in found[:50])
    return "; ".join([f"has no column {name!r}; it has {shown or 'none, it is empty'}", *hints]) + f"\n{remedy}"


def without_mark(lines: Iterable[str]) -> Iterator[str]:
    """The lines without a byte-order mark before the first."""
    lines = iter(lines)
    return itertools.chain((line.removeprefix("\ufeff") for line in itertools.islice(lines, 1)), lines)


def refuse_utf16(path: Path, encoding: str) -> None:
    """Raise Unreadable when the first bytes are UTF-16 although another encoding is stated."""
    if codecs.lookup(encoding).name.startswith(("utf-16", "utf-32")):
        return
    with path.open("rb") as file:
        first = file.read(4)
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in first:
        raise Unreadable(
            None, f"looks like UTF-16, not {encoding}\nset data.encoding: utf-16 in params.yaml, or save it as UTF-8"
        )


def undecodable(path: Path, encoding: str, error: UnicodeDecodeError) -> tuple[int | None, str]:
    """The line with the first bad byte, where lines end in one byte, and what to do."""
    remedy = "set data.encoding in params.yaml (cp1252, latin-1, ...) or save it as UTF-8"
    message = f"is not {encoding}: {error.reason}\n{remedy}"
    if codecs.lookup(encoding).name.startswith(("utf-16", "utf-32")):
        return None, message
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            with suppress(UnicodeDecodeError):
                line.decode(encoding)
                continue
            return number, message
    return None, message
