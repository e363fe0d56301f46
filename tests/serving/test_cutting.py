"""Which texts of a batch share a forward."""

import random

import pytest

from serving.cutting import cut


def tokens(lengths: list[int], forwards: list[list[int]]) -> int:
    """Tokens computed, padding included."""
    return sum(len(places) * max(lengths[place] for place in places) for places in forwards)


@pytest.mark.parametrize(
    ("lengths", "forwards"),
    [
        ([5], [[0]]),
        ([5, 5, 5], [[0, 1, 2]]),
        ([9, 30, 14, 25], [[0, 1, 2, 3]]),
        ([9, 256, 12, 10], [[0, 3, 2], [1]]),
        ([256, 8, 250, 8, 8, 8], [[1, 3, 4, 5], [2, 0]]),
        ([8, 256], [[0, 1]]),
    ],
)
def test_long_texts_ride_apart_when_that_halves_the_work(lengths: list[int], forwards: list[list[int]]) -> None:
    assert cut(lengths) == forwards


def test_every_text_rides_once_and_never_at_more_cost() -> None:
    rng = random.Random(0)
    for _ in range(300):
        lengths = [rng.choice([3, 8, 20, 60, 256]) for _ in range(rng.randint(1, 40))]
        forwards = cut(lengths)
        assert sorted(place for places in forwards for place in places) == list(range(len(lengths)))
        assert len(forwards) == 1 or 2 * tokens(lengths, forwards) <= tokens(lengths, [list(range(len(lengths)))])
