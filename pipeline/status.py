"""python -m pipeline status: the chain from data to champion in one screen, what is stale, and what mends it."""

import argparse
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from pipeline import fetch, paths
from pipeline.params import load
from registry import bundle, journal
from registry.alias import moved_by_hand
from registry.errors import Refused
from registry.files import read_json
from registry.params import RegistryParams
from registry.report import Report
from registry.versions import Known, Registry, open_registry
from training.params import DataParams

Tree = dict[str, Any]
# They always run, since what they look at is not DVC's; `always changed` alone is no news.
ALWAYS = "always changed"
MEND = "the candidate failed verification; read the report, mend the data or the params, then dvc repro"


def main(argv: list[str]) -> None:
    """Print the status for people, or with --json for programs."""
    parser = argparse.ArgumentParser(prog="python -m pipeline status", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object, absent things null")
    arguments = parser.parse_args(argv)
    # What the registry has to say on the way (that the project moved, that it waits) is not the answer.
    with contextlib.redirect_stdout(sys.stderr):
        registry = open_registry(paths.ROOT, load("registry", RegistryParams))
        status = collect(registry)
    print(json.dumps(status, indent=2, ensure_ascii=False) if arguments.json else _screen(status, registry))


def collect(registry: Registry) -> Tree:
    """The status as one tree: champion, candidate, report, chain, stale."""
    report = _report()
    version = read_json(paths.VERSION) if paths.VERSION.is_file() else None
    candidate = registry.known(version["digest"]) if version else None
    stale: list[Tree] = [*_source(), *_stale()]
    champion = None
    try:
        champion = registry.known_champion()
    except Refused as error:
        command = "python -m pipeline rollback --to VERSION --reason '…'"
        stale.append({"stage": "promote", "why": str(error), "command": command})
    entries = registry.journal() if registry.home.exists else []
    if registry.home.exists and (by_hand := moved_by_hand(registry)):
        stale.append({"stage": "promote", "why": by_hand, "command": "dvc repro"})
    if version and candidate is None:
        why = f"the registry does not hold {version['digest']}"
        stale.append({"stage": "register", "why": why, "command": "dvc repro"})
    return {
        "champion": _named(champion, journal.graph_of(entries, champion.digest) if champion else None),
        "candidate": _named(candidate, version["graph_digest"] if version else None),
        "report": report and {"passed": report.passed, "gates": {v.gate: v.outcome for v in report.verdicts}},
        "chain": {
            "bundle": _digest(paths.BUNDLE),
            "registered": candidate.digest if candidate else None,
            "verified": report.digest if report else None,
            "promoted": champion.digest if champion else None,
        },
        "stale": stale,
    }


def _named(known: Known | None, graph_digest: str | None) -> Tree | None:
    if known is None:
        return None
    return {"name": known.name, "version": known.version, "digest": known.digest, "graph_digest": graph_digest}


def _digest(folder: Path) -> str | None:
    return bundle.read_manifest(folder).digest if folder.is_dir() else None


def _report() -> Report | None:
    return Report.model_validate(read_json(paths.REPORT)) if paths.REPORT.is_file() else None


def _source() -> list[Tree]:
    """Whether the rows changed where they come from, which DVC does not watch."""
    source = load("data", DataParams).source
    try:
        changed = fetch.is_stale(source, paths.RAW)
    except Refused as error:
        return [{"stage": "fetch", "why": str(error), "command": "mend data.source in params.yaml"}]
    return [{"stage": "fetch", "why": f"the rows of {source} changed", "command": "dvc repro"}] if changed else []


def _stale() -> list[Tree]:
    """What DVC would run again, and why; also when DVC cannot say."""
    command = [sys.executable, "-m", "dvc", "status", "--json"]
    done = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True, env=os.environ, check=False)
    if done.returncode:
        return [{"stage": "all", "why": done.stderr.strip().splitlines()[-1:], "command": "dvc status"}]
    found = []
    for stage, causes in json.loads(done.stdout or "{}").items():
        why = [_cause(cause) for cause in causes if cause != ALWAYS]
        if why:
            found.append({"stage": stage, "why": "; ".join(why), "command": f"dvc repro {stage}"})
    return found


def _cause(cause: Tree | str) -> str:
    if isinstance(cause, str):
        return cause
    return "; ".join(f"{kind}: {', '.join(map(str, items))}" for kind, items in cause.items())


def _screen(status: Tree, registry: Registry) -> str:
    chain, champion = status["chain"], status["champion"]
    lines = ["", *_quality(), *_gates(status["report"]), "chain"]
    lines += [f"  {step:<12}{digest or '-'}" for step, digest in chain.items()]
    if champion:
        lines.append(
            f"champion      {champion['name']} version {champion['version']}, graph {champion['graph_digest']}"
        )
    else:
        refused = status["report"] and not status["report"]["passed"]
        lines.append(f"champion      none yet: {MEND if refused else 'dvc repro'}")
    whole = len(set(chain.values())) == 1 and champion
    lines.append(f"one digest    {'yes: what is promoted is what was verified' if whole else 'NO, see above'}")
    lines += [
        f"stale         {item['stage']}: {item['why']}\n              {item['command']}" for item in status["stale"]
    ]
    lines += ["", f"registry      {registry.home.shown}", f"report        {paths.REPORT_HTML.relative_to(paths.ROOT)}"]
    if champion:
        lines += ["next          make serve: answer with the champion · make ui: its lineage in MLflow"]
    lines += [""]
    return "\n".join(lines)


def _quality() -> list[str]:
    if not paths.METRICS.is_file():
        return []
    metrics = read_json(paths.METRICS)
    lines = [f"test split    {'':<14}accuracy  macro-F1"]
    for name, row in (metrics["runtimes"] | metrics["baselines"]).items():
        lines.append(f"              {name:<14}{row['accuracy']:>8.4f}{row['macro_f1']:>10.4f}")
    return lines


def _gates(report: Tree | None) -> list[str]:
    if report is None:
        return ["report        none yet: dvc repro verify"]
    by_outcome: dict[str, list[str]] = {}
    for gate, outcome in report["gates"].items():
        by_outcome.setdefault(outcome, []).append(gate)
    lines = [f"report        {'passed' if report['passed'] else 'FAILED'}"]
    return lines + [f"  {outcome:<17}{', '.join(gates)}" for outcome, gates in by_outcome.items()]
