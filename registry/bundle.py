"""The bundle: the self-contained folder that can answer, and the digest that names it."""

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from registry.contract import Contract, Encoder
from registry.errors import Refused
from registry.files import read_json, sha256, write_json

MANIFEST, CONTRACT, MODEL = "manifest.json", "contract.json", "model"

MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
# Where a file came from and which library wrote it do not answer, so they must not make a twin.
UNANSWERING_KEYS = ("_name_or_path", "name_or_path", "transformers_version", "tokenizer_file", "vocab_file", "is_local")


class BundleError(Refused):
    """A folder that is not a bundle, or not the one it says it is."""


class FileEntry(BaseModel, frozen=True, extra="forbid"):
    """One file of a bundle, as its manifest lists it."""

    path: str
    bytes: int
    sha256: str


class Manifest(BaseModel, frozen=True, extra="forbid"):
    """Every file of a bundle but the manifest, sorted by path, and the digest over those lines."""

    files: tuple[FileEntry, ...]
    digest: str


class VersionRef(BaseModel, frozen=True, extra="forbid"):
    """A registered bundle that can be served: its names, and a local folder that holds its bytes."""

    name: str
    version: str
    digest: str
    folder: Path


def digest_of(files: Iterable[FileEntry]) -> str:
    """`sha256:<hex>` over the sorted lines `sha256  bytes  path`."""
    lines = sorted(f"{f.sha256}  {f.bytes}  {f.path}\n" for f in files)
    return "sha256:" + hashlib.sha256("".join(lines).encode()).hexdigest()


def manifest_of(folder: Path) -> Manifest:
    """Hash every file below `folder`. Raises BundleError on a link: a link's bytes live elsewhere."""
    entries = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            raise BundleError(f"{path} is a link; a bundle holds its own bytes. Package it again: dvc repro package.")
        if path.is_file() and name != MANIFEST:
            entries.append(FileEntry(path=name, bytes=path.stat().st_size, sha256=sha256(path)))
    return Manifest(files=tuple(entries), digest=digest_of(entries))


def pack(checkpoint: Path, contract: Contract, folder: Path) -> Manifest:
    """Fill an empty folder with a checkpoint's model under this contract; the same inputs give the same digest.

    `checkpoint` holds MODEL_FILES, as `training.checkpoint` saves them. Raises BundleError when one is missing.
    """
    missing = [name for name in MODEL_FILES if not (checkpoint / name).is_file()]
    if missing:
        raise BundleError(f"{checkpoint} has no {', '.join(missing)}, so it cannot be packaged; run dvc repro train.")
    (folder / MODEL).mkdir(parents=True)
    for name in MODEL_FILES:
        if name.endswith("config.json"):
            write_json(folder / MODEL / name, _answering(read_json(checkpoint / name)))
        else:
            shutil.copyfile(checkpoint / name, folder / MODEL / name)
    write_contract(folder, contract)
    return read_manifest(folder)


def write_contract(folder: Path, contract: Contract) -> None:
    """(Re)write the contract of a bundle and the manifest that seals it."""
    write_json(folder / CONTRACT, contract.model_dump(mode="json"))
    write_json(folder / MANIFEST, manifest_of(folder).model_dump(mode="json"))


def read_contract(folder: Path) -> Contract:
    """The contract of a bundle or checkpoint folder. Raises BundleError when there is none or it is not one."""
    try:
        return Contract.model_validate(read_json(folder / CONTRACT))
    except FileNotFoundError as error:
        raise BundleError(f"{folder} has no {CONTRACT}, so it is neither a checkpoint nor a bundle.") from error
    except (ValueError, ValidationError) as error:
        raise BundleError(f"{folder / CONTRACT} cannot be read as a contract: {error}") from error


def encoder_of(folder: Path) -> Encoder:
    """The encoder of a bundle alone, for those who only need token ids and no model."""
    config = read_json(folder / MODEL / "config.json")
    return Encoder(folder / MODEL / "tokenizer.json", read_contract(folder).max_tokens, int(config["pad_token_id"]))


def read_manifest(folder: Path) -> Manifest:
    """The manifest as written, not checked against the files. Raises BundleError when there is none."""
    try:
        return Manifest.model_validate(read_json(folder / MANIFEST))
    except (OSError, ValueError, ValidationError) as error:
        raise BundleError(f"{folder} has no usable {MANIFEST}, so it is not a bundle: {error}") from error


def check(folder: Path, expected: str | None = None) -> Manifest:
    """Re-hash a bundle. Raises BundleError naming the first file that differs, is missing or is extra.

    With `expected`, the digest must also be that one.
    """
    written, found = read_manifest(folder), manifest_of(folder)
    remedy = "Restore it from the local bundle: python -m pipeline.register --again"
    theirs, ours = ({f.path: f for f in m.files} for m in (written, found))
    for path in sorted(theirs.keys() | ours.keys()):
        if theirs.get(path) != ours.get(path):
            what = "is missing" if path not in ours else "is not in the manifest" if path not in theirs else "differs"
            raise BundleError(f"{folder / path} {what}: these are not the bytes that were packaged. {remedy}")
    if written.digest != found.digest or (expected is not None and found.digest != expected):
        raise BundleError(f"{folder} has digest {found.digest}, not {expected or written.digest}. {remedy}")
    return found


def _answering(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in UNANSWERING_KEYS}
