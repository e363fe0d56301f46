"""Small pictures for the report: inline SVG and tables that need no script, no network and no colour vision."""

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise

import numpy as np

from registry.evidence import Bin, Offline

MOST_LABELS = 12
"""Above this a confusion matrix cannot be read; the commonest mistakes are listed instead."""
MOST_MISTAKES = 15
MOST_BARS, MOST_BINS, MOST_POINTS = 24, 8, 300
SIZE, EDGE = 240, 34


def confusion(model: Offline) -> str:
    """Truth against answer as a table, or the commonest mistakes when there are many labels."""
    if len(model.labels) > MOST_LABELS:
        return _mistakes(model)
    head = "".join(f"<th scope=col>{escape(label)}</th>" for label in model.labels)
    rows = []
    for label, counts in zip(model.labels, model.confusion, strict=True):
        total = max(sum(counts), 1)
        cells = "".join(f'<td style="--share:{100 * n / total:.0f}%">{n:,}</td>' for n in counts)
        rows.append(f"<tr><th scope=row>{escape(label)}</th>{cells}</tr>")
    corner = "<th scope=col>truth \u2193 answer \u2192</th>"
    return f"<table class=confusion><thead><tr>{corner}{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _mistakes(model: Offline) -> str:
    found = sorted(
        (-count, model.labels[truth], model.labels[answer])
        for truth, counts in enumerate(model.confusion)
        for answer, count in enumerate(counts)
        if truth != answer and count
    )
    rows = "".join(
        f"<tr><td>{escape(truth)}</td><td>{escape(answer)}</td><td>{-count:,}</td></tr>"
        for count, truth, answer in found[:MOST_MISTAKES]
    )
    head = "<tr><th scope=col>truth</th><th scope=col>answer</th><th scope=col>rows</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def reliability(bins: Sequence[Bin]) -> str:
    """How often answers are right against how sure they were: on the diagonal the scores are honest."""
    most = max((one.rows for one in bins), default=1)
    dots = "".join(
        f'<circle cx="{_x(one.score):.1f}" cy="{_y(one.accuracy):.1f}" r="{3 + 7 * (one.rows / most) ** 0.5:.1f}">'
        f"<title>{one.rows:,} rows: score {one.score:.2f}, right {one.accuracy:.2f}</title></circle>"
        for one in bins
    )
    line = " ".join(f"{_x(one.score):.1f},{_y(one.accuracy):.1f}" for one in bins)
    ticks = "".join(
        f'<text x="{_x(t):.1f}" y="{SIZE - EDGE + 16}" text-anchor="middle">{t:g}</text>'
        f'<text x="{EDGE - 6}" y="{_y(t) + 4:.1f}" text-anchor="end">{t:g}</text>'
        for t in (0, 0.5, 1)
    )
    return (
        f'<svg viewBox="0 0 {SIZE} {SIZE}" role="img" aria-label="reliability curve">'
        f'<rect class="frame" x="{EDGE}" y="{_y(1):.1f}" width="{_x(1) - EDGE:.1f}" height="{_y(0) - _y(1):.1f}"/>'
        f'<line class="ideal" x1="{_x(0):.1f}" y1="{_y(0):.1f}" x2="{_x(1):.1f}" y2="{_y(1):.1f}"/>'
        f'<polyline class="line" points="{line}"/><g class="dots">{dots}</g>{ticks}'
        f'<text x="{SIZE / 2 + 12}" y="{SIZE - 4}" text-anchor="middle">score</text>'
        f'<text x="{EDGE + 6}" y="10">right</text>'
        "</svg>"
    )


