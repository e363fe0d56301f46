"""The built-in corpus is the corpus, or the message says what to do."""

import csv
import sys
from collections import Counter
from pathlib import Path

import pytest

from pipeline import paths
from registry.files import sha256
from training import corpora
from training.corpora import CORPORA, CorpusUnavailable, download
from training.keys import rate
from training.params import RatingThresholds

NAME = "hutto-gilbert"


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The corpus as pip gets it; skipped, with the reason, where no package index answers."""
    try:
        return download(NAME, tmp_path_factory.mktemp("corpus"))
    except CorpusUnavailable as error:
        pytest.skip(str(error))


def test_the_corpus_has_its_rows_domains_and_classes(corpus: dict[str, Path]) -> None:
    with corpus["hutto-gilbert.csv"].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert Counter(row["domain"] for row in rows) == {"tweets": 4200, "amazon": 3708, "movies": 10605, "nyt": 5190}
    thresholds = RatingThresholds(negative_at_most=-0.5, positive_at_least=0.5)
    labels = Counter(rate(row["rating"], thresholds) for row in rows)
    assert labels == {"negative": 9181, "neutral": 4244, "positive": 10278}


def test_its_licence_and_citation_lie_beside_it(corpus: dict[str, Path]) -> None:
    notice = corpus["hutto-gilbert.LICENSE.txt"].read_text(encoding="utf-8")
    assert "MIT License" in notice and "Hutto, C.J. & Gilbert, E.E. (2014)" in notice
    assert {name: sha256(path) for name, path in corpus.items()} == CORPORA[NAME].files


def test_the_corpus_is_not_in_the_repository() -> None:
    assert "/data/raw/" in (paths.ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_no_index_is_the_machines_fault_and_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "no wheels here"
    empty.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", empty.as_uri())
    with pytest.raises(CorpusUnavailable, match=r"(?s)vaderSentiment.*PIP_INDEX_URL.*PIP_FIND_LINKS.*data\.source"):
        download(NAME, tmp_path)


def test_a_folder_with_the_sdist_will_do_without_an_index(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(corpus["hutto-gilbert.csv"].parent))
    assert set(download(NAME, tmp_path)) == set(corpus)


def test_other_bytes_of_that_name_are_refused_before_anything_in_them_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = tmp_path / "links"
    links.mkdir()
    (links / CORPORA[NAME].sdist).write_bytes(b"not the corpus")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    with pytest.raises(CorpusUnavailable, match=r"(?i)hash"):
        download(NAME, tmp_path)


def test_an_environment_without_pip_is_told_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    with pytest.raises(CorpusUnavailable, match="ensurepip"):
        download(NAME, tmp_path)


def test_changed_contents_of_the_archive_are_refused(
    corpus: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = corpus["hutto-gilbert.csv"].parent
    monkeypatch.setattr(corpora, "_pip_download", lambda *_: None)
    (tmp_path / CORPORA[NAME].sdist).write_bytes((folder / CORPORA[NAME].sdist).read_bytes())
    other = {**vars(CORPORA[NAME]), "inner_sha256": "0" * 64}
    monkeypatch.setitem(CORPORA, NAME, corpora.Corpus(**other))
    with pytest.raises(CorpusUnavailable, match="instead of 0000"):
        download(NAME, tmp_path)
