"""Parquet -> rows: what is stored, as text; dictionaries decoded, nulls missing."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from training.cells import Columns, Fault, Row, Unreadable, picks

PARQUET_ROWS = 1024
"""Rows decoded at a time."""
PLAIN = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_null,
)
"""Arrow types whose Python form, as text, is what was stored."""


def parquet(path: Path, columns: Columns, _encoding: str) -> Iterator[Row | Fault]:
    """Rows of a Parquet file, numbered from 1."""
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        wanted = [None if at is None else schema.field(at) for at in picks(schema.names, columns)]
        as_text = [str if field is None else _cell_text(field) for field in wanted]
        names = list(dict.fromkeys(columns.named().values()))
        number = 0
        for batch in file.iter_batches(PARQUET_ROWS, columns=names):
            cells = [_cells(batch, field, number) for field in wanted]
            for row in zip(*cells, strict=True):
                number += 1
                texts = (None if cell is None else write(cell) for cell, write in zip(row, as_text, strict=True))
                yield Row(number, *(text or None for text in texts))


def _cells(batch: Any, field: Any, rows_before: int) -> list[Any]:
    """One column of a batch, None where a cell is missing or the column is not wanted."""
    if field is None:
        return [None] * batch.num_rows
    try:
        cells: list[Any] = batch.column(field.name).to_pylist()
    except UnicodeDecodeError as error:
        rows = f"rows {rows_before + 1} to {rows_before + batch.num_rows}"
        raise Unreadable(
            None, f"column {field.name!r} holds bytes that are no UTF-8 in {rows}\nwrite it anew"
        ) from error
    return cells


def _cell_text(field: Any) -> Callable[[Any], str]:
    """How a cell of this column is written as text. Raises Unreadable for a type that has no one spelling."""
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_boolean(kind):
        return lambda cell: "true" if cell else "false"
    if any(is_kind(kind) for is_kind in PLAIN):
        return str
    raise Unreadable(
        None, f"column {field.name!r} has type {field.type}\nsave it as text, so that its spelling is yours to choose"
    )
