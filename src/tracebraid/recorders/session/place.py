"""`Place`: the folder in which a process writes its capture; processes of one rank have one each."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

_RESTARTS = "TORCHELASTIC_RESTART_COUNT"


class Place(Struct, frozen=True):
    """Folder of a process's files.

    Args:
        folder: the folder.
        rank: the rank of the process.
        process: its number among the processes of this rank that the command captured, from 0.
        attempt: how often the program was started before: by torchrun's count, else the processes of this rank that
            died before.
        replaces: whether the files of a dead process, whose capture is empty or cut, may be replaced here.
        died: processes of this rank that died before, without a whole capture: `pid`, `attempt`, `steps_seen`,
            `ended_by`; the last two are None of one that was killed.
    """

    folder: Path
    rank: int
    process: int = 0
    attempt: int = 0
    replaces: bool = False
    died: tuple[dict[str, Any], ...] = ()


TakePlace = Callable[[int, bool], Place | None]
"""Gives the place of this process by its rank, and whether it has files to write; None: others have all places."""


def only_place(folder: Path, rank: int) -> Place:
    """The place of a process that knows of no others."""
    return Place(folder, rank, attempt=restarts() or 0)


def restarts() -> int | None:
    """Return how often torchrun has restarted the processes; None outside of torchrun."""
    count = os.environ.get(_RESTARTS, "")
    return int(count) if count.isdecimal() else None


def left_by_dead(place: Place) -> list[Path]:
    """Temporary files that processes which died left in a place."""
    folders = (place.folder, *place.folder.glob("window_*"))
    return [
        path for folder in folders for died in place.died for path in folder.glob(f".*.{died['pid']}-*.part*")
    ]
