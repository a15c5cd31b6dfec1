"""The injected file runs in each Python that there is: none must stumble over its syntax."""

from __future__ import annotations

import ast
from pathlib import Path

import tracebraid

INJECTED = Path(tracebraid.__file__).parent / "recorders" / "launcher" / "inject" / "sitecustomize.py"
AFTER_PYTHON_2 = (
    *(
        ast.AnnAssign,
        ast.JoinedStr,
        ast.Nonlocal,
        ast.Starred,
        ast.NamedExpr,
        ast.Await,
        ast.AsyncFunctionDef,
    ),
    *(ast.YieldFrom, ast.MatMult, ast.Match),
)


def test_it_is_alone_in_its_folder() -> None:
    """Each other file there would be a module that every program sees at its start."""
    names = {path.name for path in INJECTED.parent.iterdir()} - {"__pycache__", "sitecustomize.pyc"}
    assert names == {"sitecustomize.py"}


def test_an_old_python_3_can_read_it() -> None:
    ast.parse(INJECTED.read_text(), feature_version=(3, 4))


def test_python_2_can_read_it() -> None:
    text = INJECTED.read_text()
    assert text.isascii()
    for item in ast.walk(ast.parse(text)):
        assert not isinstance(item, AFTER_PYTHON_2)
        if isinstance(item, ast.FunctionDef):
            given = [*item.args.args, item.args.vararg, item.args.kwarg]
            assert [one for one in given if one is not None and one.annotation is not None] == []
            assert (item.returns, item.args.kwonlyargs, item.args.posonlyargs) == (None, [], [])
        if isinstance(item, ast.Raise):
            assert item.cause is None
        if isinstance(item, ast.ImportFrom):
            assert item.module != "__future__"


def test_it_imports_nothing_but_what_every_python_has_loaded() -> None:
    imports = [item for item in ast.walk(ast.parse(INJECTED.read_text())) if isinstance(item, ast.Import)]
    assert {alias.name for item in imports for alias in item.names} == {"os", "sys"}
