"""Who may become champion, who may not, and what is left when the power goes in the middle."""

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from registry import alias
from registry.alias import MovedMeanwhile, moved_by_hand
from registry.attaching import attach
from registry.bundle import BundleError
from registry.journal import Named
from registry.promotion import PromotionRefused, promote, rollback
from registry.registering import register
from registry.report import Report
from registry.versions import CHAMPION, Registry, RegistryError
from tests import registered
from tests.registered import GRAPH, OTHER_GRAPH

Bundles = tuple[Path, ...]


def graph() -> str:
    return GRAPH


def champion(registry: Registry) -> str | None:
    version = registry.champion()
    return version.version if version else None


def third(registry: Registry, bundles: Bundles) -> str:
    """The digest of a third version."""
    return register(registry, bundles[2], registered.record()).digest


def test_a_passing_report_makes_a_champion_and_a_second_time_there_is_nothing_to_do(
    registry: Registry, bundles: Bundles, page: Path
) -> None:
    version = register(registry, bundles[0], registered.record())
    report = registered.report(version.digest)
    assert attach(registry, report, page)
    assert registry.report(version.digest, GRAPH) == report
    assert "champion is version 1" in promote(registry, report, graph)
    assert registry.champion() == version
    assert not attach(registry, report, page)
    assert "nothing to do" in promote(registry, report, graph)
    (entry,) = registry.journal()
    assert (entry.action, entry.from_, entry.to) == ("promote", None, Named(version="1", digest=version.digest))
    assert (entry.graph_digest, entry.report_sha256) == (GRAPH, report.sha256)


def test_the_baseline_is_the_champion_or_whom_the_champion_replaced(
    registry: Registry, champions: list[str], bundles: Bundles
) -> None:
    first, second = champions
    baseline = registry.baseline_for(second)
    assert baseline is not None and baseline.digest == first
    challenger = registry.baseline_for(third(registry, bundles))
    assert challenger is not None and challenger.digest == second
    rollback(registry, None, GRAPH, "complaints", force=False)
    assert registry.baseline_for(first) is None
    beaten = registry.baseline_for(second)
    assert beaten is not None and beaten.digest == first


def test_a_failing_report_is_kept_and_refused_with_every_reason(
    registry: Registry, champions: list[str], bundles: Bundles, page: Path
) -> None:
    digest = third(registry, bundles)
    report = registered.report(digest, baseline=champions[1], outcome="fail")
    assert attach(registry, report, page)
    with pytest.raises(PromotionRefused, match=r"quality: macro-F1 0\.21 is below 0\.40; train longer"):
        promote(registry, report, graph)
    assert champion(registry) == "2"
    kept = registry.report(digest, GRAPH)
    assert kept is not None and not kept.passed
    version = registry.client.get_model_version("tiny", "3")
    assert "[fail](#/experiments/" in version.description
    assert len(registry.journal()) == 2


def test_a_failure_measured_later_does_not_take_the_champions_report_away(
    registry: Registry, champions: list[str], page: Path
) -> None:
    failing = registered.report(champions[1], baseline=champions[0], outcome="fail")
    assert not attach(registry, failing, page)
    kept = registry.report(champions[1], GRAPH)
    assert kept is not None and kept.passed
    with pytest.raises(PromotionRefused, match="failed verification"):
        promote(registry, failing, graph)


def test_digests_that_are_not_one_are_refused(registry: Registry, bundles: Bundles, page: Path) -> None:
    version = register(registry, bundles[0], registered.record())
    report = registered.report(version.digest).model_copy(update={"answered_digest": "sha256:other"})
    attach(registry, report, page)
    with pytest.raises(PromotionRefused, match="are not one"):
        promote(registry, report, graph)
    assert registry.champion() is None


def test_another_graph_than_the_verified_one_is_refused(registry: Registry, bundles: Bundles, page: Path) -> None:
    version = register(registry, bundles[0], registered.record())
    report = registered.report(version.digest)
    attach(registry, report, page)
    with pytest.raises(PromotionRefused, match=f"as it would be served now it is {OTHER_GRAPH}"):
        promote(registry, report, lambda: OTHER_GRAPH)
    assert registry.champion() is None


