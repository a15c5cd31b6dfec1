"""Small files, short functions, few parameters."""

from __future__ import annotations

import ast

from tests.rules.imports import MODULES, PACKAGE, in_modules, parsed

NATIVE = sorted([*PACKAGE.rglob("*.cpp"), *PACKAGE.rglob("*.h")])
LINES_OF_A_FILE = 400
LINES_OF_A_FUNCTION = 50
PARAMETERS = 5

EXCEPTIONS: set[str] = {
    "advise.advise",
    "analyze.analyze",
    "capture.capture",
    "capturing.capture",
    "chakra_converter.chakra_converter",
    "chakra_trace_link.chakra_trace_link",
    "check.check",
    "converting.convert_chakra",
    "critical_path.critical_path",
    "diff.diff",
    "export.export",
    "generate.generate",
    "link.link",
    "measuring.metrics",
    "metrics.metrics",
    "pack.pack",
    "packing.pack",
    "report.report",
    "run.run",
    "show.show",
    "sql.sql",
    "summary.summary",
    "trace_link.trace_link",
    "traces.open",
    "view.view",
    "what_if.what_if",
}
"""`module.function` that break a rule on purpose: the options of a command, a profiler or a job are its parameters,
and so are those of a method of the standard library in whose place it stands."""


def test_a_file_is_small() -> None:
    assert NATIVE
    lines = {path: path.read_text().count("\n") for path in MODULES + NATIVE}
    assert {path: count for path, count in lines.items() if count > LINES_OF_A_FILE} == {}


def test_functions_are_short_and_take_few_parameters() -> None:
    assert in_modules(lambda module: too_large(module.stem, module.read_text()) - EXCEPTIONS) == {}


def test_each_exception_is_needed() -> None:
    found = in_modules(lambda module: too_large(module.stem, module.read_text()))
    assert EXCEPTIONS - {name for names in found.values() for name in names} == set()


def test_the_rule_bites() -> None:
    long = "def f():\n" + "    x = 1\n" * LINES_OF_A_FUNCTION
    many = f"def g(self, {', '.join('abcdef')}): pass\n"
    assert too_large("m", f"{long}\n{many}\ndef h(self, a, b, c, d, *, e): pass\n") == {"m.f", "m.g"}


def too_large(module: str, text: str) -> set[str]:
    """The functions of a module, as `module.function`, that are too long or take too many parameters."""
    return {
        f"{module}.{item.name}"
        for item in ast.walk(parsed(text))
        if isinstance(item, ast.FunctionDef)
        and (_lines(item) > LINES_OF_A_FUNCTION or _parameters(item) > PARAMETERS)
    }


def _lines(function: ast.FunctionDef) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def _parameters(function: ast.FunctionDef) -> int:
    arguments = function.args.args + function.args.kwonlyargs
    return len([one for one in arguments if one.arg not in ("self", "cls")])
