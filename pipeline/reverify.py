"""A version that passed in another graph, verified in the graph as it would be served now: for rollback."""

import time

from pipeline import candidate, measuring, paths
from pipeline.judging import asking, introduce, report_on, say, show
from pipeline.params import load, load_file
from registry import report_html
from registry.behaviour import Cases
from registry.errors import Refused
from registry.evidence import Evidence, Offline
from registry.files import write_text
from registry.gate_params import GateParams
from registry.gates import MODEL_GATES, full_set, judge_service
from registry.report import Report
from registry.runtimes import RUNTIMES

PAGE = paths.REPORT_HTML.parent / "rollback.html"


class OtherRuntime(Refused):
    """What was judged of a version is of another runtime than the one that would answer."""


def reverify(number: str, earlier: Report) -> Report:
    """Measure its service anew; its page is written to PAGE.

    What `earlier` says of the model holds: the bytes are the same and so is the runtime, only the graph is another.
    Raises OtherRuntime when today's graph would answer in another one, VerifyFault when it cannot be measured.
    """
    began, gates, cases = time.monotonic(), load("gates", GateParams), load_file(Cases, paths.BEHAVIOUR)
    found = candidate.numbered(number)
    refuse_other_runtime(number, earlier, found.engine.runtime)
    introduce(found)
    of_old = Offline.model_validate({**_object(earlier.evidence["offline"]), "top_scores": ()})
    with asking(found, gates, cases, full_set(gates)) as inquiry:
        service = measuring.about_service(found, gates, inquiry)
    seen = Evidence(**dict(service), offline=of_old, champion=None)
    on_model = [verdict for verdict in earlier.verdicts if verdict.gate in MODEL_GATES]
    verdicts = (*on_model, *judge_service(seen, gates))
    report = report_on(found, gates, seen, verdicts, time.monotonic() - began)
    report = report.model_copy(
        update={
            "baseline_digest": earlier.baseline_digest,
            "evidence": {
                **report.evidence,
                "on_the_model": f"as in report {earlier.sha256}, graph {earlier.graph_digest}",
            },
        }
    )
    write_text(PAGE, report_html.render(report, seen, gates.min_support))
    show(report.verdicts)
    say(f"{'passed' if report.passed else 'failed'} after {time.monotonic() - began:.1f} s; the report: {PAGE}")
    return report


def refuse_other_runtime(number: str, earlier: Report, runtime: str) -> None:
    """Raises OtherRuntime unless the model was judged in the runtime that would answer now."""
    judged = str(_object(earlier.evidence["parity"])["runtime"])
    if judged != runtime:
        raise OtherRuntime(
            f"version {number} was verified in {judged}, and today's params would serve it in {runtime}, in which its "
            f"quality was never judged. Set serve.precision: {RUNTIMES[judged].precision}."
        )


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
