"""Stage 8: the registered version, served by the real graph, measured and judged. Writes nothing to the registry.

With `--only GATE …` it measures some gates again, of this or of any version, says what they say, and writes nothing.
"""

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from pipeline import candidate, measuring, offline, paths, stage
from pipeline.candidate import Candidate
from pipeline.judging import asking, introduce, report_on, say, show
from pipeline.offline import Answered
from pipeline.params import load, load_file
from registry import bundle, report_html
from registry.behaviour import Cases
from registry.bundle import VersionRef
from registry.errors import Refused
from registry.evidence import AboutModel, Champion, Evidence
from registry.files import write_json, write_text
from registry.gate_params import GateParams
from registry.gates import FULL, MODEL_GATES, SERVICE_GATES, full_set, judge
from registry.reference import Reference
from registry.runtimes import Engine, NotKept
from serving.engine import engine_of
from serving.measure import Rows
from serving.params import ServeParams


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
    introduce(found)
    rows = offline.answered(found.contract.labels, found.engine.runtime)
    facts = offline.offline(found.contract.labels, found.engine.runtime, rows)
    test = Rows(rows.texts, rows.answers)
    with (
        asking(found, gates, cases, full_set(gates), test) as inquiry,
        _answers_of(found.baseline, found.serve, rows) as theirs,
    ):
        service = measuring.about_service(found, gates, inquiry, lambda: _wait(theirs))
        champion = _against(found, rows, theirs)
    seen = Evidence(**dict(service), offline=facts, champion=champion)
    report = report_on(found, gates, seen, judge(seen, gates), time.monotonic() - began)
    write_text(paths.REPORT_HTML, report_html.render(report, seen, gates.min_support))
    write_json(paths.REPORT, report.model_dump(mode="json"))
    show(report.verdicts)
    failed = ", ".join(verdict.gate for verdict in report.failures)
    took_s = time.monotonic() - began
    say(f"{'failed: ' + failed if failed else 'passed'} after {took_s:.1f} s; the report: {paths.REPORT_HTML}")


def again(names: Sequence[str], number: str | None, gates: GateParams, cases: Cases) -> None:
    """Measure what these gates need and say their verdicts; no file, no registry changes.

    Raises GateFails when one fails, Refused when a model gate is asked about a version that `evaluate` did not see.
    """
    found = candidate.local() if number is None else candidate.numbered(number)
    introduce(found)
    on_model = [name for name in MODEL_GATES if name in names]
    if number is not None and on_model:
        raise Refused(
            f"{', '.join(on_model)}: judged on what evaluate wrote down about the local bundle, which is not kept for "
            f"other versions; leave --version out, or ask for: {', '.join(SERVICE_GATES)}"
        )
    verdicts = [MODEL_GATES[name](_about_model(found), gates) for name in on_model]
    if on_service := [name for name in SERVICE_GATES if name in names]:
        with asking(found, gates, cases, FULL.intersection(on_service)) as inquiry:
            service = measuring.about_service(found, gates, inquiry)
        verdicts += [SERVICE_GATES[name](service, gates) for name in on_service]
    show(verdicts)
    if failed := [verdict.gate for verdict in verdicts if verdict.outcome == "fail"]:
        raise GateFails(f"{', '.join(failed)}: see above; nothing was written")


def _about_model(found: Candidate) -> AboutModel:
    runtime = found.engine.runtime
    rows = offline.answered(found.contract.labels, runtime)
    with _answers_of(found.baseline, found.serve, rows) as theirs:
        champion = _against(found, rows, theirs)
    return AboutModel(offline=offline.offline(found.contract.labels, runtime, rows), champion=champion)


def engine_of_champion(folder: Path, serve: ServeParams) -> Engine:
    """The champion as it would answer in this graph; one that lacks the precision asked for answers in its fastest."""
    try:
        engine = engine_of(folder, serve)
    except NotKept:
        engine = engine_of(folder, serve.model_copy(update={"precision": "auto"}))
    return replace(engine, threads=os.cpu_count() or 1)


@contextlib.contextmanager
def _answers_of(
    baseline: VersionRef | None, serve: ServeParams, rows: Answered
) -> Iterator["Future[list[str]] | None"]:
    """The champion's labels of the test rows, computed in a process of its own while Ray and the app start."""
    if baseline is None:
        yield None
        return
    with ThreadPoolExecutor(1) as pool, Reference(baseline, engine_of_champion(baseline.folder, serve)) as rival:
        yield pool.submit(rival.labels, rows.texts)


def _wait(theirs: "Future[list[str]] | None") -> None:
    if theirs:
        say("waiting for the champion's answers to the test rows")
        theirs.result()


def _against(found: Candidate, rows: Answered, theirs: "Future[list[str]] | None") -> Champion | None:
    if found.baseline is None or theirs is None:
        return None
    its_labels = bundle.read_contract(found.baseline.folder).labels
    settings = found.registry.settings(found.baseline.digest)
    labels = found.contract.labels
    return offline.against(found.baseline.digest, its_labels, theirs.result(), settings, labels, rows)


if __name__ == "__main__":
    stage.run("verify", lambda: main(sys.argv[1:]))
