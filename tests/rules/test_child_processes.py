"""Python processes are started in one module, which keeps the working folder out of them."""

from __future__ import annotations

import ast

import pytest

from tests.rules.imports import PACKAGE, in_modules, parsed

STARTS = {"child_process/start.py"}

IMPORT_THE_WORKING_FOLDER = {
    "ProcessPoolExecutor",
    "Process",
    "Pool",
    "get_context",
    "set_start_method",
    "forkserver",
}
"""What of multiprocessing and concurrent.futures starts Python with `-c`."""

POOLS = {"multiprocessing", "concurrent"}


def starts_python(source: str) -> list[int]:
    """The lines in which a command has this interpreter in it, or a pool of processes is asked for."""
    found = []
    for item in ast.walk(parsed(source)):
        words = item.elts if isinstance(item, ast.List | ast.Tuple) else []
        words = [*words, *item.args] if isinstance(item, ast.Call) else words
        found += [word.lineno for word in words if ast.unparse(word) == "sys.executable"]
        if isinstance(item, ast.Attribute) and item.attr in IMPORT_THE_WORKING_FOLDER:
            found.append(item.lineno)
        if isinstance(item, ast.ImportFrom) and (item.module or "").split(".")[0] in POOLS:
            found += [item.lineno for alias in item.names if alias.name in IMPORT_THE_WORKING_FOLDER]
    return found


@pytest.mark.full
@pytest.mark.slow
def test_only_the_module_for_it_starts_python() -> None:
    assert set(in_modules(lambda module: starts_python(module.read_text()))) == STARTS


@pytest.mark.parametrize(
    "source",
    [
        "subprocess.run([sys.executable, '-m', 'tracebraid'])",
        "command = (sys.executable, '-c', code)",
        "os.execv(sys.executable, words)",
        "from concurrent.futures import ProcessPoolExecutor",
        "multiprocessing.get_context('spawn')",
    ],
)
def test_the_rule_bites(source: str) -> None:
    assert starts_python(source)


def test_the_folder_of_the_script_holds_nothing_that_could_hide_a_module() -> None:
    names = [path.name for path in (PACKAGE / "child_process" / "entry").iterdir()]
    assert [name for name in names if name != "__pycache__"] == ["main.py"]
