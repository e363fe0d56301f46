"""Reports in the registry: kept whole beside the run, named by a version tag, believed only when both agree."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import ValidationError

from registry import store
from registry.report import Report

if TYPE_CHECKING:
    from registry.store import Client

FOLDER, FILE, PAGE = "reports", "report.json", "report.html"


def tag(graph_digest: str) -> str:
    """The version tag that says how the version did with this graph: `pass` or `fail`, and the report's sha256."""
    return f"report.{_hex(graph_digest)}"


def seal(report: Report) -> str:
    """That tag's value."""
    return f"{'pass' if report.passed else 'fail'} {report.sha256}"


def passed_in(tags: Mapping[str, str]) -> list[str]:
    """The graph digests in which a version passed, by its tags."""
    prefix = tag("")
    passed = [name for name, said in tags.items() if name.startswith(prefix) and said.startswith("pass ")]
    return ["sha256:" + name.removeprefix(prefix) for name in passed]


def place(graph_digest: str) -> str:
    """The artifact folder of the report on this graph, below the run's."""
    return f"{FOLDER}/{_hex(graph_digest)}"


def read(client: "Client", run_id: str, tags: Mapping[str, str], digest: str, graph_digest: str) -> Report | None:
    """The report on this pair, or None when the registry lacks it or holds something else in its place."""
    if tag(graph_digest) not in tags:
        return None
    text = store.read_artifact(client, run_id, f"{place(graph_digest)}/{FILE}")
    try:
        report = Report.model_validate_json(text or "")
    except ValidationError:
        return None
    right = report.digest == digest and report.graph_digest == graph_digest and seal(report) == tags[tag(graph_digest)]
    return report if right else None


def _hex(graph_digest: str) -> str:
    return graph_digest.removeprefix("sha256:")
