"""Who may become champion: only what a passing report is about, and only after whom that report expected."""

from collections.abc import Callable

from registry import alias, journal, reports
from registry.errors import Refused
from registry.journal import Entry
from registry.locking import writing
from registry.report import Report
from registry.versions import CHAMPION, Known, Registry, RegistryError

NOTHING = "nothing to do"
AGAIN = "python -m pipeline.promote --again --reason '…'"


class PromotionRefused(Refused):
    """The champion stays: the report fails, is about something else, or the champion is not the one it expected."""


class Unverified(PromotionRefused):
    """A version that should become champion again has no passing report on the graph as it would be served now."""

    def __init__(self, message: str, version: str, earlier: Report | None) -> None:
        """`earlier`: its newest passing report on another graph, if this graph's has not failed already."""
        super().__init__(message)
        self.version, self.earlier = version, earlier


def promote(registry: Registry, report: Report, graph_digest: Callable[[], str], again: str | None = None) -> str:
    """Make the version that a passing report is about the champion; what was done, in a line.

    `again`: why a past champion may return. Raises PromotionRefused, with the remedy, and leaves the champion alone.
    """
    with writing(registry.home):
        alias.settle(registry)
        known, champion = registry.registered(report.digest), registry.known_champion()
        entries = registry.journal()
        _require_passed(report)
        reigns = champion is not None and champion.digest == known.digest
        if not reigns and not again:
            _require_new(entries, known)
        done = reigns and _is_journaled(entries, report)
        if not done:
            _require_expected(report, champion, registry.known_baseline(known.digest), entries)
        _require_kept(registry, report)
        registry.ref(known)
        _require_graph(report, graph_digest())
        if done:
            return f"{NOTHING}: version {known.version} ({known.digest}) is the champion, verified as it is served"
        action = alias.REGRAPH if reigns else alias.PROMOTE
        alias.move(registry, champion, known, action, report.graph_digest, report.sha256, again or "")
    return f"{CHAMPION} is version {known.version} of {known.name} ({known.digest}), graph {report.graph_digest}"


def rollback(registry: Registry, to: str | None, graph_digest: str, reason: str, force: bool) -> str:
    """Make an earlier version champion again: `to`, or the one that the champion replaced; what was done, in a line.

    Raises Unverified when no passing report is about its bytes in the graph as it would be served now, unless `force`,
    PromotionRefused when there is none to return to; damaged bytes are never made champion.
    """
    with writing(registry.home):
        alias.settle(registry)
        champion = _champion_if_whole(registry)
        target = registry.numbered(to) if to else _previous(registry, champion)
        if champion and target.version == champion.version:
            return f"{NOTHING}: version {target.version} is the champion"
        registry.ref(target)
        report = registry.report(target.digest, graph_digest)
        passed = report if report and report.passed else None
        if passed is None and not force:
            earlier = None if report else registry.passing_report(target)
            raise Unverified(_unverified(registry, target, graph_digest, report), target.version, earlier)
        alias.move(registry, champion, target, alias.ROLLBACK, graph_digest, passed.sha256 if passed else None, reason)
    unsafe = "" if passed else "; it is not verified as it would be served now, so that serve asks for --unverified"
    return f"{CHAMPION} is version {target.version} of {target.name} ({target.digest}){unsafe}"


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


def _is_journaled(entries: list[Entry], report: Report) -> bool:
    last = journal.latest(entries, report.digest)
    return last is not None and last.graph_digest == report.graph_digest and last.report_sha256 is not None


def _require_kept(registry: Registry, report: Report) -> None:
    kept = registry.report(report.digest, report.graph_digest)
    if kept is None or not kept.passed:
        raise PromotionRefused(
            f"the registry at {registry.home.shown} keeps no passing report on {report.digest} in graph "
            f"{report.graph_digest}, and serving asks for it there: dvc repro promote"
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
