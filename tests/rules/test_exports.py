"""What is public is listed, documented and there."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
from types import ModuleType

import pytest

import tracebraid
import tracebraid.analyses
import tracebraid.api.measuring
import tracebraid.api.traces
import tracebraid.chakra
import tracebraid.compat.hta
import tracebraid.compat.hta_trace
import tracebraid.errors
import tracebraid.plugins
import tracebraid.results
from tests.rules.imports import MODULES, room_of

PUBLIC = [
    tracebraid,
    tracebraid.analyses,
    tracebraid.chakra,
    tracebraid.errors,
    tracebraid.plugins,
    tracebraid.results,
]
"""The public modules, apart from `tracebraid.compat`."""


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_all_names_of_a_public_module_can_be_had(module: ModuleType) -> None:
    assert [name for name in module.__all__ if getattr(module, name, None) is None] == []


@pytest.mark.parametrize(
    "module", [tracebraid, tracebraid.analyses, tracebraid.chakra], ids=lambda it: it.__name__
)
def test_a_public_package_exposes_nothing_but_its_list(module: ModuleType) -> None:
    assert dir(module) == sorted(module.__all__)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    "name", ["tracebraid", "tracebraid.chakra", "tracebraid.plugins", "tracebraid.results"]
)
def test_nothing_else_is_public(name: str) -> None:
    """In a new process, since importing a room binds its name in the package."""
    code = f"import {name} as it; print(*(name for name in vars(it) if not name.startswith('_')))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    has_list = name in ("tracebraid.plugins", "tracebraid.results")
    expected = {*sys.modules[name].__all__, "annotations"} if has_list else set()
    within = {"chakra"} if name == "tracebraid.chakra" else set()
    assert set(result.stdout.split()) - within == expected


def test_a_name_is_public_in_one_module() -> None:
    homes: dict[str, list[str]] = {}
    for module in PUBLIC:
        for name in module.__all__:
            homes.setdefault(name, []).append(module.__name__)
    assert {name for name, modules in homes.items() if len(modules) > 1} == {
        "check",  # of a job, and of `.et` files
        # The errors that most calls raise; the whole tree stands in `tracebraid.errors`.
        *("ArgumentError", "InputError", "TracebraidError"),
    }


def test_no_room_has_the_name_of_a_public_one() -> None:
    modules = {module.__name__.partition(".")[2] for module in PUBLIC} - {""}
    assert {room_of(module) for module in MODULES} & set(tracebraid.__all__) == modules


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="No tracebraid attribute nonsense"):
        tracebraid.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_every_error_is_in_the_drawing_of_the_tree() -> None:
    assert [name for name in tracebraid.errors.__all__ if name not in (tracebraid.errors.__doc__ or "")] == []


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_public_functions_and_classes_are_documented(module: ModuleType) -> None:
    found = [getattr(module, name) for name in module.__all__]
    assert [each for each in found if callable(each) and not inspect.getdoc(each)] == []


@pytest.mark.parametrize(
    "module",
    [
        tracebraid.analyses,
        tracebraid.api.measuring,
        tracebraid.api.traces,
        tracebraid.compat.hta,
        tracebraid.compat.hta_trace,
    ],
    ids=lambda one: one.__name__,
)
def test_the_examples_in_docstrings_run(module: ModuleType) -> None:
    failed, tried = doctest.testmod(module)
    assert tried > 0
    assert failed == 0
