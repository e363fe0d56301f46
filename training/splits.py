"""Rows -> splits by key: repeats together, the same answer in any order and anywhere, and new rows never move old ones.

Reading, keying, settling and joining are Ray Data operators; the driver sees tallies, never rows. Rows are dealt to
parts by ranges of their key, so that a part holds all repeats of a text, and the parts in order hold all rows in order.
"""

import errno
import logging
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import ray.data
from ray.data.context import ShuffleStrategy
from ray.exceptions import RayError, RayTaskError

from registry.errors import MachineFault
from training.keys import SPLITS, keyed
from training.params import DataParams
from training.settle import COLUMNS, PARTS, settle
from training.tally import Tally, add

PART_BYTES = 32 * 2**20
"""Bytes of input for each part; one task settles a part in memory."""
ROW_GROUP = 8192
"""Rows; the same however the rows arrived, so that equal rows make equal bytes."""
GOLDEN_ROWS, GOLDEN_CLASS_ROWS = 200, 10


class SplitsFailed(MachineFault):
    """A worker died, memory or disk ran out: nothing is said about the data."""


def split_files(files: dict[str, Path], params: DataParams, folder: Path) -> Tally:
    """Read `files` (name -> path) and write train, val and test.parquet into `folder`; what was counted.

    Needs Ray. Faults, drops and lone classes are in the tally: nothing is judged here.
    """
    _quiet()
    parts = 1 + sum(path.stat().st_size for path in files.values()) // PART_BYTES
    here = _this_node()
    listed = [{"name": name, "path": str(path)} for name, path in sorted(files.items())]
    rows = ray.data.from_items(listed, override_num_blocks=len(listed)).map_batches(
        partial(keyed, params=params, parts=parts), batch_size=None, batch_format="pyarrow", **here
    )
    settled = rows.groupby("part", num_partitions=parts).map_groups(
        partial(settle, folder=folder, params=params), batch_format="pyarrow", **here
    )
    splits = ray.data.from_items([{"split": split} for split in SPLITS], override_num_blocks=len(SPLITS))
    try:
        tallies = [Tally.model_validate_json(row["tally"]) for row in settled.take_all()]
        joined = splits.map(partial(_join, folder=folder), **here).take_all()
    except RayError as error:
        if isinstance(error, RayTaskError) and f"[Errno {errno.ENOSPC}]" not in str(error):
            raise
        raise SplitsFailed(f"Ray could not finish: {error}") from error
    shutil.rmtree(folder / PARTS, ignore_errors=True)
    tally = add([Tally(read=dict.fromkeys(files, 0)), *tallies])
    written = {row["split"]: row["rows"] for row in joined}
    if not tally.faults and sum(written.values()) + sum(tally.dropped.values()) != sum(tally.read.values()):
        raise RuntimeError(
            f"of the rows {tally.read}, {written} were written and {tally.dropped} dropped: some are lost"
        )
    return tally


def _quiet() -> None:
    """Leave the terminal to our own lines; sort to shuffle, which on two cores takes half the time of hashing."""
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.shuffle_strategy = ShuffleStrategy.SORT_SHUFFLE_PULL_BASED


def _this_node() -> dict[str, Any]:
    """Where the files are: on a cluster, tasks that touch them run on the driver's node, if it runs tasks at all."""
    node = {"ray.io/node-id": ray.get_runtime_context().get_node_id()}
    return {"label_selector": node, "fallback_strategy": [{"label_selector": {}}]}


def _join(row: dict[str, str], folder: Path) -> dict[str, Any]:
    """One split's parts -> one file, in order."""
    split = row["split"]
    parts = sorted((folder / PARTS / split).glob("*.parquet"))
    waiting, rows = COLUMNS.empty_table(), 0
    with pq.ParquetWriter(folder / f"{split}.parquet", COLUMNS, compression="zstd") as file:
        for part in parts:
            waiting = pa.concat_tables([waiting, pq.read_table(part)])
            while waiting.num_rows >= ROW_GROUP:
                file.write_table(waiting.slice(0, ROW_GROUP).combine_chunks())
                waiting, rows = waiting.slice(ROW_GROUP), rows + ROW_GROUP
        if waiting.num_rows:
            file.write_table(waiting.combine_chunks())
    return {"split": split, "rows": rows + waiting.num_rows}


def write_golden(test: Path, golden: Path, labels: Sequence[str]) -> int:
    """Keep the test rows of smallest key, at most GOLDEN_ROWS, at least GOLDEN_CLASS_ROWS a class where there are.

    With so many classes that both cannot be, each gets its even share. Returns how many rows are golden.
    """
    share = min(GOLDEN_CLASS_ROWS, GOLDEN_ROWS // len(labels))
    first: list[dict[str, str]] = []
    of_class: dict[str, list[dict[str, str]]] = {label: [] for label in labels}
    with pq.ParquetFile(test) as file:
        for batch in file.iter_batches(1024):
            for row in batch.to_pylist():
                if len(of_class[row["label"]]) < share:
                    of_class[row["label"]].append(row)
                elif len(first) < GOLDEN_ROWS:
                    first.append(row)
    chosen = [row for rows in of_class.values() for row in rows]
    chosen += first[: GOLDEN_ROWS - len(chosen)]
    chosen.sort(key=lambda row: (row["key"], row["row"]))
    pq.write_table(pa.Table.from_pylist(chosen, COLUMNS), golden, compression="zstd")
    return len(chosen)