def test_a_new_graph_for_the_same_champion_is_journaled(registry: Registry, champions: list[str], page: Path) -> None:
    report = registered.report(champions[1], baseline=champions[0], graph=OTHER_GRAPH)
    attach(registry, report, page)
    promote(registry, report, lambda: OTHER_GRAPH)
    last = registry.journal()[-1]
    assert (last.action, last.graph_digest, champion(registry)) == ("regraph", OTHER_GRAPH, "2")
    assert registry.report(champions[1], GRAPH) is not None, "the earlier report stays"
    assert "nothing to do" in promote(registry, report, lambda: OTHER_GRAPH)


def test_a_champion_made_by_force_is_journaled_once_it_is_verified(
    registry: Registry, champions: list[str], page: Path
) -> None:
    rollback(registry, None, OTHER_GRAPH, "complaints", force=True)
    report = registered.report(champions[0], graph=OTHER_GRAPH)
    attach(registry, report, page)
    promote(registry, report, lambda: OTHER_GRAPH)
    last = registry.journal()[-1]
    assert (last.action, last.report_sha256, champion(registry)) == ("regraph", report.sha256, "1")


def test_a_report_that_only_this_machine_has_promotes_nothing(
    registry: Registry, champions: list[str], bundles: Bundles
) -> None:
    report = registered.report(third(registry, bundles), baseline=champions[1])
    with pytest.raises(PromotionRefused, match="keeps no passing report"):
        promote(registry, report, graph)
    assert champion(registry) == "2"


def test_a_champion_that_moved_meanwhile_is_named_with_who_moved_it(
    registry: Registry, champions: list[str], bundles: Bundles, page: Path
) -> None:
    report = registered.report(third(registry, bundles), baseline=champions[0])
    attach(registry, report, page)
    with pytest.raises(PromotionRefused, match=r"is now version 2 .*promote of version 2 after version 1.*dvc repro"):
        promote(registry, report, graph)
    assert champion(registry) == "2"


def at_once(root: Path, report: Report, ready: Any, said: Any) -> None:
    """One of two promoters, in a process of its own: opens the registry, waits for the other, promotes."""
    here = registered.registry(root)
    here.journal()
    ready.wait(60)
    try:
        said.put((report.digest, "", promote(here, report, graph)))
    except PromotionRefused as error:
        said.put((report.digest, str(error), ""))


def test_of_two_promoters_at_the_same_instant_one_wins_and_the_other_is_told_who(
    registry: Registry, bundles: Bundles, page: Path, tmp_path: Path
) -> None:
    spawn = multiprocessing.get_context("spawn")
    ready, said = spawn.Barrier(2), spawn.Queue()
    reports = [registered.report(register(registry, folder, registered.record()).digest) for folder in bundles[:2]]
    for report in reports:
        attach(registry, report, page)
    given = [(tmp_path / "a project", report, ready, said) for report in reports]
    promoters = [spawn.Process(target=at_once, args=one) for one in given]
    for promoter in promoters:
        promoter.start()
    answers = [said.get(timeout=90) for _ in promoters]
    for promoter in promoters:
        promoter.join(30)
    (winner,) = (digest for digest, _, done in answers if done)
    (refusal,) = (why for _, why, done in answers if not done)
    (entry,) = registry.journal()
    reigns = registry.champion()
    assert reigns is not None and reigns.digest == winner == entry.to.digest
    assert f"version {reigns.version}" in refusal and "dvc repro" in refusal


def test_a_past_champion_returns_only_on_purpose(registry: Registry, champions: list[str], page: Path) -> None:
    report = registered.report(champions[0], baseline=champions[1])
    attach(registry, report, page)
    with pytest.raises(PromotionRefused, match=r"past champion.*promote of version 2.*pipeline\.promote --again"):
        promote(registry, report, graph)
    assert champion(registry) == "2"
    promote(registry, report, graph, again="the new one is slow")
    assert champion(registry) == "1"
    assert registry.journal()[-1].reason == "the new one is slow"


