"""Stage 1: `data.source` -> data/raw. Always runs, rewrites only on a change, checks the whole params.yaml first."""

import contextlib
import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline import paths, stage
from pipeline.all_params import load_all
from pipeline.params import load_file
from registry import home
from registry.behaviour import Cases
from registry.files import dump_json, new_folder, sha256, write_json
from training import corpora, sources

SCRATCH = paths.WORK / "fetch"


def main() -> None:
    """Check what all later stages need, then bring data/raw up to date with the source, or leave it untouched."""
    params = load_all()
    load_file(Cases, paths.BEHAVIOUR)
    where = home.resolve(paths.ROOT, params.registry)
    print(f"the registry is {where.shown} ({where.why})", flush=True)
    fetch(params.data.source, paths.RAW)


def is_stale(source: str, raw: Path) -> bool:
    """Whether a fetch would change `raw`, as far as can be told without the network: a URL counts as unchanged."""
    if "://" in source:
        return not (raw / paths.SOURCE.name).is_file()
    if source in corpora.CORPORA:
        return _digests(raw) != corpora.CORPORA[source].files
    with _scratch() as scratch:
        return not _is_current(raw, _describe(source, _collect(source, raw, scratch)))


def fetch(source: str, raw: Path) -> None:
    """Make `raw` hold exactly the files of `source`, and source.json; nothing is written when it already does."""
    with _scratch() as scratch:
        files = _collect(source, raw, scratch)
        wanted = _describe(source, files)
        if _is_current(raw, wanted):
            print(f"the raw rows are unchanged: {_summary(wanted)}", flush=True)
            return
        with new_folder(raw) as fresh:
            for name, path in files.items():
                target = fresh / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
            # Described from the copies: a source that grew meanwhile is described as it was taken.
            taken = _describe(source, {name: fresh / name for name in files})
            write_json(fresh / paths.SOURCE.name, taken)
    print(f"fetched {_summary(taken)} from {taken['source']}", flush=True)


def _collect(source: str, raw: Path, scratch: Path) -> dict[str, Path]:
    """Name -> path. A corpus whose bytes are there already is not fetched again."""
    if source not in corpora.CORPORA:
        return sources.collect(source, paths.ROOT, scratch, own=(raw, paths.SPLITS))
    if _digests(raw) == corpora.CORPORA[source].files:
        return {name: raw / name for name in corpora.CORPORA[source].files}
    return corpora.download(source, scratch)


def _describe(source: str, files: dict[str, Path]) -> dict[str, Any]:
    """What source.json says: each file's size and sha256, and one sha256 over all of them."""
    listed = [
        {"path": name, "bytes": path.stat().st_size, "sha256": sha256(path)} for name, path in sorted(files.items())
    ]
    lines = "".join(f"{file['sha256']}  {file['path']}\n" for file in listed)
    return {
        "source": sources.public(source),
        "files": listed,
        "sha256": hashlib.sha256(lines.encode("utf-8")).hexdigest(),
    }


def _is_current(raw: Path, wanted: dict[str, Any]) -> bool:
    described = raw / paths.SOURCE.name
    return (
        described.is_file()
        and described.read_bytes() == dump_json(wanted).encode("utf-8")
        and _digests(raw) == {file["path"]: file["sha256"] for file in wanted["files"]}
    )


def _digests(raw: Path) -> dict[str, str]:
    """Name -> sha256 of all files in `raw` but source.json: of the bytes, not of what is said about them."""
    files = sorted(path for path in raw.rglob("*") if path.is_file())
    return {path.relative_to(raw).as_posix(): sha256(path) for path in files if path != raw / paths.SOURCE.name}


def _summary(described: dict[str, Any]) -> str:
    size = sum(file["bytes"] for file in described["files"])
    return f"{len(described['files'])} files, {size:,} bytes, sha256 {described['sha256'][:12]}"


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """An empty folder for what comes over the network; an interrupted run's remains go first."""
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    try:
        yield SCRATCH
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)


if __name__ == "__main__":
    stage.run("fetch", main)
