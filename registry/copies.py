"""A version's bundle as a folder of this machine: the artifacts themselves, or a copy of a server's by digest."""

import shutil
from pathlib import Path

from registry import bundle, store
from registry.bundle import BundleError
from registry.files import new_folder
from registry.home import BUNDLES, Home

BUNDLE = "bundle"
"""The bundle's folder among a version's artifacts."""


def checked(home: Home, source: str, digest: str) -> Path:
    """The bundle below these artifacts, re-hashed just now.

    Raises BundleError when its bytes are not those of `digest`, StoreFault when a server does not hand them out.
    """
    if home.artifact_root is not None:
        folder = Path(source) / BUNDLE
    else:
        folder = _copy(home, digest)
        if not _is_whole(folder, digest):
            print(f"registry: copying {source} to {folder}", flush=True)
            with new_folder(folder) as scratch:
                store.fetch(home, f"{source}/{BUNDLE}", scratch)
    bundle.check(folder, digest)
    return folder


def forget(home: Home, digest: str) -> None:
    """Drop the copy of a server's bundle, so that the next look is at the server's own bytes."""
    shutil.rmtree(_copy(home, digest), ignore_errors=True)


def _copy(home: Home, digest: str) -> Path:
    return home.folder / BUNDLES / digest.removeprefix("sha256:")


def _is_whole(copy: Path, digest: str) -> bool:
    try:
        return bundle.check(copy, digest).digest == digest
    except BundleError:
        return False