def test_a_rolled_back_version_is_not_promoted_again(registry: Registry, champions: list[str]) -> None:
    assert "champion is version 1" in rollback(registry, None, GRAPH, "complaints", force=False)
    report = registered.report(champions[1], baseline=champions[0])
    with pytest.raises(PromotionRefused, match=r"rollback of version 1 after version 2 .*: complaints"):
        promote(registry, report, graph)
    assert champion(registry) == "1"
    assert registry.journal()[-1].action == "rollback"


def test_rolling_back_twice_goes_further_back_and_not_to_and_fro(
    registry: Registry, champions: list[str], bundles: Bundles, page: Path
) -> None:
    report = registered.report(third(registry, bundles), baseline=champions[1])
    attach(registry, report, page)
    promote(registry, report, graph)
    assert "version 2" in rollback(registry, None, GRAPH, "complaints", force=False)
    assert "version 1" in rollback(registry, None, GRAPH, "more complaints", force=False)
    with pytest.raises(PromotionRefused, match="no champion before this one; name a version"):
        rollback(registry, None, GRAPH, "still more", force=False)
    assert "version 3" in rollback(registry, "3", GRAPH, "it was not that", force=False)
    assert "nothing to do" in rollback(registry, "3", GRAPH, "again", force=False)


def test_a_rollback_needs_a_passing_report_in_todays_graph_or_force(registry: Registry, champions: list[str]) -> None:
    with pytest.raises(PromotionRefused, match=r"never verified in the graph.*none.*--to 1 --force"):
        rollback(registry, None, OTHER_GRAPH, "complaints", force=False)
    assert champion(registry) == "2"
    assert "serve asks for --unverified" in rollback(registry, None, OTHER_GRAPH, "complaints", force=True)
    last = registry.journal()[-1]
    assert (champion(registry), last.report_sha256) == ("1", None)
    assert "by force" in str(last)


def test_damaged_bytes_never_become_champion(registry: Registry, champions: list[str], page: Path) -> None:
    weights = registry.version("1").folder / "model/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(BundleError, match=r"model\.safetensors"):
        rollback(registry, "1", GRAPH, "complaints", force=True)
    report = registered.report(champions[0], baseline=champions[1])
    attach(registry, report, page)
    with pytest.raises(BundleError, match=r"model\.safetensors"):
        promote(registry, report, graph, again="please")
    assert champion(registry) == "2"


def test_a_report_that_was_edited_in_the_registry_is_not_believed(registry: Registry, champions: list[str]) -> None:
    assert registry.home.artifact_root is not None
    known = registry.known(champions[1])
    assert known is not None
    (file,) = registry.home.artifact_root.rglob(f"{known.run_id}/**/report.json")
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("0.71", "0.99"), encoding="utf-8")
    assert registry.report(champions[1], GRAPH) is None
    file.write_text(text, encoding="utf-8")
    assert registry.report(champions[1], GRAPH) is not None
    file.unlink()
    assert registry.report(champions[1], GRAPH) is None


def test_an_unregistered_digest_is_refused(registry: Registry, page: Path) -> None:
    with pytest.raises(RegistryError, match="holds no version with sha256:none"):
        attach(registry, registered.report("sha256:none"), page)


def test_an_alias_that_hangs_in_the_air_is_said_and_can_be_mended(
    registry: Registry, champions: list[str], bundles: Bundles, page: Path
) -> None:
    report = registered.report(third(registry, bundles), baseline=champions[1])
    registry.client.set_model_version_tag("tiny", "2", "digest", "")
    with pytest.raises(RegistryError, match=r"cannot serve.*pipeline rollback --to VERSION"):
        promote(registry, report, graph)
    assert "version 1" in rollback(registry, "1", GRAPH, "mend it", force=False)
    assert champion(registry) == "1"


