"""Where a stage keeps unfinished work: one folder for its exact inputs, so that nothing is resumed under other ones."""

import contextlib
import hashlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel

from pipeline import paths
from registry.closure import import_closure
from registry.files import dump_json, sha256


@contextlib.contextmanager
def unfinished(stage: str, inputs: Sequence[Path], params: Sequence[BaseModel]) -> Iterator[Path]:
    """The stage's folder under the sha256 of its inputs' bytes, its params and its code.

    The folders of other inputs are removed at once, this one when the block ends well; an error or a kill leaves it
    for the next start. `inputs` may be files or folders.
    """
    folder = paths.WORK / stage / _digest(stage, inputs, params)
    for other in folder.parent.glob("*"):
        if other != folder:
            shutil.rmtree(other)
    folder.mkdir(parents=True, exist_ok=True)
    yield folder
    shutil.rmtree(folder)


def _digest(stage: str, inputs: Sequence[Path], params: Sequence[BaseModel]) -> str:
    code = [paths.ROOT / name for name in import_closure(paths.ROOT, f"pipeline.{stage}")]
    files = [
        file for path in inputs for file in ([path] if path.is_file() else sorted(path.rglob("*"))) if file.is_file()
    ]
    lines = [sha256(file) for file in [*files, *code]]
    lines += [dump_json(branch.model_dump(mode="json")) for branch in params]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
