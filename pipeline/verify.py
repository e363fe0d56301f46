"""Stage 8: the registered version, served by the real graph, measured and judged. Writes nothing to the registry.

With `--only GATE …` it measures some gates again, of this or of any version, says what they say, and writes nothing.
"""

import argparse
import contextlib
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from pydantic import JsonValue

from pipeline import candidate, measuring, offline, paths, stage
from pipeline.candidate import Candidate
from pipeline.offline import Answered
from pipeline.params import load, load_file
from registry import bundle, report_html
from registry.behaviour import Cases
from registry.bundle import VersionRef
from registry.errors import Refused
from registry.evidence import AboutModel, Champion, Evidence
from registry.files import write_json, write_text
from registry.gate_params import GateParams
from registry.gates import MODEL_GATES, SERVICE_GATES, judge
from registry.reference import Reference
from registry.report import Report, Verdict
from serving.graph import device_kind
from serving.measure import RUNTIME_NAME, Rows, bare_threads

# For gates and plots only; the report keeps what they say.
ROW_BY_ROW: dict[str, Any] = {
    "last_words": True,
    "offline": {"top_scores"},
    "champion": {"truth", "ours", "theirs", "slices"},
    "latency": {"ms"},
    "batching": {"over_time"},
}


class GateFails(Refused):
    """A gate that was measured again does not pass."""


def main(argv: list[str]) -> None:
    """The stage, or with --only some of its gates again."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.verify", description=__doc__)
    names = [*MODEL_GATES, *SERVICE_GATES]
    parser.add_argument("--only", nargs="+", choices=names, metavar="GATE", help=f"among {', '.join(names)}")
    parser.add_argument("--version", help="with --only: a version's number, not the one that was registered last")
    asked = parser.parse_args(argv)
    if asked.version is not None and not asked.only:
        parser.error("--version goes with --only: the stage verifies what was registered last")
    gates, cases = load("gates", GateParams), load_file(Cases, paths.BEHAVIOUR)
    if asked.only:
        again(asked.only, asked.version, gates, cases)
    else:
        verify(gates, cases)


def verify(gates: GateParams, cases: Cases) -> None:
    """Measure, judge, write the report, passing or failing. What cannot be measured leaves the old report."""
    began = time.monotonic()
    found = candidate.local()
    _introduce(found)
    rows, golden = offline.answered(found.contract.labels), offline.golden_texts()
    facts = offline.offline(found.contract.labels, RUNTIME_NAME, rows)
    with _reference(found) as reference, _answers_of(found.baseline, rows) as theirs:
        test = Rows(rows.texts, rows.answers)
        service = measuring.about_service(found, gates, reference, golden, test, cases, _say, lambda: _wait(theirs))
        champion = _against(found, rows, theirs)
    seen = Evidence(**dict(service), offline=facts, champion=champion)
    report = _report(found, gates, seen, time.monotonic() - began)
    write_text(paths.REPORT_HTML, report_html.render(report, seen, gates.min_support))
    write_json(paths.REPORT, report.model_dump(mode="json"))
    _print(report.verdicts)
    failed = ", ".join(verdict.gate for verdict in report.failures)
    took_s = time.monotonic() - began
    _say(f"{'failed: ' + failed if failed else 'passed'} after {took_s:.1f} s; the report: {paths.REPORT_HTML}")


def again(names: Sequence[str], number: str | None, gates: GateParams, cases: Cases) -> None:
    """Measure what these gates need and say their verdicts; no file, no registry changes.

    Raises GateFails when one fails, Refused when a model gate is asked about a version that `evaluate` did not see.
    """
    found = candidate.local() if number is None else candidate.numbered(number)
    _introduce(found)
    on_model = [name for name in MODEL_GATES if name in names]
    if number is not None and on_model:
        raise Refused(
            f"{', '.join(on_model)}: judged on what evaluate wrote down about the local bundle, which is not kept for "
            f"other versions; leave --version out, or ask for: {', '.join(SERVICE_GATES)}"
        )
    verdicts = [MODEL_GATES[name](_about_model(found), gates) for name in on_model]
    if on_service := [name for name in SERVICE_GATES if name in names]:
        golden = offline.golden_texts()
        with _reference(found) as reference:
            rows = Rows(golden, reference.alone(golden))
            service = measuring.about_service(found, gates, reference, golden, rows, cases, _say)
        verdicts += [SERVICE_GATES[name](service, gates) for name in on_service]
    _print(verdicts)
    if failed := [verdict.gate for verdict in verdicts if verdict.outcome == "fail"]:
        raise GateFails(f"{', '.join(failed)}: see above; nothing was written")


def _introduce(found: Candidate) -> None:
    _say(f"version {found.version.version} of {found.version.name}, {found.version.digest}, in {found.graph_digest}")


def _about_model(found: Candidate) -> AboutModel:
    rows = offline.answered(found.contract.labels)
    with _answers_of(found.baseline, rows) as theirs:
        champion = _against(found, rows, theirs)
    return AboutModel(offline=offline.offline(found.contract.labels, RUNTIME_NAME, rows), champion=champion)


@contextlib.contextmanager
def _reference(found: Candidate) -> Iterator[Reference]:
    """The registered bundle in a clean process. Raises BundleError when it does not load there."""
    with Reference(found.version, device_kind(found.serve), bare_threads(found.serve)) as reference:
        reference.wait_until_loaded()
        yield reference


@contextlib.contextmanager
def _answers_of(baseline: VersionRef | None, rows: Answered) -> Iterator["Future[list[str]] | None"]:
    """The champion's labels of the test rows, computed in a process of its own while Ray and the app start."""
    if baseline is None:
        yield None
        return
    with ThreadPoolExecutor(1) as pool, Reference(baseline, "cpu", os.cpu_count() or 1) as rival:
        yield pool.submit(rival.labels, rows.texts)


