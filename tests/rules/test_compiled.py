"""Compiled functions use nothing that other modules define: their kept code is made anew with their own alone."""

from __future__ import annotations

import ast

from tests.rules.imports import in_modules, parsed

TEXT = """
import numpy as np
from tracebraid.codes import Code
OWN = 1
@compiled
def count(kinds: Kinds) -> None:
    for kind in kinds:
        np.exp(kind == Code.HOST or kind == OWN)
"""


def imported_in_compiled(text: str) -> list[str]:
    """The names that a text imports, but for numpy, and uses in the body of a compiled function."""
    if "@compiled" not in text:
        return []
    tree = list(ast.walk(parsed(text)))
    imports = [item for item in tree if isinstance(item, (ast.Import, ast.ImportFrom))]
    imported = {alias.asname or alias.name.partition(".")[0] for item in imports for alias in item.names}
    functions = [item for item in tree if isinstance(item, ast.FunctionDef) and _is_compiled(item)]
    used = (name for function in functions for line in function.body for name in ast.walk(line))
    found = {name.id for name in used if isinstance(name, ast.Name)}
    return sorted(found & imported - {"np"})


def _is_compiled(function: ast.FunctionDef) -> bool:
    names = (name.id for name in function.decorator_list if isinstance(name, ast.Name))
    return any(name in {"compiled", "compiled_when_large"} for name in names)


def test_the_rule_can_fail() -> None:
    assert imported_in_compiled(TEXT) == ["Code"]


def test_no_compiled_function_uses_what_another_module_defines() -> None:
    assert in_modules(lambda path: imported_in_compiled(path.read_text())) == {}
