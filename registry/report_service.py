"""The report's part on the service: pace, batches, strain."""

from collections.abc import Mapping
from html import escape
from statistics import median

from registry import report_plots
from registry.evidence import Evidence
from registry.report_parts import card, table
from registry.service_evidence import Drill

MB = 2**20


def service(seen: Evidence) -> str:
    """Small pictures and one row a round."""
    lag, pace, end = seen.latency, seen.throughput, seen.shutdown
    times = {
        "p50": median(lag.p50_ms),
        "p95": median(lag.p95_ms),
        "p99": median(lag.p99_ms),
        "bare model p50": median(lag.raw_p50_ms),
    }
    speeds = {"over HTTP": median(pace.served), "bare model": median(pace.raw)}
    strain, lists = seen.overload, sum(seen.overload.statuses.values())
    kinds = {"answered": strain.statuses.get("200", 0), "refused": strain.statuses.get("429", 0)}
    kinds["anything else"] = lists - sum(kinds.values())
    ends = {"answered": end.finished, "refused": end.refused, "lost": sum(end.lost.values())}
    cards = [
        card("One client waits, ms", report_plots.bars(times, max(times.values()), "{:.1f}")),
        card("Requests by what they took, ms", report_plots.distribution(lag.ms)),
        card(f"Texts a second, {pace.in_flight} in flight", report_plots.bars(speeds, max(speeds.values()), "{:.0f}")),
        card("Texts by the size of their forward", report_plots.histogram(seen.batching.texts_by_size)),
        card(
            "Size of a forward since the load began",
            report_plots.over_time(seen.batching.over_time, seen.batching.max_batch_size),
        ),
        card(
            f"Lists of {strain.texts:,} texts at once, {strain.limit:,} may queue",
            report_plots.bars({k: float(v) for k, v in kinds.items()}, max(lists, 1), "{:.0f}"),
        ),
        card(
            f"In flight when told to stop; down after {end.seconds:.1f} s",
            report_plots.bars({k: float(v) for k, v in ends.items()}, max(end.in_flight, 1), "{:.0f}"),
        ),
    ]
    if seen.memory:
        series = {name: [(s, size / MB) for s, size in one.over_time] for name, one in seen.memory.processes.items()}
        cards.append(card("Resident memory under steady load", report_plots.lines(series, "MB")))
    repeats = "".join(
        f"<tr><td>{number}</td><td>{p50:.1f}</td><td>{p95:.1f}</td><td>{p99:.1f}</td><td>{raw_ms:.1f}</td>"
        f"<td>{served:.0f}</td><td>{raw:.0f}</td><td>{served / raw:.0%}</td></tr>"
        for number, (p50, p95, p99, raw_ms, served, raw) in enumerate(
            zip(lag.p50_ms, lag.p95_ms, lag.p99_ms, lag.raw_p50_ms, pace.served, pace.raw, strict=True), start=1
        )
    )
    columns = ("round", "p50 ms", "p95 ms", "p99 ms", "bare p50 ms", "texts/s", "bare texts/s", "share")
    drills = _drills(seen.faults.drills) if seen.faults else ""
    return f"<h2>The service</h2><div class=cards>{''.join(cards)}</div>{table(columns, repeats)}{drills}"


def _drills(drills: Mapping[str, Drill]) -> str:
    """A row a fault: what was done, what it may cost, what it cost."""
    rows = "".join(
        f"<tr><td>{escape(one.what)}<br><span class=soft>{escape(one.rule)}</span></td>"
        f"<td>{escape(', '.join(f'{count:,} x {status}' for status, count in sorted(one.statuses.items())))}</td>"
        f"<td>{sum(one.lost.values()):,} of {one.may_lose:,}</td><td>{one.recovery_s:.1f}</td>"
        f"<td>{one.slowest_s:.1f}</td><td>{one.looks - one.untrue:,} of {one.looks:,}</td>"
        f"<td>{one.after.answers - one.after.labels_differ:,} of {one.after.answers:,}</td></tr>"
        for one in drills.values()
    )
    columns = ("fault, and what it may cost", "requests", "lost of allowed", "over after s", "longest wait s")
    return "<h2>What it lives through</h2>" + table((*columns, "/health true", "right afterwards"), rows)
