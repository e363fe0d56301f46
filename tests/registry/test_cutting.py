"""Which texts of a batch share a forward."""

import itertools
import random

import pytest

from registry.cutting import cut


def cost(lengths: list[int], forwards: list[list[int]], overhead: float) -> float:
    """Tokens computed, padding and overhead included."""
    return sum(overhead + len(places) * max(lengths[place] for place in places) for places in forwards)


def every_cut(places: list[int]) -> list[list[list[int]]]:
    """All ways to share places among forwards, whatever their order."""
    if not places:
        return [[]]
    first, rest = places[0], places[1:]
    ways = []
    for size in range(len(rest) + 1):
        for mates in itertools.combinations(rest, size):
            ways += [[[first, *mates], *more] for more in every_cut([p for p in rest if p not in mates])]
    return ways


@pytest.mark.parametrize(
    ("lengths", "forwards"),
    [
        ([], []),
        ([5], [[0]]),
        ([5, 5, 5], [[0, 1, 2]]),
        ([9, 20, 14, 25], [[0, 2, 1, 3]]),
        ([9, 256, 12, 10], [[0, 3, 2], [1]]),
        ([256, 8, 250, 8, 8, 8], [[1, 3, 4, 5], [2, 0]]),
    ],
)
def test_texts_of_like_length_ride_together(lengths: list[int], forwards: list[list[int]]) -> None:
    assert cut(lengths, overhead=30, budget=10_000) == forwards


@pytest.mark.parametrize("seed", range(40))
def test_no_other_cut_costs_less(seed: int) -> None:
    rng = random.Random(seed)
    lengths = [rng.choice([3, 5, 8, 20, 60, 256]) for _ in range(rng.randint(1, 7))]
    overhead = rng.choice([0, 1, 16, 300])
    found = cut(lengths, overhead, budget=10_000)
    assert sorted(place for places in found for place in places) == list(range(len(lengths)))
    least = min(cost(lengths, way, overhead) for way in every_cut(list(range(len(lengths)))))
    assert cost(lengths, found, overhead) == least


def test_no_forward_is_above_the_budget_unless_one_text_is() -> None:
    lengths = [30] * 10 + [700]
    found = cut(lengths, overhead=1e6, budget=128)
    assert [len(places) for places in found] == [2, 4, 4, 1]
