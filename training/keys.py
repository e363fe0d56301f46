"""A row -> its key, and its split from the key alone."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from registry.contract import has_lone_surrogate, is_visible, normalise
from training.cells import Columns, Fault, Row
from training.params import DataParams, RatingThresholds
from training.rows import MAX_FAULTS, read

SPLITS = ("train", "val", "test")
DROPPED, FAULT = "dropped", "fault"

BLOCK_ROWS, BLOCK_CHARS = 4096, 16 * 2**20
"""A reader hands on a block when it has so many rows or characters."""
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")

STREAM = pa.schema(
    [(name, pa.string()) for name in ("text", "label", "slice", "row", "key", "split", "why", "file")]
    + [("part", pa.int64())]
)
"""Of the rows on their way. `split` is one of SPLITS, or DROPPED or FAULT with a `why`."""


def key_of(text: str, seed: int) -> str:
    """Hex sha256 that texts share when they differ only in case, white space or Unicode spelling."""
    folded = normalise(" ".join(normalise(text).casefold().split()))
    return hashlib.sha256(f"{seed}\n{folded}".encode()).hexdigest()


def split_of(key: str, params: DataParams) -> str:
    """The split of every row with this key: its first 52 bits, as a fraction, against the stated fractions."""
    place = int(key[:13], 16) / 16**13
    if place < params.test_fraction:
        return "test"
    return "val" if place < params.test_fraction + params.val_fraction else "train"


def rate(label: str, thresholds: RatingThresholds) -> str | None:
    """The class of a rating; None when it is no finite decimal number."""
    if not NUMBER.fullmatch(label.strip()):
        return None
    rating = float(label)
    if rating <= thresholds.negative_at_most:
        return "negative"
    return "positive" if rating >= thresholds.positive_at_least else "neutral"


def keyed(files: pa.Table, params: DataParams, parts: int) -> Iterator[pa.Table]:
    """All rows of some files (`name`, `path`) as blocks of STREAM; a Ray Data operator."""
    for file in files.to_pylist():
        yield from _blocks(_records(file["name"], Path(file["path"]), params, parts))


def _blocks(records: Iterator[dict[str, Any]]) -> Iterator[pa.Table]:
    block: list[dict[str, Any]] = []
    chars = 0
    for record in records:
        block.append(record)
        chars += len(record.get("text", ""))
        if len(block) >= BLOCK_ROWS or chars >= BLOCK_CHARS:
            yield pa.Table.from_pylist(block, STREAM)
            block, chars = [], 0
    yield pa.Table.from_pylist(block, STREAM)


def _records(name: str, path: Path, params: DataParams, parts: int) -> Iterator[dict[str, Any]]:
    columns = Columns(params.text_column, params.label_column, params.slice_column)
    faults = 0
    for item in read(path, columns, params.encoding):
        where = {"row": name if item.number is None else f"{name}:{item.number}", "file": name}
        what = {"split": FAULT, "why": item.message} if isinstance(item, Fault) else _place(item, params)
        key = what.get("key")
        part = int(key[:8], 16) * parts >> 32 if key else (item.number or 0) % parts
        yield {**where, **what, "part": part}
        faults += what["split"] == FAULT
        if faults == MAX_FAULTS:
            return


def _place(row: Row, params: DataParams) -> dict[str, str | None]:
    """What becomes of one row."""
    if why := _drop(row):
        return {"split": DROPPED, "why": why}
    text, label = str(row.text), str(row.label)
    if params.rating_thresholds:
        rated = rate(label, params.rating_thresholds)
        if rated is None:
            return {"split": FAULT, "why": f"{label!r} ({params.label_column}) is no number\n{RATING_REMEDY}"}
        label = rated
    key = key_of(text, params.seed)
    return {"text": text, "label": label, "slice": row.slice, "key": key, "split": split_of(key, params)}


RATING_REMEDY = "where that column holds labels, set data.rating_thresholds: null in params.yaml"


def _drop(row: Row) -> str | None:
    """Why a row cannot be used."""
    if row.text is None:
        return "missing_text"
    if any(cell is not None and has_lone_surrogate(cell) for cell in (row.text, row.label, row.slice)):
        return "lone_surrogate"
    if not is_visible(row.text):
        return "blank_text"
    return "missing_label" if row.label is None else None
