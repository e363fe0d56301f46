"""params.yaml -> frozen branches; the only reader of YAML.

A stage loads only its own branches, so that one new dial does not re-run every stage;
`pipeline.all_params` checks the whole file.
"""

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipeline import paths
from registry.errors import Refused

Branch = TypeVar("Branch", bound=BaseModel)


class ParamsError(Refused):
    """params.yaml cannot be used; every fault is listed by path, value and remedy."""


def load(branch: str, cls: type[Branch], file: Path = paths.PARAMS) -> Branch:
    """One branch of params.yaml as its frozen class. Raises ParamsError listing all its faults."""
    tree = read(file)
    if branch not in tree:
        raise ParamsError(
            f"{file} is not usable:\n  {branch}: is missing; copy the branch from the project's params.yaml"
        )
    faults = validate(tree[branch], cls, branch)
    if isinstance(faults, list):
        raise ParamsError("\n".join([f"{file} is not usable:", *faults]))
    return faults


def read(file: Path = paths.PARAMS) -> dict[str, Any]:
    """The raw tree, read as DVC reads it (YAML 1.2, ruamel). Raises ParamsError when it is not YAML."""
    try:
        tree = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ParamsError(f"{file} does not exist; restore it: git checkout params.yaml") from error
    except (YAMLError, UnicodeDecodeError) as error:
        raise ParamsError(f"{file} is not YAML: {error}") from error
    if not isinstance(tree, dict):
        raise ParamsError(f"{file} must be a mapping of branches, not {type(tree).__name__}")
    return tree


def validate(tree: object, cls: type[Branch], path: str) -> Branch | list[str]:
    """The branch, or its faults, one line each: path, what is wrong, what was given."""
    try:
        return cls.model_validate(tree, strict=True)
    except ValidationError as error:
        return [_line(path, fault) for fault in error.errors(include_url=False)]


def _line(path: str, fault: Any) -> str:
    where = ".".join([path, *(str(part) for part in fault["loc"])])
    what = fault["msg"].removeprefix("Value error, ")
    given = "" if isinstance(fault["input"], dict) else f" (got {fault['input']!r})"
    return f"  {where}: {what}{given}"
