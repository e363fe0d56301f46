"""The command rollback: its words, and what it prints."""

from pathlib import Path

import pytest

from pipeline import paths, promote, register, rollback
from pipeline.reverify import OtherRuntime, refuse_other_runtime
from registry.files import read_json
from registry.promotion import PromotionRefused
from tests import registered
from tests.pipeline.test_promote import registry, verified


@pytest.fixture
def two_champions(registered_project: Path, tiny_bundle: Path) -> list[str]:
    """Digests of two champions, one after the other."""
    digests = []
    for temperature in (1.0, 1.5):
        paths.BUNDLE.rename(registered_project / f"bundle-{temperature}")
        registered.variant(tiny_bundle, paths.BUNDLE, temperature)
        register.main([])
        verified()
        promote.main([])
        digests.append(read_json(paths.VERSION)["digest"])
    return digests


def test_the_champion_before_this_one_returns_and_repro_leaves_it_there(
    two_champions: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rollback.main(["--reason", "complaints"])
    champion = registry().champion()
    assert champion is not None and champion.digest == two_champions[0]
    assert "restart `make serve`" in capsys.readouterr().out
    before = paths.VERSION.read_bytes()
    register.main([])
    assert paths.VERSION.read_bytes() == before, "verify is not measured again"
    with pytest.raises(PromotionRefused, match="past champion"):
        promote.main([])


def test_what_was_never_verified_needs_force(
    two_champions: list[str], registered_project: Path, tiny_bundle: Path
) -> None:
    paths.BUNDLE.rename(registered_project / "bundle-2")
    registered.variant(tiny_bundle, paths.BUNDLE, temperature=2.0)
    register.main([])
    with pytest.raises(PromotionRefused, match=r"was never verified .* --to 3 --force"):
        rollback.main(["--to", "3", "--reason", "complaints"])
    rollback.main(["--to", "3", "--force", "--reason", "complaints"])
    assert registry().journal()[-1].report_sha256 is None
    assert len(two_champions) == 2


def test_a_reason_is_asked_for() -> None:
    with pytest.raises(SystemExit) as leaving:
        rollback.main([])
    assert leaving.value.code == 2


def test_what_was_judged_in_another_runtime_is_refused_with_the_remedy() -> None:
    passed = registered.report("sha256:" + "a" * 64)
    judged = passed.model_copy(update={"evidence": {**passed.evidence, "parity": {"runtime": "torch-fp32"}}})
    refuse_other_runtime("1", judged, "torch-fp32")
    with pytest.raises(OtherRuntime, match=r"in torch-fp32.*in onnx-int8.*serve\.precision: fp32"):
        refuse_other_runtime("1", judged, "onnx-int8")
