"""Small files, short functions, few parameters."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "tracebraid"
MODULES = sorted(PACKAGE.rglob("*.py"))
NATIVE = sorted([*PACKAGE.rglob("*.cpp"), *PACKAGE.rglob("*.h")])
LINES_OF_A_FILE = 400
LINES_OF_A_FUNCTION = 50
PARAMETERS = 5

EXCEPTIONS: set[str] = {
    "advise.advise",
    "analyze.analyze",
    "capture.capture",
    "capturing.capture",
    "chakra_trace_link.chakra_trace_link",
    "diff.diff",
    "link.link",
    "measuring.metrics",
    "metrics.metrics",
    "summary.summary",
    "trace_link.trace_link",
}
"""`module.function` that break a rule on purpose: the options of a command, or of a profiler, are its parameters."""


@pytest.mark.parametrize("module", MODULES + NATIVE, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_is_small(module: Path) -> None:
    assert module.read_text().count("\n") <= LINES_OF_A_FILE


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_functions_are_short_and_take_few_parameters(module: Path) -> None:
    too_large = {
        f"{module.stem}.{item.name}"
        for item in ast.walk(ast.parse(module.read_text()))
        if isinstance(item, ast.FunctionDef)
        and (_lines(item) > LINES_OF_A_FUNCTION or _parameters(item) > PARAMETERS)
    }
    assert too_large <= EXCEPTIONS


def _lines(function: ast.FunctionDef) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def _parameters(function: ast.FunctionDef) -> int:
    arguments = function.args.args + function.args.kwonlyargs
    return len([one for one in arguments if one.arg not in ("self", "cls")])
