"""data/raw holds exactly what the source holds, and is touched only when that changed."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import fetch as stage
from pipeline import paths
from pipeline.fetch import fetch
from pipeline.params import ParamsError
from registry.errors import Refused
from training import corpora


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder of its own."""
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(paths, "SPLITS", tmp_path / "data/splits")
    monkeypatch.setattr(stage, "SCRATCH", tmp_path / ".work/fetch")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/a.csv").write_text("text,label\nx,y\n", encoding="utf-8")
    (tmp_path / "mine/b.csv").write_text("text,label\nz,y\n", encoding="utf-8")
    return tmp_path


def contents(raw: Path) -> dict[str, bytes]:
    return {str(path.relative_to(raw)): path.read_bytes() for path in sorted(raw.rglob("*")) if path.is_file()}


def stamp(raw: Path) -> list[tuple[int, int]]:
    return [(path.stat().st_ino, path.stat().st_mtime_ns) for path in sorted([raw, *raw.rglob("*")])]


def test_raw_holds_the_files_and_what_they_are(project: Path) -> None:
    raw = project / "data/raw"
    fetch("mine", raw)
    described = json.loads((raw / "source.json").read_text(encoding="utf-8"))
    assert described["source"] == "mine"
    assert [(file["path"], file["bytes"]) for file in described["files"]] == [("a.csv", 15), ("b.csv", 15)]
    assert (raw / "a.csv").read_bytes() == (project / "mine/a.csv").read_bytes()
    assert not (project / ".work/fetch").exists()
    assert [path.name for path in (project / "data").iterdir()] == ["raw"]


def test_an_unchanged_source_touches_nothing(project: Path) -> None:
    fetch("mine", project / "data/raw")
    before = stamp(project / "data/raw")
    fetch("mine", project / "data/raw")
    assert stamp(project / "data/raw") == before


def test_edited_vanished_and_tampered_files_are_brought_up_to_date(project: Path) -> None:
    raw = project / "data/raw"
    fetch("mine", raw)
    first = contents(raw)
    (project / "mine/a.csv").write_text("text,label\nx,n\n", encoding="utf-8")
    fetch("mine", raw)
    assert contents(raw)["a.csv"].endswith(b"x,n\n")
    assert contents(raw)["source.json"] != first["source.json"]
    (project / "mine/b.csv").unlink()
    fetch("mine", raw)
    assert set(contents(raw)) == {"a.csv", "source.json"}
    right = contents(raw)
    (raw / "a.csv").write_text("tampered", encoding="utf-8")
    (raw / "extra.csv").write_text("left by somebody", encoding="utf-8")
    fetch("mine", raw)
    assert contents(raw) == right


def test_a_failing_fetch_leaves_raw_as_it_was(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = project / "data/raw"
    fetch("mine", raw)
    before = contents(raw)
    with pytest.raises(Refused, match="does not exist"):
        fetch("gone.csv", raw)
    (project / "mine/a.csv").write_text("changed", encoding="utf-8")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(OSError, match="No space left"):
        fetch("mine", raw)
    assert contents(raw) == before
    assert [path.name for path in (project / "data").iterdir()] == ["raw"]


def test_raw_itself_is_no_source(project: Path) -> None:
    fetch("mine", project / "data/raw")
    with pytest.raises(Refused, match="move the file elsewhere"):
        fetch("data/raw/a.csv", project / "data/raw")


def test_a_corpus_that_is_there_is_not_fetched_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    downloads = []

    def download(name: str, folder: Path) -> dict[str, Path]:
        downloads.append(name)
        (folder / "tiny.csv").write_text("text,label\n", encoding="utf-8")
        return {"tiny.csv": folder / "tiny.csv"}

    empty = {"tiny.csv": "b4c1a69c3e73f4a8fb08dcbda9b4d72d0df2ae4c17b0c1d9a6ae8c2e0a0f0f0f"}
    raw = project / "data/raw"
    monkeypatch.setattr(corpora, "download", download)
    tiny = corpora.Corpus(**{**vars(corpora.CORPORA["hutto-gilbert"]), "files": empty})
    monkeypatch.setitem(corpora.CORPORA, "tiny", tiny)
    fetch("tiny", raw)
    empty["tiny.csv"] = json.loads((raw / "source.json").read_text(encoding="utf-8"))["files"][0]["sha256"]
    fetch("tiny", raw)
    assert downloads == ["tiny"]
    (raw / "tiny.csv").write_text("tampered", encoding="utf-8")
    fetch("tiny", raw)
    assert downloads == ["tiny", "tiny"]


def test_the_whole_params_file_is_checked_first(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise ParamsError("params.yaml is not usable")

    monkeypatch.setattr(stage, "load_all", refuse)
    with pytest.raises(ParamsError):
        stage.main()
    assert not (project / "data").exists()


def test_fetch_imports_no_heavy_library() -> None:
    heavy = ("torch", "mlflow", "pyarrow", "transformers", "ray.data")
    code = f"import sys, pipeline.fetch; print([name for name in {heavy} if name in sys.modules])"
    root = Path(stage.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
