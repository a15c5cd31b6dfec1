"""What is public is listed, documented and there."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import tracebraid
import tracebraid.api.traces
import tracebraid.compat.hta
import tracebraid.compat.hta_trace
from tests.rules.imports import MODULES, PACKAGE, in_modules, parsed, room_of

NOT_MODULES = {"__init__.py", "__main__.py", "version.py", "sitecustomize.py"}
"""Packages, the command, the one constant, and what only an injected process runs."""


def test_all_names_of_the_package_can_be_had() -> None:
    assert [name for name in tracebraid.__all__ if getattr(tracebraid, name, None) is None] == []


def test_the_package_exposes_nothing_but_its_list() -> None:
    assert dir(tracebraid) == sorted(tracebraid.__all__)


def test_nothing_else_is_public() -> None:
    """In a new process, since importing a room binds its name in the package."""
    code = "import tracebraid; print(*(name for name in vars(tracebraid) if not name.startswith('_')))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_no_room_has_the_name_of_a_public_one() -> None:
    assert {room_of(module) for module in MODULES} & set(tracebraid.__all__) == set()


def test_type_checkers_see_every_name_where_it_is_loaded_from() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (seen,) = [item for item in tree.body if isinstance(item, ast.If)]
    imports = [item for item in seen.body if isinstance(item, ast.ImportFrom)]
    assert {alias.name: item.module for item in imports for alias in item.names} == tracebraid._HOME_OF


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        tracebraid.nonsense  # noqa: B018


def test_every_error_is_in_the_drawing_of_the_tree() -> None:
    from tracebraid import errors

    assert [name for name in errors.__all__ if name not in (errors.__doc__ or "")] == []


def test_a_module_lists_what_is_public_and_documents_it() -> None:
    modules = [path for path in MODULES if path.name not in NOT_MODULES]
    assert in_modules(unlisted_or_undocumented, modules) == {}


def unlisted_or_undocumented(path: Path) -> list[str]:
    """The public names of a module that are not in its list, or that have no docstring; `__doc__` without its own."""
    name = ".".join(("tracebraid", *path.relative_to(PACKAGE).with_suffix("").parts))
    module = importlib.import_module(name)
    found = [] if module.__doc__ else ["__doc__"]
    public = public_names(inspect.getsource(module))
    found += sorted(public - set(getattr(module, "__all__", ())))
    objects = {key: value for key in sorted(public) if callable(value := getattr(module, key))}
    own = {key: value for key, value in objects.items() if getattr(value, "__module__", None) == name}
    return found + [key for key, value in own.items() if not inspect.getdoc(value)]


def public_names(text: str) -> set[str]:
    """What a module defines under a name without an underscore: functions, classes, constants."""
    found: set[str] = set()
    for item in parsed(text).body:
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(item.name)
        elif isinstance(item, ast.Assign) and not ast.unparse(item.value).startswith("TypeVar("):
            found |= {target.id for target in item.targets if isinstance(target, ast.Name)}
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            found.add(item.target.id)
    return {name for name in found if not name.startswith("_")} - {"TYPE_CHECKING"}


def test_the_search_for_public_names_finds_functions_classes_and_constants() -> None:
    text = "A = 1\nB: int = 2\n_C = 3\ndef f(): D = 4\nclass E: G = 5\n"
    assert public_names(text) == {"A", "B", "f", "E"}


@pytest.mark.parametrize(
    "module",
    [tracebraid.api.traces, tracebraid.compat.hta, tracebraid.compat.hta_trace],
    ids=lambda one: one.__name__,
)
def test_the_examples_in_docstrings_run(module: ModuleType) -> None:
    failed, tried = doctest.testmod(module)
    assert tried > 0
    assert failed == 0
