"""Change the package in one place at a time, and list the changes that no test notices.

    python -m tools.mutation --mutants 100 --seed 1 --below analysis

    make coverage
    python -m tools.mutation --mutants 60 --ran-by .coverage

A mutant is a module with one operator, condition, constant, return value or statement changed. It is never written to
disk: a forked process loads it in place of the module, and runs the tests nearest to the module, by the names that
they use, until one fails or the time is up. Tests that start processes or run torch are left out. With `--ran-by` it
runs the tests that ran the changed line: those of the gate (`make test`), and all if none of these fails. Processes
that a test starts load the module from disk, without the change.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

import polars as pl  # noqa: F401 - loaded once for all mutants
import pytest
from coverage import CoverageData

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "tracebraid"
LEFT_OUT = ("recorders", "engine", "child_process")  # What is tested in other processes.
PROCESSES = re.compile(r"^\s*(import|from) (subprocess|torch|multiprocessing|ray|tests\.browser)", re.M)
PAIRS = [
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn)),
    *((ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.FloorDiv), (ast.BitAnd, ast.BitOr)),
]
SWAPPED: dict[type, type] = {ast.Div: ast.Mult, **dict(PAIRS), **{other: one for one, other in PAIRS}}


def sites(tree: ast.Module) -> Iterator[tuple[Any, Callable[[Any], object]]]:
    """The nodes of a module that can be changed, in the order of the tree, and the change of each."""
    for node in _run_code(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
            yield node, lambda found: found.ops.__setitem__(0, SWAPPED[type(found.ops[0])]())
        elif isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in SWAPPED and not _joins_text(node):
            yield node, lambda found: setattr(found, "op", SWAPPED[type(found.op)]())
        elif isinstance(node, (ast.If, ast.IfExp, ast.While)):
            yield node, lambda found: setattr(found, "test", ast.UnaryOp(ast.Not(), found.test))
        elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
            other = not node.value if isinstance(node.value, bool) else node.value + 1
            yield node, lambda found, other=other: setattr(found, "value", other)  # type: ignore[misc]
        elif isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
            yield node, lambda found: setattr(found, "value", ast.Constant(None))
        for at, statement in enumerate(getattr(node, "body", ()) if isinstance(node, ast.stmt) else ()):
            is_call = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
            if is_call or isinstance(statement, (ast.AugAssign, ast.Break, ast.Continue)):
                yield node, lambda found, at=at: found.body.__setitem__(at, ast.Pass())  # type: ignore[misc]


def _run_code(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it, but for annotations, decorators, assertions and sentences."""
    yield node
    for field, value in ast.iter_fields(node):
        children = () if field in ("annotation", "returns", "decorator_list") else value
        for child in children if isinstance(children, (list, tuple)) else [children]:
            if isinstance(child, ast.AST) and not isinstance(child, (ast.Assert, ast.Raise, ast.JoinedStr)):
                yield from _run_code(child)


def _joins_text(node: ast.AST) -> bool:
    parts = ast.iter_child_nodes(node)
    return any(isinstance(part, ast.Constant) and isinstance(part.value, (str, bytes)) for part in parts)


def mutant(path: Path, number: int) -> tuple[ast.Module, str]:
    """A module with its site of that number changed, and the change as text."""
    tree = ast.parse(path.read_text())
    node, change = list(sites(tree))[number]
    before = copy.deepcopy(node)
    change(node)
    ast.fix_missing_locations(tree)
    old, new = (ast.unparse(one).splitlines() for one in (before, node))
    at = next((at for at, lines in enumerate(zip(old, new, strict=False)) if lines[0] != lines[1]), 0)
    return tree, f"{path.relative_to(PACKAGE)}:{node.lineno}: {old[at].strip()} -> {new[at].strip()}"


