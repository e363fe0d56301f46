"""Which texts of a batch share a forward."""

from collections.abc import Sequence


def cut(lengths: Sequence[int]) -> list[list[int]]:
    """Places in a batch, by forward: all in one, or the long ones apart when that halves the tokens computed.

    A forward pads every text to its longest (tokens = texts x longest): one of 256 tokens among thirty short ones makes
    it ten times as slow. No finer: a forward costs something too, and batches should stay batches.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    longest = lengths[order[-1]]
    split = [k * lengths[order[k - 1]] + (len(order) - k) * longest for k in range(1, len(order))]
    if not split or 2 * min(split) > len(order) * longest:
        return [list(range(len(lengths)))]
    at = split.index(min(split)) + 1
    return [order[:at], order[at:]]
