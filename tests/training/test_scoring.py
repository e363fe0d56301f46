"""Scoring many texts gives what scoring one gives."""

from pathlib import Path

import numpy as np

from registry import scorer
from tests import tiny
from training import scoring


def test_sorted_forwards_answer_in_the_order_of_the_texts(tiny_bundle: Path) -> None:
    loaded = scorer.load(tiny_bundle)
    texts = [row["text"] * (1 + index % 3) for index, row in enumerate(tiny.rows(300))]
    one_by_one = np.concatenate([loaded.forward(loaded.encode([text])) for text in texts])
    assert np.abs(scoring.logits(loaded, texts) - one_by_one).max() < 1e-4
