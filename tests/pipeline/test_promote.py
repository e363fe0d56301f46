"""The stage promote: reports are kept, versions promoted, and everything else refused with a remedy."""

import signal
import sys
from pathlib import Path

import pytest

from pipeline import paths, promote, register
from registry.files import read_json, write_json, write_text
from registry.params import RegistryParams
from registry.promotion import PromotionRefused
from registry.report import Outcome
from registry.versions import Registry, open_registry
from tests import registered
from tests.pipeline import prepared


@pytest.fixture
def project(registered_project: Path) -> Path:
    register.main([])
    verified()
    return registered_project


def registry() -> Registry:
    return open_registry(paths.ROOT, RegistryParams(name="sentiment", experiment="train-to-serve"))


def verified(outcome: Outcome = "pass", **changes: str) -> None:
    """What verify would leave behind."""
    version = read_json(paths.VERSION)
    report = registered.report(version["digest"], version["baseline_digest"], outcome, version["graph_digest"])
    write_json(paths.REPORT, report.model_copy(update=changes).model_dump(mode="json"))
    write_text(paths.REPORT_HTML, "<h1>report</h1>")


def test_what_passed_becomes_champion_and_then_there_is_nothing_to_do(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    promote.main([])
    champion = registry().champion()
    assert champion is not None and champion.digest == read_json(paths.VERSION)["digest"]
    assert "the passing report is kept with its version" in capsys.readouterr().out
    promote.main([])
    assert "nothing to do" in capsys.readouterr().out


def test_register_writes_the_same_after_promotion_so_that_verify_stays_fresh(project: Path) -> None:
    before = paths.VERSION.read_bytes()
    promote.main([])
    register.main([])
    assert paths.VERSION.read_bytes() == before


def test_what_failed_is_kept_and_refused(project: Path) -> None:
    verified("fail")
    with pytest.raises(PromotionRefused, match="quality: macro-F1"):
        promote.main([])
    version = read_json(paths.VERSION)
    kept = registry().report(version["digest"], version["graph_digest"])
    assert kept is not None and not kept.passed
    assert registry().champion() is None


@pytest.mark.parametrize("changed", ["digest", "graph_digest"])
def test_a_report_about_something_else_is_refused(project: Path, changed: str) -> None:
    verified(**{changed: "sha256:" + "0" * 64})
    with pytest.raises(PromotionRefused, match="Verify what stands here: dvc repro"):
        promote.main([])
    assert registry().champion() is None


def test_another_way_to_serve_than_the_verified_one_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_SERVE_SOMETHING", "1")
    with pytest.raises(PromotionRefused, match="is about bundle"):
        promote.main([])


def test_an_experiment_is_only_reported(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DVC_EXP_NAME", "acerb-foal")
    promote.main([])
    assert "experiment acerb-foal passed" in capsys.readouterr().out
    verified("fail")
    promote.main([])
    assert "experiment acerb-foal failed quality" in capsys.readouterr().out
    assert registry().champion() is None


def test_an_alias_moved_by_hand_is_said(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    promote.main([])
    registry().client.delete_registered_model_alias("sentiment", "champion")
    with pytest.raises(PromotionRefused, match="taken from it outside of this pipeline"):
        promote.main([])
    assert "somebody moved it" in capsys.readouterr().out
    promote.main(["--again", "--reason", "it was deleted by mistake"])
    assert registry().champion() is not None


def test_again_needs_a_reason(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--again"], ["--reason", "x"]):
        with pytest.raises(SystemExit) as leaving:
            promote.main(words)
        assert leaving.value.code == 2
    assert "go together" in capsys.readouterr().err


@pytest.mark.slow
def test_killed_before_any_of_its_writes_the_next_run_ends_as_if_nothing_had_been(
    tmp_path: Path, tiny_bundle: Path
) -> None:
    """The real stage, SIGKILL, the real database: report, tags, description, journal, alias."""
    made = prepared.project(tmp_path / "a project", tiny_bundle)
    version = made.read("artifacts/version.json")
    report = registered.report(version["digest"], None, "pass", version["graph_digest"])
    write_json(made.folder / "artifacts/verify/report.json", report.model_dump(mode="json"))
    write_text(made.folder / "artifacts/verify/report.html", "<h1>report</h1>")
    killed: list[str] = []
    for writes in range(30):
        project = made.copy(tmp_path / f"killed {writes}")
        code = f"from tests.registered import promote_and_be_killed; promote_and_be_killed({writes})"
        first = project.run(sys.executable, "-c", code, check=False)
        if first.returncode == 0:
            break
        assert first.returncode == -signal.SIGKILL, first.stderr
        killed.append(first.stdout.splitlines()[-1])
        again = project.run(sys.executable, "-m", "pipeline.promote").stdout
        assert "champion is version 1" in again or "nothing to do" in again
        where = open_registry(project.folder, RegistryParams(name="tiny", experiment="train-to-serve"))
        (entry,) = where.journal()
        assert (entry.settled, entry.to.digest, where.alias()) == (True, version["digest"], "1"), killed[-1]
        assert where.report(version["digest"], version["graph_digest"]) == report
        assert not where.client.search_runs([*_experiments(where)], "attributes.status = 'RUNNING'")
    print(f"{len(killed)} moments:", *killed, sep="\n  ")
    for write in ("log_text", "set_model_version_tag", "set_registered_model_tag", "set_registered_model_alias"):
        assert any(write in moment for moment in killed), killed


def _experiments(where: Registry) -> list[str]:
    return [str(experiment.experiment_id) for experiment in where.client.search_experiments()]
