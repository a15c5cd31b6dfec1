"""Calls upon each trace of a folder, whatever it is called."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import tracebraid
from tools.fuzz.calls.commands import run_command
from tools.fuzz.model import Call

__all__ = ["CHECK", "INFO", "OPEN", "input_files"]


def input_files(folder: Path) -> Iterator[Path]:
    """The files of a mutant, in order; what calls wrote below `out` is none."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.relative_to(folder).parts[0] != "out":
            yield path


def _info(folder: Path, rng: random.Random) -> None:
    run_command("info", folder, *rng.choice([(), ("--json",)]))


def _check(folder: Path, rng: random.Random) -> None:
    run_command("check", folder, *rng.choice([(), ("--json",), ("--repair",), ("--repair", "--json")]))


def _open(folder: Path, _: random.Random) -> None:
    tracebraid.open(folder)


INFO = Call("info", _info)
CHECK = Call("check", _check)
OPEN = Call("tracebraid.open", _open)
