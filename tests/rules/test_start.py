"""What the command line loads before it knows what is asked of it."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import tracebraid.cli
from tracebraid.cli.commands import COMMANDS, Command

HEAVY = {"polars", "numpy", "msgspec", "rapidfuzz", "isal", "torch", "pandas", "rich"}
OWN_MODULES = {("summary",): 235, ("analyze", "breakdown"): 142}
"""The most modules of our own that a question about the demo imports."""
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
            "tracebraid.cli.parameters",
            "tracebraid.cli.standard_output",
        ),
        *("tracebraid._lazy", "tracebraid.ctrl_c", "tracebraid.errors", "tracebraid.extras"),
        "tracebraid.version",
    }
    assert [name for name in COMMANDS if f"  {name} " not in text] == []


@pytest.mark.full
def test_the_version_is_printed_without_the_library_that_reads_options() -> None:
    text, modules = loaded_by("--version")
    assert text.split()[0] == "tracebraid"
    assert modules & (HEAVY | {"click", "tracebraid.cli.commands"}) == set()


@pytest.mark.full
def test_the_version_is_the_same_where_an_option_stands_beside_it() -> None:
    assert loaded_by("--version", "info")[0] == loaded_by("--version")[0]


@pytest.mark.full
def test_a_command_does_load_what_it_needs() -> None:
    """The rule above can fail."""
    assert "polars" in loaded_by("link", "--help")[1]


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(("command", "most"), OWN_MODULES.items(), ids=["summary", "analyze breakdown"])
def test_a_question_imports_what_it_needs(command: tuple[str, ...], most: int, demo: Path) -> None:
    text, modules = loaded_by(*command, str(demo))
    assert text
    assert sum(name.split(".")[0] == "tracebraid" for name in modules) <= most


DATACLASSES = {
    *("ExecutionTrace", "Job", "LinkedRanks", "LinkedTrace", "Timeline"),
    *("ArchiveFiles", "Reshaping"),
    *("CaptureOutcome", "ProcessNote", "Recorded"),
}
"""Those that stores fill as they are read or `replace` makes anew in part, those with computed fields, and those that
each process of a captured program loads, which has no msgspec."""


def test_other_records_are_structs() -> None:
    """To make a dataclass takes thirty times as long, at each start."""
    sources = Path(tracebraid.__file__).parent.rglob("*.py")
    found = [re.findall(r"@dataclass.*\nclass (\w+)", path.read_text(encoding="utf-8")) for path in sources]
    assert sorted(name for names in found for name in names) == sorted(DATACLASSES)


EVERY = [*(each for each in COMMANDS.values() if not each.own), *COMMANDS["chakra"].own.values()]


@pytest.mark.parametrize("command", EVERY, ids=lambda command: command.module.partition("cli.")[2])
def test_a_command_s_help_is_its_docstring(command: Command) -> None:
    function = getattr(import_module(command.module), command.name.replace("-", "_"))
    assert command.help == inspect.getdoc(function)
    assert command.help


def test_every_declared_command_is_found() -> None:
    sources = Path(tracebraid.cli.__file__).parent.rglob("*.py")
    assert sum(path.read_text().count("\n@command(") for path in sources) == len(EVERY)
