"""Captures that tests compare with a clock: shared by all processes of a run, and made again on a busy machine.

A figure that two clocks measure agrees only where nothing came between the two readings. So a capture says how much
did (`disturbance`); above a limit it is made once more, and the calmer is kept. The tests'
own limits do not move with it.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

ATTEMPTS = 2

Capture = Callable[[Path], object]
"""Records into a folder that is not there yet."""
Disturbance = Callable[[Path], float]
"""How much other work came between what a capture timed, as a share of what it timed."""


def undisturbed(_: Path) -> float:
    """Of what is not compared with a clock."""
    return 0.0


def calmest(folder: Path, capture: Capture, disturbance: Disturbance, limit: float) -> Path:
    """The first capture below `folder` that was disturbed by no more than the limit, or else the calmer of two."""
    found: list[tuple[float, Path]] = []
    while len(found) < ATTEMPTS and (not found or min(found)[0] > limit):
        target = folder / f"attempt_{len(found)}"
        capture(target)
        found.append((disturbance(target), target))
    return min(found)[1]


def shared_capture(
    factory: pytest.TempPathFactory,
    name: str,
    capture: Capture,
    disturbance: Disturbance = undisturbed,
    limit: float = 0.0,
) -> Path:
    """A capture that the processes of a run make once between them; tests only read it."""
    own = factory.getbasetemp()
    folder = (own.parent if own.name.startswith("popen-") else own) / name
    folder.mkdir(exist_ok=True)
    chosen = folder / "chosen"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not chosen.exists():
            chosen.write_text(str(calmest(folder, capture, disturbance, limit)))
    return Path(chosen.read_text())
