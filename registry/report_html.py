"""A report as one HTML page: no network, no script, light and dark, printable. All that is not ours is escaped."""

import json
from collections.abc import Sequence
from html import escape
from statistics import median

from pydantic import JsonValue

from registry import report_plots
from registry.champion_gate import churn, slice_differences
from registry.evidence import Champion, Evidence
from registry.report import Report, Verdict
from registry.report_style import STYLE

WORDS = {"pass": "pass", "fail": "fail", "not_enough_rows": "not enough rows"}


def render(report: Report, seen: Evidence, min_support: int) -> str:
    """The page. `seen`: the evidence that was judged, row by row; slices below `min_support` rows are left out."""
    outcome = "pass" if report.passed else "fail"
    title = f"{report.name} version {seen.identity.version}: {'passed' if report.passed else 'failed'}"
    body = [_top(report, seen, outcome), _chain(report), _gates(report.verdicts), _model(seen)]
    body += [_beside_champion(seen.champion, min_support), _service(seen), _contract(seen), _numbers(report)]
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _top(report: Report, seen: Evidence, outcome: str) -> str:
    counts = {word: sum(v.outcome == key for v in report.verdicts) for key, word in WORDS.items()}
    said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    failures = "".join(f"<p><b>{escape(v.gate)}</b>: {escape(v.why)}</p>" for v in report.failures)
    verdict = "Passed: it may be promoted" if report.passed else "Failed: the champion stays"
    machine = report.evidence.get("machine")
    when = escape(_sentence(machine)) if isinstance(machine, dict) else ""
    return (
        f'<header class="{outcome}"><span class=badge>{WORDS[outcome]}</span><h1>{verdict}</h1>'
        f"<p>{escape(report.name)} version {escape(seen.identity.version)} \u00b7 "
        f"{len(report.verdicts)} gates: {said}</p>"
        f"{failures}<p class=soft>{when}</p></header>"
    )


def _sentence(machine: dict[str, JsonValue]) -> str:
    words = {"measured_at": "{}", "took_s": "took {} s", "cpus": "{} CPUs", "platform": "{}"}
    return " \u00b7 ".join(said.format(machine[name]) for name, said in words.items() if name in machine)


def _chain(report: Report) -> str:
    links = {
        "bundle as registered": report.digest,
        "as loaded by the replica": report.loaded_digest,
        "as answered by /health": report.answered_digest,
        "graph": report.graph_digest,
        "compared with champion": report.baseline_digest or "no champion yet",
    }
    rows = "".join(f"<tr><th scope=row>{name}</th><td class=digest>{escape(d)}</td></tr>" for name, d in links.items())
    return f"<h2>What was verified</h2><table><tbody>{rows}</tbody></table>"


def _gates(verdicts: Sequence[Verdict]) -> str:
    rows = "".join(
        f'<tr class="{v.outcome}"><td class=gate><b>{escape(v.gate)}</b> <span class=badge>{WORDS[v.outcome]}</span>'
        f"<br><span class=soft>{escape(v.question)}</span></td>"
        f"<td>{escape(v.why)}<br><span class=soft>limit: <code>{escape(_plain(v.limit))}</code></span></td></tr>"
        for v in verdicts
    )
    example = f"<code>{escape(verdicts[-1].reproduce)}</code>" if verdicts else ""
    return (
        f"<h2>Gates</h2><table><tbody>{rows}</tbody></table><p class=soft>Measure one again: {example}; of another "
        "version: <code>--version 3</code>. Not enough rows is doubt, not a fault: it is shown and does not block.</p>"
    )


def _plain(value: JsonValue) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_plain(item)}" for key, item in value.items())
    return f"{value:.4g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False).strip('"')


def _model(seen: Evidence) -> str:
    model = seen.offline
    classes = {name: one.f1 for name, one in model.classes.items() if one.f1 is not None}
    slices = {name: one.accuracy for name, one in model.slices.items()}
    against = {
        "this model": model.macro_f1,
        "TF-IDF": model.tfidf_macro_f1,
        "majority": model.majority_macro_f1,
    }
    cards = [
        _card(f"Macro-F1 on {model.rows:,} test rows", report_plots.bars(against, 1)),
        _card("F1 by class", report_plots.bars(dict(sorted(classes.items(), key=lambda item: item[1])), 1)),
        _card("Accuracy by slice", report_plots.bars(dict(sorted(slices.items(), key=lambda item: item[1])), 1))
        if slices
        else "",
        _card("Truth and answers", report_plots.confusion(model)),
        _card("Are the scores honest?", report_plots.reliability(model.reliability)),
    ]
    return f"<h2>The model</h2><div class=cards>{''.join(cards)}</div>"


