"""Asks a mutant what its format asks, in this process, and says what failed."""

from __future__ import annotations

import random
import shutil
import time
import traceback
from pathlib import Path

import tracebraid
from tools.fuzz.formats import format_of
from tools.fuzz.model import Asked, Call, Failure, FailureError, FailureKind, Mutant, Outcome
from tracebraid.errors import InputError, TracebraidError

__all__ = ["PACKAGE", "calls_of", "lay_out", "try_call"]

_CHOSEN = 2
"""How many of a format's further calls are drawn for a mutant."""

PACKAGE = str(Path(tracebraid.__file__).parent)
"""The folder of the package: lines of its files are the places of failures."""


def lay_out(mutant: Mutant, folder: Path) -> None:
    """Write the files of a mutant into a folder, which is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, data in mutant.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def calls_of(mutant: Mutant) -> list[Call]:
    """What is asked of a mutant: the calls of its format, and some of the chosen."""
    found, rng = format_of(mutant.seed.format), random.Random(f"calls {mutant.seed}")
    chosen = rng.sample(list(found.chosen), min(_CHOSEN, len(found.chosen)))
    return list({call.name: call for call in (*found.calls, *chosen)}.values())


def try_call(mutant: Mutant, call: Call, folder: Path) -> Asked:
    """Lay a mutant out and ask once; errors of ours that name a file of it are answers."""
    lay_out(mutant, folder)
    began, failure, message = time.monotonic(), None, ""
    outcome = Outcome.ANSWERED
    try:
        call.ask(folder, random.Random(f"{call.name} {mutant.seed}"))
    except TracebraidError as error:
        outcome, message = Outcome.REFUSED, str(error)
        if not (call.names_others or _is_located(error, folder)):
            failure = _failure(FailureKind.UNLOCATED_ERROR, call, error)
    except FailureError as error:
        failure = Failure(error.kind, call.name, str(error), "", traceback.format_exc())
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, also a panic of polars, it is what is looked for
        failure = _failure(FailureKind.FOREIGN_EXCEPTION, call, error)
    took_s = time.monotonic() - began
    return Asked(call.name, took_s, Outcome.FAILED if failure else outcome, message, failure)


def _is_located(error: TracebraidError, folder: Path) -> bool:
    """Whether an error about an input names one of the mutant's."""
    return not isinstance(error, InputError) or Path(error.path).is_relative_to(folder)


def _failure(kind: FailureKind, call: Call, error: BaseException) -> Failure:
    """A failure whose place is the innermost line of the package that the error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(PACKAGE)]
    place = f"{ours[-1].filename[len(PACKAGE) + 1 :]}:{ours[-1].lineno}" if ours else ""
    lines = "".join(traceback.format_exception(error))
    return Failure(kind, call.name, f"{type(error).__name__}: {error}", place, lines)
