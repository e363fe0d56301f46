"""Rows -> token batches of equal cost, the same on one worker and on many.

Shape letters: N rows, B rows of one batch on one worker, T tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import torch

from registry.contract import Encoder, pad
from registry.errors import Refused

Ints = npt.NDArray[np.int64]

ENCODE_AT_ONCE = 4096
"""Texts handed to the tokenizer in one call, so that its working memory stays small."""


class RowsError(Refused):
    """A split that cannot be trained on."""


@dataclass(frozen=True)
class Rows:
    """Encoded rows, end to end in one array, so that a million of them stay small and travel without a copy."""

    tokens: npt.NDArray[np.int32]
    """Token ids of all rows, one row after the other."""
    starts: Ints
    """N + 1 offsets into `tokens`."""
    targets_N: Ints
    """Class index per row."""

    def __len__(self) -> int:
        return len(self.targets_N)

    @property
    def lengths(self) -> Ints:
        """Tokens per row."""
        return np.diff(self.starts)

    def ids(self, row: int) -> list[int]:
        """Token ids of one row."""
        ids: list[int] = self.tokens[self.starts[row] : self.starts[row + 1]].tolist()
        return ids


@dataclass(frozen=True)
class Batch:
    """What one worker forwards in one step."""

    ids_BT: torch.Tensor
    mask_BT: torch.Tensor | None
    """None when nothing is padded."""
    targets_B: torch.Tensor
    share: float
    """What the summed row losses are multiplied with; 0 for a stand-in that only keeps step."""


def read(
    split: Path, labels: Sequence[str], encode: Encoder, limit: Callable[[int], int] = lambda total: total
) -> Rows:
    """The rows of a split, encoded once; only the first `limit(rows there are)` of them.

    A split is sorted by key, so any head of it is a fair sample. Raises RowsError when the split is empty or holds a
    label that `labels` lacks.
    """
    table = pq.read_table(split, columns=["text", "label"])
    table = table.slice(0, limit(table.num_rows))
    index = {label: position for position, label in enumerate(labels)}
    unknown = sorted(set(table["label"].unique().to_pylist()) - index.keys())
    if unknown or not table.num_rows:
        what = f"holds labels that labels.json lacks, {unknown[:5]}" if unknown else "holds no row"
        raise RowsError(f"{split} {what}; make the splits again: dvc repro prepare")
    ids = [
        np.array(encoded.ids, dtype=np.int32)
        for start in range(0, table.num_rows, ENCODE_AT_ONCE)
        for encoded in encode(table["text"].slice(start, ENCODE_AT_ONCE).to_pylist())
    ]
    return Rows(
        tokens=np.concatenate(ids),
        starts=np.cumsum([0, *map(len, ids)], dtype=np.int64),
        targets_N=np.array([index[label] for label in table["label"].to_pylist()], dtype=np.int64),
    )


def epoch(lengths_N: Ints, batch_size: int, seed: int, number: int) -> list[Ints]:
    """One epoch's batches of row positions, summed over all workers: every row once, rows of like length together.

    The same for the same seed and epoch number, whatever the number of workers. ceil(N / batch_size) batches, one a
    step; the shuffle decides which rows of a length meet and in which order the batches come.
    """
    rng = np.random.default_rng([seed, number])
    shuffled_N = rng.permutation(len(lengths_N))
    sorted_N = shuffled_N[np.argsort(lengths_N[shuffled_N], kind="stable")]
    batches = [sorted_N[start : start + batch_size] for start in range(0, len(sorted_N), batch_size)]
    return [batches[position] for position in rng.permutation(len(batches))]


def share(rows: Rows, batch: Ints, rank: int, workers: int, pad_id: int, at_once: int | None = None) -> list[Batch]:
    """One worker's part of a batch, so weighted that the workers' mean gradient is that of the batch's mean loss.

    In parts of at most `at_once` rows, whose gradients add up; a short last one weighs its rows like the others. A
    worker without a row forwards the batch's first one with weight 0: every worker takes every step.
    """
    mine = batch[rank::workers]
    if not len(mine):
        return [collate(rows, batch[:1], 0.0, pad_id)]
    size = at_once or len(mine)
    parts = [mine[start : start + size] for start in range(0, len(mine), size)]
    return [collate(rows, part, workers / len(batch), pad_id) for part in parts]


def in_order(rows: Rows, batch_size: int, rank: int, workers: int) -> list[Ints]:
    """One worker's part of all rows in batches of like length, to be scored; may be empty."""
    sorted_N = np.argsort(rows.lengths, kind="stable")[rank::workers]
    return [sorted_N[start : start + batch_size] for start in range(0, len(sorted_N), batch_size)]


def collate(rows: Rows, chosen: Ints, weight: float, pad_id: int) -> Batch:
    """Row positions to tensors."""
    ids_BT, mask_BT = pad([rows.ids(int(row)) for row in chosen], pad_id)
    mask = None if mask_BT is None else torch.from_numpy(mask_BT)
    return Batch(torch.from_numpy(ids_BT), mask, torch.from_numpy(rows.targets_N[chosen]), weight)
