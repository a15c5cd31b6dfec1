"""The notes of a command's Python processes for the launcher: how far each capture came, and what prevented it.

A process leaves `<pid>.python` when it starts with the injected file, `<pid>.failed` where it cannot be captured, and
`<pid>.json` once it watches for steps, which it writes again at its end. The launcher
distinguishes causes by which of these exist. Files that say which process has which place are there too: `places.py`.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from tracebraid.model.capture_outcome import ProcessNote
from tracebraid.recorders.own_process import getpid, started_at

NOTES_VARIABLE = "TRACEBRAID_NOTES"
"""The variable of the environment that names the folder of notes."""


_SUFFIXES = (".python", ".failed", ".json")


def notes_folder() -> Path | None:
    """The folder of notes; None where this process has none, or cannot reach it."""
    folder = os.environ.get(NOTES_VARIABLE)
    return Path(folder) if folder and os.path.isdir(folder) else None  # noqa: PTH112 - It raises nothing.


def write_note(stage: str, **more: Any) -> None:
    """Write this process's note, replacing an earlier one; if it cannot be written, nothing happens."""
    folder = notes_folder()
    if folder is None:
        return
    target = folder / f"{getpid()}.json"
    part = target.with_suffix(".part")
    with suppress(OSError, ValueError):
        part.write_bytes(json.dumps({"stage": stage, "started": started_at(getpid()), **more}).encode())
        part.replace(target)


def read_notes(folder: Path) -> list[ProcessNote]:
    """The notes of all processes, by their ids."""
    return [note_of(folder, pid) for pid in sorted({_pid_of(path) for path in folder.iterdir()} - {0})]


def _pid_of(path: Path) -> int:
    return int(path.stem) if path.stem.isdecimal() and path.suffix in _SUFFIXES else 0


def note_of(folder: Path, pid: int) -> ProcessNote:
    """The note of one process."""
    note = folder / f"{pid}.json"
    failed = folder / f"{pid}.failed"
    with suppress(OSError, ValueError, TypeError):
        if note.exists():
            return ProcessNote(pid, **json.loads(note.read_bytes()))
        if failed.exists():
            return ProcessNote(pid, "failed", problem=failed.read_bytes().decode(errors="replace"))
    return ProcessNote(pid, "python")
