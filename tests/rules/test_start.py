"""What the command line loads before it knows what is asked of it."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tracebraid.cli.commands import CHAKRA_COMMANDS, COMMANDS, app, docstring_of

HEAVY = {"polars", "numpy", "msgspec", "rapidfuzz", "isal", "torch", "pandas", "rich", "numba"}
LOADED = """
import json, sys
sys.argv[0] = "tracebraid"
from tracebraid.cli.main import run
try:
    run()
except SystemExit:
    pass
print(file=sys.stderr)
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def loaded_by(*arguments: str) -> tuple[str, set[str]]:
    """What a command line prints, and which modules it has loaded at its end."""
    command = [sys.executable, "-c", LOADED, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout, set(json.loads(done.stderr.splitlines()[-1]))


def test_the_help_loads_no_command_and_nothing_that_a_command_needs() -> None:
    text, modules = loaded_by("--help")
    assert modules & HEAVY == set()
    own = {name for name in modules if name.startswith("tracebraid.")}
    assert own == {
        *(
            "tracebraid.cli",
            "tracebraid.cli.main",
            "tracebraid.cli.commands",
            "tracebraid.cli.standard_output",
        ),
        *("tracebraid._homes", "tracebraid.ctrl_c", "tracebraid.errors", "tracebraid.version"),
    }
    assert [name for name in COMMANDS if f"  {name} " not in text] == []


def test_the_version_is_printed_without_the_library_that_reads_options() -> None:
    text, modules = loaded_by("--version")
    assert text.split()[0] == "tracebraid"
    assert modules & (HEAVY | {"typer", "click", "tracebraid.cli.commands"}) == set()


def test_the_version_is_the_same_where_an_option_stands_beside_it() -> None:
    assert loaded_by("--version", "info")[0] == loaded_by("--version")[0]


def test_a_command_does_load_what_it_needs() -> None:
    """The rule above can fail."""
    assert "polars" in loaded_by("link", "--help")[1]


def test_numba_is_loaded_for_the_dependency_graph_alone(demo: Path) -> None:
    """It is an extra, and slow to load."""
    code = "import sys, tracebraid; [getattr(tracebraid, name) for name in tracebraid.__all__]; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"tracebraid", "polars"} <= set(done.stdout.split())
    assert "numba" not in done.stdout.split()
    text, modules = loaded_by("summary", str(demo))
    assert text
    assert "numba" not in modules
    assert "numba" in loaded_by("advise", str(demo), "--by-graph")[1]


@pytest.mark.parametrize(
    ("package", "name"),
    [
        *(("tracebraid.cli", name) for name in COMMANDS if name != "chakra"),
        *(("tracebraid.cli.chakra", name) for name in CHAKRA_COMMANDS),
    ],
)
def test_a_command_s_help_is_its_docstring(package: str, name: str) -> None:
    from importlib import import_module

    function = name.replace("-", "_")
    found = getattr(import_module(f"{package}.{function}"), function)
    assert docstring_of(name, package) == inspect.getdoc(found)
    assert docstring_of(name, package)


def test_every_command_is_in_the_list() -> None:
    import tracebraid.cli

    shared = {
        "__init__",
        "analysis_question",
        "chakra_choices",
        "commands",
        "job_options",
        "main",
        "matching",
        "option_members",
        "output",
        "ranks",
        "ranks_of_graph",
        "simulation_answers",
        "standard_output",
        "table_output",
        "transformer_choices",
    }
    modules = {path.stem for path in Path(tracebraid.cli.__file__).parent.glob("*.py")}
    assert {name.replace("-", "_") for name in COMMANDS} - {"chakra"} == modules - shared
    assert app.info.cls is not None


def test_every_command_of_chakra_is_in_its_list() -> None:
    import tracebraid.cli.chakra

    modules = {path.stem for path in Path(tracebraid.cli.chakra.__file__).parent.glob("*.py")} - {"__init__"}
    assert {name.replace("-", "_") for name in CHAKRA_COMMANDS} == modules
