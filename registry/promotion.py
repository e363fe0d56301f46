"""Who is champion: moves the alias, only with a report, only from whom the report expected, each move in the journal.

Among processes that share the home's lock a move is exclusive. MLflow has no compare-and-set, so two machines on one
server can still race: both read back, and the one whose move was overwritten is told.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from registry import describe, home, journal, reports
from registry.errors import Refused
from registry.files import dump_json
from registry.journal import Entry
from registry.report import Report
from registry.runs import user
from registry.versions import CHAMPION, Known, Registry, RegistryError

AGAIN = "python -m pipeline.promote --again --reason '…'"


class PromotionRefused(Refused):
    """The champion stays: the report fails, is about something else, or the champion is not the one it expected."""


def attach(registry: Registry, report: Report, page: Path) -> bool:
    """Keep a report, passing or failing, with its version; False when nothing is to be kept.

    That is: the registry has exactly this one, or the champion's passing one for the same pair, which production
    serves by and a failure measured later, perhaps on a busy machine, does not take away.
    """
    with home.writing(registry.home):
        known, client = _registered(registry, report.digest), registry.client
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


def promote(registry: Registry, report: Report, graph_digest: Callable[[], str], again: str | None = None) -> str:
    """Make the version that a passing report is about the champion; what was done, in a line.

    `again`: why a past champion may return. Raises PromotionRefused, with the remedy, and leaves the champion alone.
    """
    with home.writing(registry.home):
        settle(registry)
        known, champion = _registered(registry, report.digest), registry.known_champion()
        entries = registry.journal()
        _require_passed(report)
        reigns = champion is not None and champion.digest == known.digest
        if not reigns and not again:
            _require_new(entries, known)
        done = reigns and journal.graph_of(entries, known.digest) == report.graph_digest
        if not done:
            _require_expected(report, champion, registry.known_baseline(known.digest), entries)
        registry.ref(known)
        _require_graph(report, graph_digest())
        if done:
            return f"nothing to do: version {known.version} ({known.digest}) is the champion, verified as it is served"
        action = "regraph" if reigns else "promote"
        _move(registry, champion, known, action, report.graph_digest, report.sha256, again or "")
    return f"{CHAMPION} is version {known.version} of {known.name} ({known.digest}), graph {report.graph_digest}"


def rollback(registry: Registry, to: str | None, graph_digest: str, reason: str, force: bool) -> str:
    """Make an earlier version champion again: `to`, or the one that the champion replaced; what was done, in a line.

    Raises PromotionRefused when no passing report is about its bytes in the graph as it would be served now, unless
    `force`; damaged bytes are never made champion.
    """
    with home.writing(registry.home):
        settle(registry)
        champion = _champion_if_whole(registry)
        target = registry.numbered(to) if to else _previous(registry, champion)
        if champion and target.version == champion.version:
            return f"nothing to do: version {target.version} is the champion"
        registry.ref(target)
        report = registry.report(target.digest, graph_digest)
        passed = report if report and report.passed else None
        if passed is None and not force:
            raise PromotionRefused(_unverified(registry, target, graph_digest, report))
        _move(registry, champion, target, "rollback", graph_digest, passed.sha256 if passed else None, reason)
    unsafe = "" if passed else "; it is not verified as it would be served now, so that serve asks for --unverified"
    return f"{CHAMPION} is version {target.version} of {target.name} ({target.digest}){unsafe}"


def settle(registry: Registry) -> None:
    """Finish or undo a move that was killed between its writes."""
    alias = registry.alias()
    for number, entry in registry.moves().items():
        if entry.settled:
            continue
        if entry.to.version == alias:
            _write(registry, number, entry.model_copy(update={"settled": True}))
            print(f"registry: finished what had been interrupted: {entry}", flush=True)
        else:
            registry.client.delete_registered_model_tag(registry.name, journal.key(number))
            print(f"registry: undid what had been interrupted: {entry}", flush=True)


def moved_by_hand(registry: Registry) -> str | None:
    """What to say when the alias is not where the journal left it; None when it is."""
    entries, alias = registry.journal(), registry.alias()
    last = entries[-1].to.version if entries else None
    if alias == last:
        return None
    return (
        f"the alias {CHAMPION} points to version {alias or 'nothing'}, the journal's last move made it "
        f"{last or 'nothing'}: somebody moved it outside of this pipeline"
    )


def _move(
    registry: Registry,
    champion: Known | None,
    to: Known,
    action: str,
    graph_digest: str,
    report_sha256: str | None,
    reason: str,
) -> None:
    """Journal, alias, journal: killed between any two, `settle` finishes or undoes it."""
    entry = Entry.model_validate(
        {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "by": user(),
            "action": action,
            "from": champion.named if champion else None,
            "to": to.named,
            "graph_digest": graph_digest,
            "report_sha256": report_sha256,
            "reason": reason,
        }
    )
    before = registry.alias()
    number = max(registry.moves(), default=0) + 1
    _write(registry, number, entry)
    if registry.alias() != before or registry.moves().get(number) != entry:
        raise _raced(registry)
    registry.client.set_registered_model_alias(registry.name, CHAMPION, to.version)
    if registry.alias() != to.version or registry.moves().get(number) != entry:
        raise _raced(registry)
    _write(registry, number, entry.model_copy(update={"settled": True}))
    registry.client.update_registered_model(registry.name, describe.model(registry.journal()))


def _write(registry: Registry, number: int, entry: Entry) -> None:
    registry.client.set_registered_model_tag(registry.name, journal.key(number), journal.write(entry))


def _raced(registry: Registry) -> PromotionRefused:
    last = registry.journal()[-1:]
    return PromotionRefused(
        f"the champion was moved by somebody else meanwhile ({last[0] if last else '?'}): dvc repro"
    )


def _registered(registry: Registry, digest: str) -> Known:
    known = registry.known(digest)
    if known is None:
        raise RegistryError(f"the registry at {registry.home.shown} holds no version with {digest}: dvc repro register")
    return known


def _require_passed(report: Report) -> None:
    if report.passed:
        return
    failed = [f"  {verdict.gate}: {verdict.why}" for verdict in report.failures]
    if not failed:
        failed = ["  identity: the digests as registered, loaded and answered are not one, or no gate judged"]
    raise PromotionRefused(
        "\n".join(
            ["this version failed verification, the champion stays:", *failed, "see artifacts/verify/report.html"]
        )
    )


def _require_new(entries: list[Entry], known: Known) -> None:
    if not any(entry.to.digest == known.digest for entry in entries):
        return
    end = journal.dethroned(entries, known.digest)
    how = f"its reign ended with the {end}" if end else "the alias was taken from it outside of this pipeline"
    raise PromotionRefused(
        f"version {known.version} ({known.digest}) is a past champion, and {how}. To bring it back on purpose: {AGAIN}"
    )


def _require_expected(report: Report, champion: Known | None, baseline: Known | None, entries: list[Entry]) -> None:
    expected, found = report.baseline_digest, baseline.digest if baseline else None
    if expected == found:
        return
    who = f" ({entries[-1]})" if entries else ""
    now = f"version {champion.version} ({champion.digest})" if champion else "nobody"
    raise PromotionRefused(
        f"the report compared with {expected or 'no champion'}, and the champion is now {now}{who}. "
        "Compare with that one: dvc repro"
    )


def _require_graph(report: Report, graph_digest: str) -> None:
    if report.graph_digest != graph_digest:
        raise PromotionRefused(
            f"the report is about the graph {report.graph_digest}; as it would be served now it is {graph_digest}. "
            "Verify that one: dvc repro"
        )


def _champion_if_whole(registry: Registry) -> Known | None:
    try:
        return registry.known_champion()
    except RegistryError as error:
        print(f"registry: {error.args[0]}", flush=True)
        return None


def _previous(registry: Registry, champion: Known | None) -> Known:
    replaced = journal.replaced_by_promotion(registry.journal(), champion.digest) if champion else None
    known = registry.known(replaced.digest) if replaced else None
    if known is None:
        raise PromotionRefused(
            "the journal knows no champion before this one; name a version: "
            "python -m pipeline rollback --to VERSION --reason '…'"
        )
    return known


def _unverified(registry: Registry, target: Known, graph_digest: str, report: Report | None) -> str:
    why = "failed verification" if report else "was never verified"
    good = [
        known.version for known in registry.all() if known.tags.get(reports.tag(graph_digest), "").startswith("pass")
    ]
    return (
        f"version {target.version} {why} in the graph as it would be served now ({graph_digest}). "
        f"Versions that passed in it: {', '.join(good) or 'none'}. Restore the `serve` branch it was verified with, "
        f"or check out commit {target.tags.get('git_commit', '?')[:12]} and dvc repro, "
        f"or do it unverified: python -m pipeline rollback --to {target.version} --force --reason '…'"
    )


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
