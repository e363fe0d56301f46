"""`data.source` names files: by path, glob, folder or URL; and says so when it does not."""

import functools
import http.server
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from training.sources import SourceRefused, SourceUnreachable, collect, public


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "a project [1]"
    for name in ("one.csv", "more/one.csv", "more/deep/two.JSONL", "more/notes.md", "more/.hidden/old.csv"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name, encoding="utf-8")
    return root


@pytest.fixture
def served(project: Path) -> Iterator[str]:
    """The project's files over HTTP."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(project))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def names(source: str, root: Path, own: tuple[Path, ...] = ()) -> dict[str, str]:
    """Name -> content, as the tests' files hold their own path."""
    scratch = root.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    return {name: path.read_text(encoding="utf-8") for name, path in collect(source, root, scratch, own).items()}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("one.csv", {"one.csv": "one.csv"}),
        ("more", {"deep/two.JSONL": "more/deep/two.JSONL", "one.csv": "more/one.csv"}),
        ("*.csv", {"one.csv": "one.csv"}),
        ("more/**/*", {"deep/two.JSONL": "more/deep/two.JSONL", "one.csv": "more/one.csv"}),
        ("**/one.csv", {"more/one.csv": "more/one.csv", "one.csv": "one.csv"}),
    ],
)
def test_files_of_one_name_in_two_folders_stay_two(project: Path, source: str, expected: dict[str, str]) -> None:
    assert names(source, project) == expected
    assert list(names(source, project)) == sorted(expected)


def test_absolute_paths_and_globs_need_no_root(project: Path, tmp_path: Path) -> None:
    assert names(str(project / "one.csv"), tmp_path) == {"one.csv": "one.csv"}
    assert set(names(f"{tmp_path}/a */more/*.csv", tmp_path)) == {"a project [1]/more/one.csv"}


def test_a_missing_file_says_where_it_was_looked_for_and_what_helps(project: Path) -> None:
    with pytest.raises(SourceRefused) as refusal:
        names("my/reviews.csv", project)
    assert str(project / "my/reviews.csv") in str(refusal.value)
    assert "dvc add my/reviews.csv" in str(refusal.value)


@pytest.mark.parametrize("source", ["more/notes.md", "more/*.md", "more/*.parquet"])
def test_what_holds_no_rows_is_refused_with_the_endings_that_do(project: Path, source: str) -> None:
    with pytest.raises(SourceRefused, match=r"\.csv, \.tsv, \.jsonl, \.parquet"):
        names(source, project)


def test_our_own_outputs_are_never_a_source(project: Path) -> None:
    own = (project / "more/deep",)
    assert set(names("more", project, own)) == {"one.csv"}
    with pytest.raises(SourceRefused, match="move the file elsewhere"):
        names("more/deep/two.JSONL", project, own)


def test_urls_are_fetched_by_fsspec(project: Path, served: str) -> None:
    assert names(f"{served}/more/one.csv", project) == {"one.csv": "more/one.csv"}
    assert names(f"{served}/one.csv?token=secret", project) == {"one.csv": "one.csv"}
    assert names(f"file://{project}/more", project) == {
        "deep/two.JSONL": "more/deep/two.JSONL",
        "one.csv": "more/one.csv",
    }
    memory = fsspec.filesystem("memory")
    memory.pipe({"/bucket/a/x.csv": b"1", "/bucket/b/x.csv": b"2", "/bucket/b/readme.md": b"3"})
    assert names("memory://bucket", project) == {"a/x.csv": "1", "b/x.csv": "2"}
    assert names("memory://bucket/*/x.csv", project) == {"a/x.csv": "1", "b/x.csv": "2"}
    assert names("memory://bucket/a/x.csv", project) == {"x.csv": "1"}


def test_a_url_without_a_file_is_refused_and_a_silent_side_is_the_machines_fault(project: Path, served: str) -> None:
    with pytest.raises(SourceRefused, match="does not exist"):
        names(f"{served}/absent.csv", project)
    with pytest.raises(SourceRefused, match="does not exist"):
        names("memory://nowhere/at/all", project)
    with pytest.raises(SourceRefused, match=r"one JSON object a line is \.jsonl"):
        names(f"{served}/more/notes.md", project)
    with pytest.raises(SourceUnreachable, match="network"):
        names("http://127.0.0.1:1/a.csv", project)
    with pytest.raises(SourceRefused, match="no URL that fsspec knows"):
        names("nosuch://host/a.csv", project)


def test_a_file_system_that_is_not_installed_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(SourceUnreachable, match="s3fs"):
        names("s3://bucket/a.csv", project)


@pytest.mark.parametrize("name", [b"caf\xe9.csv", b"two\nlines.csv"])
def test_a_name_that_cannot_be_printed_is_refused(project: Path, name: bytes) -> None:
    (project / "odd").mkdir()
    (project / "odd" / os.fsdecode(name)).write_bytes(b"")
    with pytest.raises(SourceRefused, match="rename"):
        names("odd", project)


def test_what_may_be_secret_in_a_url_is_not_repeated() -> None:
    assert public("https://me:word@host/a.csv?key=1") == "https://host/a.csv"
    assert public("data/my.csv") == "data/my.csv"
