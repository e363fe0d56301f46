"""params.yaml -> frozen branches; the only reader of YAML.

A stage loads only its own branches, so that one new dial does not re-run every stage;
`pipeline.all_params` checks the whole file.
"""

from pathlib import Path
from typing import Any, TypeVar, get_args

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
    return _usable(tree[branch], cls, branch, file)


def load_file(cls: type[Branch], file: Path) -> Branch:
    """A YAML file of its own as its frozen class. Raises ParamsError listing all its faults."""
    return _usable(read(file), cls, file.name, file)


def _usable(tree: object, cls: type[Branch], path: str, file: Path) -> Branch:
    found = validate(tree, cls, path)
    if isinstance(found, list):
        raise ParamsError("\n".join([f"{file} is not usable:", *found]))
    return found


def read(file: Path = paths.PARAMS) -> dict[str, Any]:
    """The raw tree, read as DVC reads it (YAML 1.2, ruamel). Raises ParamsError when it is not YAML."""
    try:
        tree = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ParamsError(f"{file} does not exist; restore it: git checkout -- '{file}'") from error
    except (YAMLError, UnicodeDecodeError) as error:
        # ruamel ends with a way to switch its check of twin keys off, which nobody should.
        what = str(error).partition("To suppress this check")[0].strip()
        raise ParamsError(f"{file} is not YAML: {what}") from error
    if not isinstance(tree, dict):
        raise ParamsError(f"{file} must be a mapping, not {type(tree).__name__}")
    return tree


def validate(tree: object, cls: type[Branch], path: str) -> Branch | list[str]:
    """The branch, or its faults, one line each: path, what is wrong, what was given."""
    try:
        return cls.model_validate(tree, strict=True)
    except ValidationError as error:
        return [_line(path, fault, cls) for fault in error.errors(include_url=False)]


def _line(path: str, fault: Any, cls: type[BaseModel]) -> str:
    where = ".".join([path, *(str(part) for part in fault["loc"])])
    what = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "extra_forbidden":
        what = f"is not known here; known are {_keys(cls, fault['loc'][:-1])}"
    given = "" if isinstance(fault["input"], dict) else f" (got {fault['input']!r})"
    return f"  {where}: {what}{given}"


def _keys(cls: type[BaseModel], loc: tuple[int | str, ...]) -> str:
    """The names that a mapping at this place may hold."""
    for part in loc:
        annotation = cls.model_fields[part].annotation if part in cls.model_fields else None
        inner = [kind for kind in (annotation, *get_args(annotation)) if isinstance(kind, type)]
        cls = next((kind for kind in inner if issubclass(kind, BaseModel)), cls)
    return ", ".join(cls.model_fields)