def _beside_champion(rival: Champion | None, min_support: int) -> str:
    if rival is None or not rival.truth:
        return ""
    moved = churn(rival)
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{rival.slices.count(name):,}</td><td>{one.value:+.4f}</td>"
        f"<td>{one.low:+.4f} to {one.high:+.4f}</td></tr>"
        for name, one in slice_differences(rival, min_support).items()
    )
    slices = _table(("slice", "rows", "macro-F1 against the champion", "interval, all slices at once"), rows)
    examples = "".join(
        f'<tr class="{"pass" if one.ours == one.truth else "fail"}"><td>{escape(one.text)}</td>'
        f"<td>{escape(one.truth)}</td><td>{escape(one.theirs)}</td><td>{escape(one.ours)}</td></tr>"
        for one in rival.examples
    )
    return (
        f"<h2>Beside the champion</h2><p>{len(rival.truth):,} test rows: {moved.changed:,} answers change, "
        f"{moved.mended:,} to right, {moved.broken:,} to wrong.</p>"
        + (slices if rows else "")
        + (
            f"<details><summary>{len(rival.examples)} of the answers that change</summary>"
            f"{_table(('text', 'truth', 'champion', 'this version'), examples)}</details>"
            if examples
            else ""
        )
    )


def _table(columns: Sequence[str], rows: str) -> str:
    head = "".join(f"<th scope=col>{name}</th>" for name in columns)
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"


def _service(seen: Evidence) -> str:
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
        _card("One client waits, ms", report_plots.bars(times, max(times.values()), "{:.1f}")),
        _card(f"Texts a second, {pace.in_flight} in flight", report_plots.bars(speeds, max(speeds.values()), "{:.0f}")),
        _card("Texts by the size of their forward", report_plots.histogram(seen.batching.texts_by_size)),
        _card(
            f"Lists of {strain.texts:,} texts at once, {strain.limit:,} may queue",
            report_plots.bars({k: float(v) for k, v in kinds.items()}, max(lists, 1), "{:.0f}"),
        ),
        _card(
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
    return f"<h2>The service</h2><div class=cards>{''.join(cards)}</div>{_table(columns, repeats)}"


def _card(title: str, content: str) -> str:
    return f"<section><h3>{escape(title)}</h3>{content}</section>"


def _contract(seen: Evidence) -> str:
    rows = "".join(
        f'<tr class="{"pass" if case.ok else "fail"}"><td>{escape(case.name)}</td><td>{escape(case.expected)}</td>'
        f"<td>{escape(case.got)}</td><td><span class=badge>{'pass' if case.ok else 'fail'}</span></td></tr>"
        for case in seen.contract
    )
    ways = "".join(
        f"<tr><td>{escape(name)}</td><td>{way.answers:,}</td><td>{way.labels_differ:,}</td><td>{way.worst:.1e}</td></tr>"
        for name, way in seen.parity.ways.items()
    )
    failing = "".join(
        f"<tr class=fail><td>{escape(name)}</td><td>{escape(one.text)}</td><td>{escape(one.wanted)}</td>"
        f"<td>{escape(one.said)}</td></tr>"
        for name, kind in seen.behaviour.kinds.items()
        for one in kind.failing
    )
    behaviour = _table(("behaviour", "text", "should be", "is"), failing) if failing else ""
    asked = _table(("asked", "answers", "labels that differ", "largest difference of a score"), ways)
    table = _table(("request", "expected", "got", ""), rows)
    return (
        f"<h2>Answers</h2>{asked}{behaviour}"
        f"<details><summary>{len(seen.contract)} good and bad requests</summary>{table}</details>"
    )


def _numbers(report: Report) -> str:
    numbers = escape(json.dumps(report.evidence, indent=1, sort_keys=True, ensure_ascii=False))
    return f"<details><summary>Everything that was measured</summary><pre><code>{numbers}</code></pre></details>"
