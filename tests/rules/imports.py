"""The modules of the package, and what they import, in whichever way it is written.

`import`, `from`, relative, or by a name in a string.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

import tracebraid

_Found = TypeVar("_Found")

PACKAGE = Path(tracebraid.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

_IMPORTERS_BY_NAME = {"import_module", "__import__", "run_module", "resolve_name"}


def in_modules(find: Callable[[Path], _Found], modules: list[Path] = MODULES) -> dict[str, _Found]:
    """What `find` finds in each module, by the module's path in the package; without those where it finds nothing."""
    found = {path.relative_to(PACKAGE).as_posix(): find(path) for path in modules}
    return {path: what for path, what in found.items() if what}


@cache
def parsed(text: str) -> ast.Module:
    """The tree of a module's text; each rule reads all modules, and none changes a tree."""
    return ast.parse(text)


def room_of(module: Path) -> str:
    """The room of a module: the first folder, or the file itself, under the package."""
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(module: Path) -> set[str]:
    """Dotted names of all that a module of the package imports, anywhere in it."""
    parts = ("tracebraid", *module.relative_to(PACKAGE).with_suffix("").parts)
    package = parts[:-1]  # of a package's `__init__`, the package; of a module, the package around it
    return imports_of_text(module.read_text(), ".".join(package))


def imports_of_text(text: str, package: str) -> set[str]:
    """Dotted names of all that a text imports which stands in a module of `package`."""
    return {name for item in ast.walk(parsed(text)) for name in _names(item, package)}


def _names(item: ast.AST, package: str) -> Iterator[str]:
    if isinstance(item, ast.Import):
        yield from (alias.name for alias in item.names)
    elif isinstance(item, ast.ImportFrom):
        base = _absolute(item.module or "", item.level, package)
        yield base
        yield from (f"{base}.{alias.name}" for alias in item.names)
    elif isinstance(item, ast.Call) and _called(item.func) in _IMPORTERS_BY_NAME:
        first = item.args[0] if item.args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            name = first.value.lstrip(".")
            yield _absolute(name, len(first.value) - len(name), package)


def _called(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _absolute(name: str, level: int, package: str) -> str:
    if not level:
        return name
    around = package.split(".")[: len(package.split(".")) - level + 1]
    return ".".join([*around, name] if name else around)