def _wait(theirs: "Future[list[str]] | None") -> None:
    if theirs:
        _say("waiting for the champion's answers to the test rows")
        theirs.result()


def _against(found: Candidate, rows: Answered, theirs: "Future[list[str]] | None") -> Champion | None:
    if found.baseline is None or theirs is None:
        return None
    its_labels = bundle.read_contract(found.baseline.folder).labels
    settings = found.registry.settings(found.baseline.digest)
    labels = found.contract.labels
    return offline.against(found.baseline.digest, its_labels, theirs.result(), settings, labels, rows)


def _report(found: Candidate, gates: GateParams, seen: Evidence, took_s: float) -> Report:
    machine: dict[str, JsonValue] = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "took_s": round(took_s, 1),
        "cpus": os.cpu_count(),
        "platform": platform.platform(),
    }
    evidence, verdicts = json.loads(seen.model_dump_json(exclude=ROW_BY_ROW)), judge(seen, gates)
    if any(verdict.outcome == "fail" for verdict in verdicts):
        evidence["last_words"] = seen.last_words
    loaded = sorted(set(seen.identity.loaded.values())) or ["none"]
    return Report(
        name=found.version.name,
        digest=found.version.digest,
        loaded_digest=", ".join(loaded),
        answered_digest=seen.identity.health["digest"],
        graph_digest=found.graph_digest,
        baseline_digest=found.baseline.digest if found.baseline else None,
        verdicts=verdicts,
        evidence={**evidence, "machine": machine, "gates": "default"},
    )


def _print(verdicts: Sequence[Verdict]) -> None:
    for verdict in verdicts:
        print(f"verify: {verdict.outcome:<15} {verdict.gate:<11} {verdict.why}", flush=True)


def _say(what: str) -> None:
    print(f"verify: {what}", flush=True)


if __name__ == "__main__":
    stage.run("verify", lambda: main(sys.argv[1:]))
