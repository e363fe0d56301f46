"""A report as one HTML page: no network, no script, light and dark, printable. All that is not ours is escaped."""

import json
from collections.abc import Sequence
from html import escape

from pydantic import JsonValue

from registry import report_plots
from registry.champion_gate import churn, slice_differences
from registry.evidence import Champion, Evidence
from registry.report import Report, Verdict
from registry.report_parts import card, table
from registry.report_service import service
from registry.report_style import STYLE

WORDS = {"pass": "pass", "fail": "fail", "not_enough_rows": "not enough rows"}


def render(report: Report, seen: Evidence, min_support: int) -> str:
    """The page. `seen`: the evidence that was judged, row by row; slices below `min_support` rows are left out."""
    outcome = "pass" if report.passed else "fail"
    title = f"{report.name} version {seen.identity.version}: {'passed' if report.passed else 'failed'}"
    body = [_top(report, seen, outcome), _chain(report), _gates(report.verdicts), _model(seen)]
    body += [_beside_champion(seen.champion, min_support), service(seen), _contract(seen), _numbers(report)]
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
        f"{len(report.verdicts)} gates ({escape(str(report.evidence.get('gates', 'default')))} set): {said}</p>"
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
        card(f"Macro-F1 on {model.rows:,} test rows", report_plots.bars(against, 1)),
        card("F1 by class", report_plots.bars(dict(sorted(classes.items(), key=lambda item: item[1])), 1)),
        card("Accuracy by slice", report_plots.bars(dict(sorted(slices.items(), key=lambda item: item[1])), 1))
        if slices
        else "",
        card("Truth and answers", report_plots.confusion(model)),
        card("Are the scores honest?", report_plots.reliability(model.reliability)),
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
    slices = table(("slice", "rows", "macro-F1 against the champion", "interval, all slices at once"), rows)
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
            f"{table(('text', 'truth', 'champion', 'this version'), examples)}</details>"
            if examples
            else ""
        )
    )


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
    behaviour = table(("behaviour", "text", "should be", "is"), failing) if failing else ""
    asked = table(("asked", "answers", "labels that differ", "largest difference of a score"), ways)
    requests = table(("request", "expected", "got", ""), rows)
    return (
        f"<h2>Answers</h2>{asked}{behaviour}"
        f"<details><summary>{len(seen.contract)} good and bad requests</summary>{requests}</details>"
    )


def _numbers(report: Report) -> str:
    rest = dict(report.evidence)
    said = rest.pop("last_words", None)
    numbers = escape(json.dumps(rest, indent=1, sort_keys=True, ensure_ascii=False))
    words = f"<details><summary>What Serve said</summary><pre>{escape(str(said))}</pre></details>" if said else ""
    return f"{words}<details><summary>Everything that was measured</summary><pre><code>{numbers}</code></pre></details>"
