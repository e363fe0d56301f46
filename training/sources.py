"""`data.source` -> the files it names: a file, a glob, a folder or an fsspec URL."""

import glob
import itertools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import fsspec

from registry.errors import MachineFault, Refused

SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")


class SourceRefused(Refused):
    """`data.source` names nothing that can be read as rows."""


class SourceUnreachable(MachineFault):
    """A remote source did not answer, or its file system is not installed."""


def collect(source: str, root: Path, scratch: Path, own: Sequence[Path]) -> dict[str, Path]:
    """The files of `source`: name relative to what all share -> path; remote ones are copied into `scratch`.

    Relative paths start at `root`. Files under `own`, our outputs, are never a source.
    Raises SourceRefused when nothing is found, SourceUnreachable when a remote side fails.
    """
    found = _remote(source, scratch) if is_remote(source) else _local(source, root)
    if odd := [name for name in found if not name.isprintable()]:
        raise SourceRefused(f"data.source: rename {odd[0]!a}: a file's name stands before each of its rows")
    kept = {name: path for name, path in found.items() if not _lies_in(path, own)}
    if found and not kept:
        raise SourceRefused(
            f"data.source: {source} lies in a folder that the stages rewrite ({', '.join(map(str, own))}); "
            "move the file elsewhere and name it there"
        )
    return kept


def is_remote(source: str) -> bool:
    """Whether fsspec has to fetch it: a URL, or a chain of file systems."""
    return "://" in source or "::" in source


def public(source: str) -> str:
    """The source without what may be secret in a URL: user, password, query."""
    if not is_remote(source):
        return source
    parts = urlsplit(source)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _local(source: str, root: Path) -> dict[str, Path]:
    path = root / Path(source).expanduser()
    if path.is_dir():
        files = (Path(folder) / name for folder, _, names in os.walk(path) for name in names)
        return _rows_only(source, path, files)
    if path.is_file():
        return {path.name: _known(source, path)}
    if glob.has_magic(source):
        pattern = os.path.expanduser(source)
        matches = (root / match for match in glob.glob(pattern, root_dir=root, recursive=True))
        return _rows_only(source, root / _fixed_part(pattern), (match for match in matches if match.is_file()))
    raise SourceRefused(
        f"data.source: {source} does not exist (looked at {path}; relative paths start at {root}). "
        "Correct it in params.yaml. In a temporary DVC experiment, files that git ignores are missing: "
        f"`dvc add {source}` and commit the .dvc file"
    )


def _fixed_part(pattern: str) -> str:
    """The folder above the first wildcard."""
    parts = Path(pattern).parts
    return str(Path(*itertools.takewhile(lambda part: not glob.has_magic(part), parts[:-1])))


def _rows_only(source: str, base: Path, files: Iterable[Path]) -> dict[str, Path]:
    """Files of a known kind, hidden ones left out, sorted by name."""
    named = {path.relative_to(base).as_posix(): path for path in files}
    seen = {name: path for name, path in named.items() if not any(part.startswith(".") for part in name.split("/"))}
    kept = {name: seen[name] for name in sorted(seen) if seen[name].suffix.lower() in SUFFIXES}
    if not kept:
        others = ", ".join(sorted(seen)[:5]) or "nothing"
        raise SourceRefused(
            f"data.source: {source} holds no {', '.join(SUFFIXES)} file (looked in {base}, found {others})"
        )
    if len(kept) < len(seen):
        print(f"left out {len(seen) - len(kept)} files that are no {', '.join(SUFFIXES)}", flush=True)
    return kept


def _known(source: str, path: Path) -> Path:
    if path.suffix.lower() not in SUFFIXES:
        raise SourceRefused(
            f"data.source: {source} ends in none of {', '.join(SUFFIXES)}; the ending says how a file is read. "
            "Rename it (one JSON object a line is .jsonl), or unpack it first"
        )
    return path


def _lies_in(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.resolve().is_relative_to(folder.resolve()) for folder in folders)


def _remote(source: str, scratch: Path) -> dict[str, Path]:
    try:
        system, start = fsspec.core.url_to_fs(source)
        names = _remote_names(system, source, start)
        for name, path in names.items():
            target = scratch / name
            target.parent.mkdir(parents=True, exist_ok=True)
            system.get_file(path, str(target))
    except FileNotFoundError as error:
        raise SourceRefused(f"data.source: {public(source)} does not exist; correct it in params.yaml") from error
    except ValueError as error:
        raise SourceRefused(f"data.source: {public(source)} is no URL that fsspec knows: {error}") from error
    except ImportError as error:
        raise SourceUnreachable(f"data.source: {public(source)} cannot be opened: {error}") from error
    except SourceRefused:
        raise
    except Exception as error:  # each file system has errors of its own
        raise SourceUnreachable(
            f"data.source: {public(source)} did not answer: {type(error).__name__}: {error}. Check the address, the "
            "network and the credentials in the environment; or name a local copy"
        ) from error
    return {name: scratch / name for name in sorted(names)}


def _remote_names(system: Any, source: str, start: str) -> dict[str, str]:
    """Name -> path in that file system. A `?` begins a query there, so that only `*` is a wildcard."""
    plain = Path(urlsplit(start).path if "://" in start else start)
    if "*" not in start and (plain.suffix.lower() in SUFFIXES or start.startswith("http")):
        return {_known(public(source), plain).name: start}
    paths = system.glob(start) if "*" in start else system.find(start)
    if not paths:
        raise FileNotFoundError(start)
    base = os.path.commonpath([os.path.dirname(path) for path in paths])
    named = {os.path.relpath(path, base): path for path in paths}
    return {name: named[name] for name in _rows_only(public(source), Path(), map(Path, named))}
