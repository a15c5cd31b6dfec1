"""Asks a mutant what its format asks, in this process, and says what failed."""

from __future__ import annotations

import random
import shutil
import traceback
from pathlib import Path

import tracebraid
from tools.fuzz.formats import format_of
from tools.fuzz.model import Call, Failure, FailureError, FailureKind, Mutant

__all__ = ["calls_of", "lay_out", "try_call"]

_CHOSEN = 2
"""How many of a format's further calls are drawn for a mutant."""

_PACKAGE = str(Path(tracebraid.__file__).parent)


def lay_out(mutant: Mutant, folder: Path) -> None:
    """Write the files of a mutant into a folder, which is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in mutant.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def calls_of(mutant: Mutant) -> list[Call]:
    """What is asked of a mutant: the calls of its format, and some of the chosen."""
    found, rng = format_of(mutant.format), random.Random(f"calls {mutant.seed}")
    return [*found.calls, *rng.sample(list(found.chosen), min(_CHOSEN, len(found.chosen)))]


def try_call(mutant: Mutant, call: Call, folder: Path) -> Failure | None:
    """Ask once, and say what failed; errors of ours are answers."""
    try:
        call.ask(folder, random.Random(f"{call.name} {mutant.seed}"))
    except tracebraid.TracebraidError:
        return None
    except FailureError as error:
        return Failure(error.kind, call.name, str(error), "")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
        message = f"{type(error).__name__}: {error}"
        return Failure(FailureKind.FOREIGN_EXCEPTION, call.name, message, _place(error))
    return None


def _place(error: BaseException) -> str:
    """The innermost line of the package that the error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(_PACKAGE)]
    return f"{ours[-1].filename[len(_PACKAGE) + 1 :]}:{ours[-1].lineno}" if ours else ""
