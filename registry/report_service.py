"""The report's part on the service: pace, batches, strain."""

from statistics import median

from registry import report_plots
from registry.evidence import Evidence
from registry.report_parts import card, table


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
    repeats = "".join(
        f"<tr><td>{number}</td><td>{p50:.1f}</td><td>{p95:.1f}</td><td>{p99:.1f}</td><td>{raw_ms:.1f}</td>"
        f"<td>{served:.0f}</td><td>{raw:.0f}</td><td>{served / raw:.0%}</td></tr>"
        for number, (p50, p95, p99, raw_ms, served, raw) in enumerate(
            zip(lag.p50_ms, lag.p95_ms, lag.p99_ms, lag.raw_p50_ms, pace.served, pace.raw, strict=True), start=1
        )
    )
    columns = ("round", "p50 ms", "p95 ms", "p99 ms", "bare p50 ms", "texts/s", "bare texts/s", "share")
    return f"<h2>The service</h2><div class=cards>{''.join(cards)}</div>{table(columns, repeats)}"
