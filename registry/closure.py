"""Which of our own files a module imports, found by reading and not by importing it.

The graph digest hashes the closure of `serving.app`; a test holds every stage's DVC dependencies to its closure.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("pipeline", "registry", "serving", "training")


def import_closure(root: Path, module: str) -> tuple[str, ...]:
    """Sorted paths, relative to `root`, of `module` and of all our modules it imports at any depth.

    Imports inside functions count. Empty `__init__.py` files do not: a test keeps them empty.
    """
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _file_of(root, name)
        if name in found or path is None:
            continue
        found[name] = path
        waiting.extend(_imports(path))
    return tuple(sorted(path.relative_to(root).as_posix() for path in found.values()))


def _file_of(root: Path, module: str) -> Path | None:
    path = root.joinpath(*module.split(".")).with_suffix(".py")
    return path if module.split(".")[0] in PACKAGES and path.is_file() else None


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
