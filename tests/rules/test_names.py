"""Names are the field's words: a list of words that say too little is kept out of all identifiers.

What is looked at is what the source defines: variables, parameters, functions, classes, attributes and modules.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rules.imports import MODULES, PACKAGE, in_modules, parsed

_WORDS = (
    "around hung let look looks mine odd one piece pieces place places settle settled settles side sides sure tell "
    "tells theirs told turn turns"
)
WORDS = frozenset(_WORDS.split())


def defined(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Each name that a module defines, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.alias) and node.asname is not None:
            yield node.asname, node.lineno
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name is not None:
            yield node.name, node.lineno


def words_of(name: str) -> set[str]:
    """The words of a name in snake case or in camel case."""
    spaced = "".join(f"_{letter}" if letter.isupper() else letter for letter in name)
    return {*name.lower().split("_"), *spaced.lower().split("_")}


def found_in(source: str) -> list[str]:
    """Where a module defines a name with one of the words, as `line: name`."""
    return [f"{line}: {name}" for name, line in defined(parsed(source)) if words_of(name) & WORDS]


def test_no_name_has_a_word_that_says_too_little() -> None:
    assert in_modules(lambda path: found_in(path.read_text(encoding="utf-8"))) == {}


def test_no_module_or_folder_has_such_a_name() -> None:
    assert in_modules(words_of_path) == {}


def words_of_path(path: Path) -> set[str]:
    """The words that say too little in a module's dotted name."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return {word for part in parts for word in words_of(part)} & WORDS


def test_the_rule_bites_on_the_name_of_a_folder() -> None:
    assert words_of_path(PACKAGE / "pieces" / "turn_by.py") == {"pieces", "turn"}


def test_the_rule_looks_at_modules() -> None:
    assert len(MODULES) > 50


@pytest.mark.parametrize(
    "source",
    [
        "one = 1",
        "one: int = 1",
        "_ONE_TOLD = 1",
        "(one := 1)",
        "left, (right, one) = 1, (2, 3)",
        "for one in []: pass",
        "with open('x') as one: pass",
        "[1 for one in []]",
        "lambda one: 1",
        "def found(one): pass",
        "def found(*, one=1): pass",
        "def found(*one): pass",
        "def _let_go(): pass",
        "async def settle(): pass",
        "class Side: pass",
        "class InPlace: pass",
        "class Found:\n    place: int",
        "self.place = 1",
        "import json as one",
        "try:\n    pass\nexcept ValueError as odd:\n    pass",
        "match 1:\n    case one:\n        pass",
    ],
)
def test_the_rule_bites(source: str) -> None:
    assert len(found_in(source)) == 1


@pytest.mark.parametrize(
    "source",
    ["searchsorted(rows, side='right')", "print(one)", "frame.place", "phone, placement, resided = 1, 2, 3"],
)
def test_the_rule_lets_pass_what_is_defined_elsewhere_and_longer_words(source: str) -> None:
    assert found_in(source) == []
