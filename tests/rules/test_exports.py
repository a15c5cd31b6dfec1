"""What is public is listed, documented and there."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
from pathlib import Path
from types import ModuleType

import pytest

import tracebraid
import tracebraid.api.traces
import tracebraid.compat.hta
import tracebraid.compat.hta_trace

PACKAGE = Path(tracebraid.__file__).parent
MODULES = sorted(
    "tracebraid." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
    if path.name not in ("__init__.py", "__main__.py")
)


def test_all_names_of_the_package_can_be_had() -> None:
    assert [name for name in tracebraid.__all__ if getattr(tracebraid, name, None) is None] == []


def test_the_package_exposes_nothing_but_its_list() -> None:
    assert dir(tracebraid) == sorted(tracebraid.__all__)


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


@pytest.mark.parametrize("name", MODULES)
def test_a_module_lists_what_is_public_and_documents_it(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    listed = module.__all__ if hasattr(module, "__all__") else []
    own = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and getattr(value, "__module__", None) == name and inspect.isroutine(value)
    }
    classes = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and inspect.isclass(value) and value.__module__ == name
    }
    if name != "tracebraid.version":
        assert own | classes <= set(listed)
    assert [key for key in own | classes if not inspect.getdoc(getattr(module, key))] == []


@pytest.mark.parametrize(
    "module",
    [tracebraid.api.traces, tracebraid.compat.hta, tracebraid.compat.hta_trace],
    ids=lambda one: one.__name__,
)
def test_the_examples_in_docstrings_run(module: ModuleType) -> None:
    failed, tried = doctest.testmod(module)
    assert tried > 0
    assert failed == 0