def histogram(texts_by_size: Mapping[int, int]) -> str:
    """How many texts rode in forwards of which size, in at most MOST_BINS ranges."""
    largest = max(texts_by_size, default=1)
    width = -(-largest // MOST_BINS)
    ranges: dict[str, float] = {}
    for low in range(1, largest + 1, width):
        high = min(low + width - 1, largest)
        name = f"{low}\u2013{high}" if high > low else str(low)
        ranges[name] = sum(texts for size, texts in texts_by_size.items() if low <= size <= high)
    return bars(ranges, max(ranges.values()), "{:,.0f}")


def distribution(ms: Sequence[float]) -> str:
    """How long requests took: a bar per range of milliseconds, up to the slowest."""
    counts, edges = np.histogram(ms, bins=MOST_BINS)
    ranges = {
        f"{low:.1f}\u2013{high:.1f}": float(count) for count, (low, high) in zip(counts, pairwise(edges), strict=True)
    }
    return bars(ranges, max(ranges.values()), "{:.0f}")


def over_time(points: Sequence[tuple[float, int]], largest: int) -> str:
    """The size of forwards against the seconds since the load began; at most MOST_POINTS of them."""
    shown = points[:: max(1, len(points) // MOST_POINTS)]
    seconds = max((second for second, _ in shown), default=1.0)
    dots = "".join(
        f'<circle cx="{_x(second / seconds):.1f}" cy="{_y(size / largest):.1f}" r="2"/>' for second, size in shown
    )
    ticks = f'<text x="{_x(1):.1f}" y="{SIZE - EDGE + 16}" text-anchor="end">{seconds:.1f} s</text>'
    ticks += f'<text x="{EDGE - 6}" y="{_y(1) + 4:.1f}" text-anchor="end">{largest}</text>'
    return (
        f'<svg viewBox="0 0 {SIZE} {SIZE}" role="img" aria-label="batch sizes over time">'
        f'<rect class="frame" x="{EDGE}" y="{_y(1):.1f}" width="{_x(1) - EDGE:.1f}" height="{_y(0) - _y(1):.1f}"/>'
        f'<g class="dots">{dots}</g>{ticks}'
        f'<text x="{EDGE + 6}" y="10">texts</text></svg>'
    )


def lines(series: Mapping[str, Sequence[tuple[float, float]]], unit: str) -> str:
    """One line a name against seconds, from 0 to the largest value of all."""
    longest = max((second for points in series.values() for second, _ in points), default=1.0) or 1.0
    highest = max((value for points in series.values() for _, value in points), default=1.0) or 1.0
    drawn = "".join(
        f'<polyline class="line" points="{_points(points, longest, highest)}"><title>{escape(name)}</title></polyline>'
        for name, points in series.items()
    )
    ticks = f'<text x="{_x(1):.1f}" y="{SIZE - EDGE + 16}" text-anchor="end">{longest:.0f} s</text>'
    ticks += f'<text x="{EDGE - 6}" y="{_y(1) + 4:.1f}" text-anchor="end">{highest:.0f}</text>'
    ticks += f'<text x="{EDGE - 6}" y="{_y(0) + 4:.1f}" text-anchor="end">0</text>'
    return (
        f'<svg viewBox="0 0 {SIZE} {SIZE}" role="img" aria-label="{escape(", ".join(series))} over time">'
        f'<rect class="frame" x="{EDGE}" y="{_y(1):.1f}" width="{_x(1) - EDGE:.1f}" height="{_y(0) - _y(1):.1f}"/>'
        f'{drawn}{ticks}<text x="{EDGE + 6}" y="10">{escape(unit)}</text></svg>'
    )


def _points(points: Sequence[tuple[float, float]], longest: float, highest: float) -> str:
    return " ".join(f"{_x(second / longest):.1f},{_y(value / highest):.1f}" for second, value in points)


def _x(share: float) -> float:
    return EDGE + share * (SIZE - 1.4 * EDGE)


def _y(share: float) -> float:
    return SIZE - EDGE - share * (SIZE - 1.4 * EDGE)


def bars(values: Mapping[str, float], full: float, shown: str = "{:.3f}") -> str:
    """Named bars; `full` is the value of a bar as wide as the table, `shown` how a value is written."""
    rows = "".join(
        f'<tr><th scope=row title="{escape(name)}">{escape(name)}</th><td class=bar>'
        f'<span style="width:{100 * min(value / full, 1) if full else 0:.1f}%"></span></td>'
        f"<td>{shown.format(value)}</td></tr>"
        for name, value in list(values.items())[:MOST_BARS]
    )
    more = len(values) - MOST_BARS
    rest = f"<tr><td colspan=3>and {more:,} more</td></tr>" if more > 0 else ""
    return f"<table class=bars><tbody>{rows}{rest}</tbody></table>"