def test_an_alias_moved_by_hand_is_noticed(registry: Registry, champions: list[str], bundles: Bundles) -> None:
    assert moved_by_hand(registry) is None
    registry.client.set_registered_model_alias("tiny", CHAMPION, "1")
    assert "points to version 1, the journal's last move made it 2" in str(moved_by_hand(registry))
    report = registered.report(third(registry, bundles), baseline=champions[1])
    with pytest.raises(PromotionRefused, match="the champion is now version 1"):
        promote(registry, report, graph)
    registry.client.delete_registered_model_alias("tiny", CHAMPION)
    assert "points to version nothing" in str(moved_by_hand(registry))


def _settled(registry: Registry, report: Report) -> None:
    """Whatever was interrupted, the next try ends with one entry more and nothing open."""
    assert champion(registry) in {"2", "3"}
    promote(registry, report, graph)
    assert champion(registry) == "3"
    assert all(entry.settled for entry in registry.moves().values())
    assert [entry.to.version for entry in registry.journal()] == ["1", "2", "3"]


@pytest.mark.parametrize("writes", range(4))
def test_killed_between_any_two_writes_the_next_try_completes_or_undoes_it(
    registry: Registry, champions: list[str], bundles: Bundles, page: Path, writes: int
) -> None:
    report = registered.report(third(registry, bundles), baseline=champions[1])
    attach(registry, report, page)
    with registered.dying(registry, writes), pytest.raises(registered.Killed):
        promote(registry, report, graph)
    baseline = registry.baseline_for(report.digest)
    assert baseline is not None and baseline.digest == champions[1], "register would not change version.json"
    _settled(registry, report)


@pytest.mark.parametrize("writes", range(4))
def test_killed_while_attaching_the_next_try_attaches(
    registry: Registry, bundles: Bundles, page: Path, writes: int
) -> None:
    report = registered.report(register(registry, bundles[0], registered.record()).digest)
    with registered.dying(registry, writes), pytest.raises(registered.Killed):
        attach(registry, report, page)
    attach(registry, report, page)
    assert registry.report(report.digest, GRAPH) == report


def test_an_interrupted_move_is_undone_when_somebody_promotes_another(
    registry: Registry, champions: list[str], bundles: Bundles, page: Path
) -> None:
    report = registered.report(third(registry, bundles), baseline=champions[1])
    attach(registry, report, page)
    with registered.dying(registry, 1), pytest.raises(registered.Killed):
        promote(registry, report, graph)
    rollback(registry, None, GRAPH, "complaints", force=False)
    assert [entry.action for entry in registry.journal()] == ["promote", "promote", "rollback"]
    assert champion(registry) == "1"


def test_a_move_that_another_machine_overwrites_is_told_to_the_loser(
    registry: Registry, champions: list[str], bundles: Bundles, page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two machines on one server share no lock; the one that finds its entry or its alias changed says so."""
    report = registered.report(third(registry, bundles), baseline=champions[1])
    attach(registry, report, page)
    write = alias._write

    def write_and_lose(registry: Registry, number: int, entry: alias.Entry) -> None:
        write(registry, number, entry)
        registry.client.set_registered_model_alias("tiny", CHAMPION, "1")

    monkeypatch.setattr(alias, "_write", write_and_lose)
    with pytest.raises(MovedMeanwhile, match="moved by somebody else meanwhile"):
        promote(registry, report, graph)
    assert registry.alias() == "1"


def test_the_models_page_tells_its_history(registry: Registry, champions: list[str]) -> None:
    rollback(registry, None, GRAPH, "complaints", force=False)
    model = registry.model()
    assert model is not None
    lines = model.description.split("### Journal\n")[1].splitlines()
    assert [line.split(" by ")[0] for line in lines] == [
        "* rollback of version 1 after version 2",
        "* promote of version 2 after version 1",
        "* promote of version 1",
    ]
    assert len(champions) == 2
