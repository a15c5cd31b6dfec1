"""An extra that is missing is noticed before anything is read: the traces of these commands do not exist."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TypeAlias

import pytest

from tests.waiting import HANG_S

Ended: TypeAlias = dict[str, tuple[int, str]]
BLOCKED = """
import contextlib, io, json, sys
from tracebraid.cli.main import run
ended = {}
for module, *words in json.loads(sys.argv[1]):
    sys.modules[module] = None
    sys.argv = ["tracebraid", *words]
    with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(io.StringIO()):
        try:
            run()
            code = 0
        except SystemExit as end:
            code = end.code
    del sys.modules[module]
    ended[" ".join([module, *words])] = code, said.getvalue()
print(json.dumps(ended))
"""
"""Runs commands one after the other, each without a module, and says how they end: none of them loads the module."""
COMMANDS = [
    ("sql", "duckdb", ["sql", "gone", "select 1"]),
    ("report", "jinja2", ["report", "gone", "-o", "new.html"]),
    ("report", "jinja2", ["view", "gone"]),
    ("report", "jinja2", ["diff", "gone", "gone", "-o", "new.html"]),
    ("chakra", "google.protobuf", ["export", "gone", "--to", "chakra", "-o", "new"]),
    ("chakra", "google.protobuf", ["chakra", "check", "gone"]),
    ("chakra", "google.protobuf", ["chakra", "run", "gone"]),
    ("chakra", "google.protobuf", ["chakra", "stats", "gone"]),
    ("chakra", "google.protobuf", ["chakra", "json", "gone.et"]),
    (
        "chakra",
        "google.protobuf",
        ["chakra-jsonizer", "--input_filename", "gone", "--output_filename", "new"],
    ),
    ("ray", "ray", ["summary", "gone", "--engine", "ray"]),
]
WITHOUT = [
    ("duckdb", ["sql", "--tables"], 0),
    ("jinja2", ["report", "gone", "--json"], 1),
    ("jinja2", ["diff", "gone", "gone"], 1),
    ("google.protobuf", ["export", "gone", "--to", "json", "-o", "new"], 1),
    ("google.protobuf", ["chakra", "--help"], 0),
    ("google.protobuf", ["advise", "gone"], 1),
    ("ray", ["summary", "gone"], 1),
]
"""Commands that need nothing of what is missing, and how they end where there are no traces."""


@pytest.fixture(scope="module")
def ended() -> Ended:
    """The exit code of each command, and what it says on standard error."""
    lines = [(module, *words) for _, module, words in COMMANDS] + [
        (module, *words) for module, words, _ in WITHOUT
    ]
    command = [sys.executable, "-c", BLOCKED, json.dumps(lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANG_S)
    found: Ended = json.loads(done.stdout)
    return found


@pytest.mark.full
@pytest.mark.parametrize(("extra", "module", "arguments"), COMMANDS, ids=lambda value: str(value)[:40])
def test_what_is_missing_is_said_first(ended: Ended, extra: str, module: str, arguments: list[str]) -> None:
    code, printed = ended[" ".join([module, *arguments])]
    assert (code, f"pip install 'tracebraid[{extra}]'" in printed, len(printed.splitlines())) == (1, True, 1)


@pytest.mark.parametrize(("module", "arguments", "code"), WITHOUT, ids=lambda value: str(value)[:40])
def test_what_needs_it_not_runs_without(ended: Ended, module: str, arguments: list[str], code: int) -> None:
    found, printed = ended[" ".join([module, *arguments])]
    assert (found, "pip install" in printed) == (code, False)