class _Loader(SourceFileLoader):
    """Finds and loads the changed module in place of the one on disk."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        super().__init__(name, str(path))
        self.tree = tree

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return spec_from_file_location(fullname, self.path, loader=self) if fullname == self.name else None

    def get_code(self, fullname: str) -> Any:
        return compile(self.tree, self.path, "exec", dont_inherit=True)


@cache
def names(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """The names that a file defines at its top, and those that it uses."""
    tree = ast.parse(path.read_text())
    tops = [*tree.body, *(part for node in tree.body for part in getattr(node, "targets", ()))]
    defined = frozenset(getattr(node, "name", getattr(node, "id", "")) for node in tops) - {""}
    parts = (getattr(node, key, "") for node in ast.walk(tree) for key in ("id", "attr", "name", "value"))
    return defined, frozenset(part for part in parts if isinstance(part, str)) - defined


def nearest_tests(module: Path) -> list[Path]:
    """The test files that use a name of the module, then those that use what uses it, and so on."""
    tests = {path for path in (ROOT / "tests").rglob("test_*.py") if not PROCESSES.search(path.read_text())}
    helpers = [path for path in (ROOT / "tests").rglob("*.py") if not path.name.startswith("test_")]
    others = {*PACKAGE.rglob("*.py"), *helpers} - {module}
    room = module.relative_to(PACKAGE).parts[0].removesuffix(".py")
    wanted, found = names(module)[0], list[Path]()
    for _ in range(4):
        near = [path for path in tests if wanted & names(path)[1]]
        found += sorted(near, key=lambda path: (f"/{room}" not in str(path), path.stat().st_size))
        tests -= set(near)
        users = {path for path in others if wanted & names(path)[1]}
        others -= users
        wanted = frozenset(name for path in users for name in names(path)[0] if len(name) > 4)
    return found


def tests_that_ran(data: Path, module: Path, line: int) -> list[str]:
    """The tests that ran a line of a module, as coverage has recorded it: those of its room first."""
    recorded = CoverageData(str(data))
    recorded.read()
    found = recorded.contexts_by_lineno(str(module)).get(line, [])
    room = f"/{module.relative_to(PACKAGE).parts[0].removesuffix('.py')}"
    return sorted(
        {name.partition("|")[0] for name in found} - {""}, key=lambda name: (room not in name, name)
    )


def tried(path: Path, tree: ast.Module, tests: list[str], options: list[str], seconds: int) -> str:
    """The first test that fails of a mutant; "" where none does."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (2 * seconds, 2 * seconds))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.write(writing, _first_failure(path, tree, tests, options, seconds).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        failed = said.read()
    status = os.waitpid(child, 0)[1]
    assert not os.WIFEXITED(status) or not status, "the tests could not be run"
    return "it hangs or crashes" if status else failed


def _first_failure(path: Path, tree: ast.Module, tests: list[str], options: list[str], seconds: int) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    sys.meta_path.insert(0, _Loader(".".join(parts).removesuffix(".__init__"), path, tree))
    failed: list[str] = []

    class First:
        def pytest_runtest_logreport(self, report: Any) -> None:
            failed.extend([report.nodeid] * report.failed)
            if failed or time.process_time() > seconds:
                pytest.exit("it is known")

        pytest_collectreport = pytest_runtest_logreport

    options = [*options, "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    first, count = 0, 4
    while first < len(tests) and not failed and time.process_time() < seconds:
        done = pytest.main([*options, *tests[first : first + count]], plugins=[First()])
        assert done not in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR)
        first, count = first + count, 2 * count
    return failed[0] if failed else ""


def main() -> None:
    """Try mutants, and print how each ended and how many were killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=100, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="of their choice")
    parser.add_argument("--below", default="", help="a folder of the package")
    parser.add_argument("--seconds", type=int, default=60, help="of processor time for the tests of each")
    parser.add_argument("--ran-by", type=Path, help="what coverage recorded, with the tests as contexts")
    options = parser.parse_args()
    suites = {"killed": ["-m", "not slow and not torch"]}
    if options.ran_by:
        suites = {"gate": ["--gate"], "full": []}
    places = [
        (path, number)
        for path in sorted((PACKAGE / options.below).rglob("*.py"))
        if not str(path.relative_to(PACKAGE)).startswith(LEFT_OUT)
        for number in range(sum(1 for _ in sites(ast.parse(path.read_text()))))
    ]
    ends: Counter[str] = Counter()
    for path, number in random.Random(options.seed).sample(places, min(options.mutants, len(places))):
        tree, change = mutant(path, number)
        tests = tests_that_ran(options.ran_by, path, int(change.split(":")[1])) if options.ran_by else []
        # What runs when a module is imported has no test of its own.
        tests = tests or list(map(str, nearest_tests(path)))
        failures = (
            (suite, tried(path, tree, tests, more, options.seconds)) for suite, more in suites.items()
        )
        end, by = next(((suite, f"[{failed}]") for suite, failed in failures if failed), ("SURVIVED", ""))
        ends[end] += 1
        print(f"{end:8}", change, by, flush=True)
    print(dict(ends))


if __name__ == "__main__":
    main()
