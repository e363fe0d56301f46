"""Which texts of a batch share a forward: the cheapest cut of all."""

from collections.abc import Sequence

import numpy as np


def cut(lengths: Sequence[int], overhead: float, budget: int) -> list[list[int]]:
    """Places in a batch by forward, so that all forwards together cost least.

    A forward pads every text to its longest: it costs texts x longest tokens, and `overhead` tokens' time whatever is
    in it. No forward has more than `budget` padded tokens unless one text alone has. Exact, by dynamic programming over
    the texts in order of length, since an optimal forward holds neighbours in that order: O(n^2) for n texts.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    least, first = np.zeros(len(order) + 1), [0] * (len(order) + 1)
    for end in range(1, len(order) + 1):
        sizes = np.arange(end, 0, -1)
        tokens = sizes * lengths[order[end - 1]]
        costs = np.where((tokens > budget) & (sizes > 1), np.inf, least[:end] + overhead + tokens)
        first[end] = int(costs.argmin())
        least[end] = costs[first[end]]
    forwards, end = [], len(order)
    while end:
        forwards.append(order[first[end] : end])
        end = first[end]
    return forwards[::-1]
