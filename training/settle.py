"""All repeats of a text together: conflicts, splits, counts."""

import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from training.keys import DROPPED, FAULT, SPLITS, STREAM
from training.params import DataParams
from training.tally import Tally, add

COLUMNS = pa.schema([STREAM.field(name) for name in ("text", "label", "slice", "row", "key")])
"""Of the split files. `slice` may be null."""
PARTS = "parts"


def settle(part: pa.Table, folder: Path, params: DataParams) -> pa.Table:
    """Write one part's rows below `folder`/PARTS and return its tally; a Ray Data operator.

    `part` has the columns STREAM and holds all rows of its keys.
    """
    number = part["part"][0].as_py()
    keyed = part.filter(pc.is_valid(part["key"])).sort_by([("key", "ascending"), ("row", "ascending")])
    texts = keyed.group_by("key").aggregate([("key", "count"), ("label", "count_distinct")])
    conflicts = texts.filter(pc.greater(texts["label_count_distinct"], 1))
    in_conflict = pc.is_in(keyed["key"], conflicts["key"].combine_chunks())
    lost, kept = part.filter(pc.equal(part["split"], DROPPED)), keyed
    if params.on_conflict == "drop":
        lost = pa.concat_tables([lost, _because("conflict", keyed.filter(in_conflict))])
        kept = keyed.filter(pc.invert(in_conflict))
    for split in SPLITS:
        _write(kept.filter(pc.equal(kept["split"], split)), folder / PARTS / split / f"{number:09}.parquet")
    tally = Tally(
        read=_count(part.filter(pc.not_equal(part["split"], FAULT)), "file"),
        faults=dict(_pairs(part.filter(pc.equal(part["split"], FAULT)), "row", "why")),
        dropped=_count(lost, "why"),
        dropped_rows=_rows_by(lost, "why"),
        classes=_cross(kept, "label", "split"),
        slices=_cross(kept.filter(pc.is_valid(kept["slice"])), "slice", "label"),
        chars=Counter(pc.utf8_length(kept["text"]).to_pylist()),
        words=Counter(len(text.split()) for text in kept["text"].to_pylist()),
        repeats={
            "texts": (repeated := texts.filter(pc.greater(texts["key_count"], 1))).num_rows,
            "rows": _sum(repeated["key_count"]) - repeated.num_rows,
        },
        conflicts={"texts": conflicts.num_rows, "rows": _sum(conflicts["key_count"])},
        conflict_rows=_rows_by(keyed.filter(in_conflict), "key"),
    )
    return pa.table({"tally": [add([tally]).model_dump_json()]})


def _write(rows: pa.Table, path: Path) -> None:
    """Whole or not at all: Ray may run a task again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(f".{os.getpid()}")
    pq.write_table(rows.select(COLUMNS.names), scratch)
    os.replace(scratch, path)


def _because(why: str, rows: pa.Table) -> pa.Table:
    at = rows.schema.get_field_index("why")
    return rows.set_column(at, rows.schema.field(at), pa.array([why] * rows.num_rows, pa.string()))


def _count(rows: pa.Table, name: str) -> dict[str, int]:
    return Counter(rows[name].to_pylist())


def _cross(rows: pa.Table, outer: str, inner: str) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for (first, second), n in Counter(_pairs(rows, outer, inner)).items():
        counts.setdefault(first, {})[second] = n
    return counts


def _pairs(rows: pa.Table, first: str, second: str) -> list[tuple[str, str]]:
    return list(zip(rows[first].to_pylist(), rows[second].to_pylist(), strict=True))


def _rows_by(rows: pa.Table, name: str) -> dict[str, list[str]]:
    """Value -> names of the rows that hold it."""
    named: dict[str, list[str]] = {}
    for value, row in _pairs(rows, name, "row"):
        named.setdefault(value, []).append(row)
    return named


def _sum(numbers: pa.ChunkedArray) -> int:
    return pc.sum(numbers).as_py() or 0
