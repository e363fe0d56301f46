"""Stage 9: the alias `champion` moves to the version that passed; the only stage that refuses."""

import argparse
import os
import sys
from functools import partial

from pipeline import paths, stage
from pipeline.params import load
from registry.alias import moved_by_hand
from registry.attaching import attach
from registry.files import read_json
from registry.params import RegistryParams
from registry.promotion import PromotionRefused, promote
from registry.report import Report
from registry.versions import open_registry
from serving.graph import graph_digest
from serving.params import ServeParams


def main(argv: list[str]) -> None:
    """Keep the report in the registry, then promote what it is about. Exits 1 when it may not be promoted."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.promote", description=__doc__)
    parser.add_argument("--again", action="store_true", help="let a past champion return")
    parser.add_argument("--reason", help="why; kept in the journal")
    arguments = parser.parse_args(argv)
    if arguments.again != bool(arguments.reason):
        parser.error("--again and --reason go together")

    registry = open_registry(paths.ROOT, load("registry", RegistryParams))
    graph_now = partial(graph_digest, load("serve", ServeParams))
    report = _report(graph_now())
    if attach(registry, report, paths.REPORT_HTML):
        print(f"promote: the {'passing' if report.passed else 'failing'} report is kept with its version", flush=True)
    if by_hand := moved_by_hand(registry):
        print(f"promote: {by_hand}", flush=True)
    if experiment := os.environ.get("DVC_EXP_NAME"):
        judged = "passed" if report.passed else f"failed {', '.join(verdict.gate for verdict in report.failures)}"
        print(f"promote: experiment {experiment} {judged}; experiments are not promoted: dvc exp apply, then dvc repro")
        return
    print(f"promote: {promote(registry, report, graph_now, arguments.reason)}", flush=True)


def _report(graph_now: str) -> Report:
    """The local report, when it is about the version and the graph that stand here."""
    version, report = read_json(paths.VERSION), Report.model_validate(read_json(paths.REPORT))
    found = (report.digest, report.graph_digest)
    if found != (version["digest"], version["graph_digest"]) or report.graph_digest != graph_now:
        raise PromotionRefused(
            f"{paths.REPORT} is about bundle {report.digest} in graph {report.graph_digest}; here are bundle "
            f"{version['digest']} and graph {graph_now}. Verify what stands here: dvc repro"
        )
    return report


if __name__ == "__main__":
    stage.run("promote", lambda: main(sys.argv[1:]))
