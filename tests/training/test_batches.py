"""Every row once an epoch, every worker in step, one worker or many."""

from pathlib import Path

import numpy as np
import pytest

from registry.contract import Encoder
from tests import tiny
from tests.pipeline.project import write_split
from training import batches
from training.batches import Rows, RowsError


def rows_of(lengths: list[int]) -> Rows:
    tokens = np.concatenate([np.full(length, 5 + row, dtype=np.int32) for row, length in enumerate(lengths)])
    return Rows(tokens, np.cumsum([0, *lengths]), np.arange(len(lengths)) % 3)


@pytest.fixture
def encode(tiny_base: Path) -> Encoder:
    return Encoder(tiny_base / "tokenizer.json", tiny.MAX_TOKENS, pad_id=0)


@pytest.mark.parametrize("count", [1, 31, 32, 41, 100])
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("at_once", [None, 1, 7])
def test_every_row_comes_once_an_epoch_and_every_worker_takes_every_step_t07(
    count: int, workers: int, at_once: int | None
) -> None:
    rows = rows_of([3 + row % 7 for row in range(count)])
    steps = batches.epoch(rows.lengths, 32, seed=7, number=0)
    assert len(steps) == -(-count // 32)
    assert sorted(np.concatenate(steps).tolist()) == list(range(count))
    seen = []
    for step in steps:
        parts = [part for rank in range(workers) for part in batches.share(rows, step, rank, workers, 0, at_once)]
        seen += [int(row[0]) - 5 for part in parts if part.share for row in part.ids_BT]
        assert sum(part.share * len(part.targets_B) for part in parts) == pytest.approx(workers)
    assert sorted(seen) == list(range(count))


def test_a_worker_without_a_row_keeps_step_with_weight_nought() -> None:
    rows = rows_of([4, 5, 6])
    (step,) = batches.epoch(rows.lengths, 8, seed=1, number=0)
    (idle,) = batches.share(rows, step, rank=3, workers=4, pad_id=0)
    assert idle.share == 0.0 and len(idle.targets_B) == 1


def test_the_last_short_batch_weighs_its_rows_like_the_others_t02() -> None:
    rows = rows_of([4] * 10)
    shares = [batches.share(rows, step, 0, 1, 0)[0] for step in batches.epoch(rows.lengths, 4, seed=0, number=0)]
    assert sorted(len(part.targets_B) for part in shares) == [2, 4, 4]
    assert all(part.share * len(part.targets_B) == pytest.approx(1.0) for part in shares)


def test_a_step_is_taken_in_parts_whose_gradients_add_up_to_the_mean_t02() -> None:
    rows = rows_of([4] * 10)
    (step,) = batches.epoch(rows.lengths, 10, seed=0, number=0)
    parts = batches.share(rows, step, 0, 1, 0, at_once=4)
    assert [len(part.targets_B) for part in parts] == [4, 4, 2]
    assert [part.share for part in parts] == [pytest.approx(0.1)] * 3


def test_epochs_differ_and_repeat_by_seed() -> None:
    lengths = rows_of([3 + row % 5 for row in range(64)]).lengths
    first, again, later, other = (
        np.concatenate(batches.epoch(lengths, 8, seed, number)) for seed, number in ((7, 0), (7, 0), (7, 1), (8, 0))
    )
    assert (first == again).all()
    assert (first != later).any() and (first != other).any()


def test_rows_of_like_length_meet_so_that_little_is_padded() -> None:
    lengths = np.random.default_rng(0).integers(5, 60, size=512)
    rows = rows_of(lengths.tolist())
    padded = sum(
        batches.share(rows, step, 0, 1, 0)[0].ids_BT.numel()
        for step in batches.epoch(rows.lengths, 16, seed=0, number=0)
    )
    assert padded < 1.1 * lengths.sum()


def test_a_batch_without_padding_has_no_mask() -> None:
    rows = rows_of([4, 4, 6])
    assert batches.collate(rows, np.array([0, 1]), 1.0, pad_id=0).mask_BT is None
    mixed = batches.collate(rows, np.array([0, 2]), 1.0, pad_id=0)
    assert mixed.mask_BT is not None and mixed.mask_BT.sum() == 10
    assert mixed.ids_BT[0, 4:].tolist() == [0, 0]


def test_scoring_takes_every_row_once_on_any_number_of_workers() -> None:
    rows = rows_of([3 + row % 7 for row in range(41)])
    for workers in (1, 2, 3):
        chosen = [part for rank in range(workers) for part in batches.in_order(rows, 8, rank, workers)]
        assert sorted(np.concatenate(chosen).tolist()) == list(range(41))


def test_a_split_is_read_and_encoded_as_serving_encodes(tmp_path: Path, encode: Encoder) -> None:
    made = tiny.rows(50)
    write_split(tmp_path / "train.parquet", made)
    rows = batches.read(tmp_path / "train.parquet", tiny.LABELS, encode)
    assert [tuple(rows.ids(i)) for i in range(50)] == [e.ids for e in encode([row["text"] for row in made])]
    assert rows.targets_N.tolist() == [tiny.LABELS.index(row["label"]) for row in made]
    few = batches.read(tmp_path / "train.parquet", tiny.LABELS, encode, limit=lambda total: total // 5)
    assert len(few) == 10 and few.ids(9) == rows.ids(9)


def test_an_empty_split_and_an_unknown_label_are_refused_by_name(tmp_path: Path, encode: Encoder) -> None:
    write_split(tmp_path / "empty.parquet", [])
    with pytest.raises(RowsError, match=r"empty\.parquet holds no row.*dvc repro prepare"):
        batches.read(tmp_path / "empty.parquet", tiny.LABELS, encode)
    write_split(tmp_path / "odd.parquet", [{"text": "a", "label": "strange", "slice": "x"}])
    with pytest.raises(RowsError, match="strange"):
        batches.read(tmp_path / "odd.parquet", tiny.LABELS, encode)
