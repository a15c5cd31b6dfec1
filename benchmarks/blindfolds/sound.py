"""Run `summary`, `check` and `advise` on sound captures and traces, and print what they doubt: there should be nothing.

    python -m benchmarks.blindfolds.sound PATH...

Without paths it takes the captures of the tests and the demo.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tracebraid
from benchmarks.measure import ROOT
from tests.integration.command import run

__all__: list[str] = []

_COMMANDS = ("summary", "check", "advise")
_DOUBTS = ("In doubt", "warning:", "error:", "doubtful", "does not show", "is not known", "does not link")
_CAPTURES = ROOT / "tests" / "captures"


def doubts(path: Path) -> list[str]:
    """The lines of the commands that doubt a capture."""
    found = []
    for command in _COMMANDS:
        done = run(command, path, COLUMNS="1000")
        lines = (done.stdout + done.stderr).splitlines()
        found += [f"{command}: {line}" for line in lines if any(doubt in line for doubt in _DOUBTS)]
    return found


def _main(paths: list[Path]) -> int:
    of_tests = [path.parent for path in sorted(_CAPTURES.rglob("kineto_trace_0.json*"))]
    paths = paths or [*of_tests, Path(tracebraid.demo_path())]
    doubted = 0
    for path in paths:
        found = doubts(path)
        doubted += bool(found)
        print(*(f"{path}: {line}" for line in found), sep="\n", end="\n" if found else "", flush=True)
    print(f"doubt is printed for {doubted:,} of {len(paths):,}")
    return 1 if doubted else 0


if __name__ == "__main__":
    sys.exit(_main([*map(Path, sys.argv[1:])]))
