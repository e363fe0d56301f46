"""A report joins its version in the registry: the files beside the run, a tag that names them, a link for people."""

from pathlib import Path

from registry import describe, reports
from registry.files import dump_json
from registry.locking import writing
from registry.report import Report
from registry.versions import Known, Registry


def attach(registry: Registry, report: Report, page: Path) -> bool:
    """Keep a report, passing or failing, with its version; False when nothing is to be kept.

    That is: the registry has exactly this one, or the champion's passing one for the same pair, which production
    serves by and a failure measured later, perhaps on a busy machine, does not take away.
    """
    with writing(registry.home):
        known, client = registry.registered(report.digest), registry.client
        kept = registry.report(report.digest, report.graph_digest)
        reigns = registry.alias() == known.version
        if kept == report or (kept and kept.passed and reigns and not report.passed):
            return False
        folder = reports.place(report.graph_digest)
        client.log_text(known.run_id, dump_json(report.model_dump(mode="json")), f"{folder}/{reports.FILE}")
        client.log_artifact(known.run_id, str(page), folder)
        tag, value = reports.tag(report.graph_digest), reports.seal(report)
        client.set_model_version_tag(known.name, known.version, tag, value)
        _link(registry, known, {**known.tags, tag: value})
    return True


def _link(registry: Registry, known: Known, tags: dict[str, str]) -> None:
    """Rewrite the description's list of reports from the version's tags."""
    client = registry.client
    run = client.get_run(known.run_id).info
    artifacts = f"#/experiments/{run.experiment_id}/runs/{run.run_id}/artifacts"
    lines = []
    for name, value in sorted(tags.items()):
        if name.startswith("report."):
            graph = "sha256:" + name.removeprefix("report.")
            lines.append(
                f"* [{value.split()[0]}]({artifacts}/{reports.place(graph)}/{reports.PAGE}) in graph `{graph}`"
            )
    version = client.get_model_version(known.name, known.version)
    text = describe.with_reports(version.description or "", lines)
    client.update_model_version(known.name, known.version, text)
