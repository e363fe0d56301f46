"""Which code made it: commit, whether it was changed since, and the versions of what matters."""

import importlib.metadata
import platform
import subprocess
from pathlib import Path

LIBRARIES = ("ray", "torch", "transformers", "tokenizers", "mlflow", "numpy")
# What the stages write and git keeps says nothing about the code: it is new after every run.
WRITTEN_BY_STAGES = ("dvc.lock", "artifacts", "data")
GIT_S = 20


def git_state(root: Path) -> tuple[str, bool]:
    """(commit, changed): `none` and False outside of git; `changed` is judged without what the stages write."""
    commit = _git(root, "rev-parse", "HEAD")
    if commit is None:
        return "none", False
    without = [f":(exclude){name}" for name in WRITTEN_BY_STAGES]
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", *without)
    return commit, bool(changed)


def versions() -> dict[str, str]:
    """Python, the platform and the libraries that can change an answer."""
    found = {name: importlib.metadata.version(name) for name in LIBRARIES}
    return {"python": platform.python_version(), "platform": platform.platform(), **found}


def _git(root: Path, *words: str) -> str | None:
    command = ["git", "--no-optional-locks", "-C", str(root), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
