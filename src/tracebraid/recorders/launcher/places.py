"""Places of the processes of one rank within a command: the output folder, then `process_1`, `process_2` and so on.

A process takes the first place that is free, or whose owner died with a capture that is empty or cut. A file in the
folder of notes says which process has a place; the owner's note says how far it came.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tracebraid.errors import CaptureError
from tracebraid.model.capture_facts import PROCESS
from tracebraid.model.capture_outcome import ProcessNote
from tracebraid.recorders.launcher.notes import note_of, notes_folder, read_notes
from tracebraid.recorders.own_process import getpid, started_at
from tracebraid.recorders.session.place import Place, only_place, restarts

_MOST = 16
"""Processes of one rank that are captured: more, as of a search over parameters, are alike, and may be thousands."""


class Places:
    """Places within a folder, for the processes of a command."""

    def __init__(self, out_dir: Path) -> None:
        self._out_dir = out_dir
        self._taken: dict[int, Place] = {}

    def take(self, rank: int, has_files: bool) -> Place | None:
        """Return the place of this process: the same one again for the same rank.

        Without files it takes no place but the first one, and not from a process that has some: then None.

        Raises:
            CaptureError: other processes of this rank have all places.
        """
        notes = notes_folder()
        if notes is None:
            return only_place(self._out_dir, rank)
        if rank not in self._taken:
            place = self._find(notes, rank, has_files)
            if place is None:
                return None
            self._taken[rank] = place
        return self._taken[rank]

    def _find(self, notes: Path, rank: int, has_files: bool) -> Place | None:
        for process in range(_MOST if has_files else 1):
            claim = notes / f"{rank}.{process}.claim"
            while not _claimed(claim):
                owner = _owner(notes, claim)
                if (
                    owner is None
                    or not _gives_way(owner, notes, process)
                    or (owner.windows and not has_files)
                ):
                    break
                # Of several that take it over, one succeeds; the others look again.
                with suppress(OSError):
                    claim.rename(claim.with_suffix(f".{owner.pid}-gave-way"))
            else:
                return self._place(notes, rank, process)
        if has_files:
            raise CaptureError(
                f"{_MOST} processes of rank {rank} are captured already, each in a folder of its own; further ones "
                "are not"
            )
        return None

    def _place(self, notes: Path, rank: int, process: int) -> Place:
        folder = self._out_dir / f"{PROCESS}{process}" if process else self._out_dir
        before = [note for note in read_notes(notes) if note.rank == rank and note.pid != getpid()]
        died = tuple(
            {
                "pid": note.pid,
                "attempt": note.attempt,
                "steps_seen": None if note.ended_by is None else note.steps_seen,
                "ended_by": note.ended_by,
            }
            for note in before
            if not note.whole and note.ended_by != "end" and not _is_alive(note)
        )
        counted = restarts()
        replaces = any(notes.glob(f"{rank}.{process}.*-gave-way"))
        return Place(folder, rank, process, len(died) if counted is None else counted, replaces, died)


def _claimed(claim: Path) -> bool:
    """Claim a place for this process: False if another one has it."""
    own = claim.with_suffix(f".{getpid()}")
    try:
        own.write_bytes(str(getpid()).encode())
        os.link(own, claim)
    except FileExistsError:
        return False
    finally:
        own.unlink(missing_ok=True)
    return True


def _owner(notes: Path, claim: Path) -> ProcessNote | None:
    """The note of the process that has a place; None if it has just lost it."""
    try:
        return note_of(notes, int(claim.read_bytes()))
    except (OSError, ValueError):
        return None


def _gives_way(owner: ProcessNote, notes: Path, process: int) -> bool:
    """Return whether the owner of a place died without a whole capture.

    A whole one gives way too where another rank of the same attempt died without: one attempt is kept, of all ranks.
    """
    if _is_alive(owner):
        return False
    if not owner.whole:
        return True
    others = [note for note in read_notes(notes) if note.process == process and note.attempt == owner.attempt]
    return restarts() not in (None, owner.attempt) and any(
        not note.whole and not _is_alive(note) for note in others
    )


def _is_alive(note: ProcessNote) -> bool:
    return note.started != "" and started_at(note.pid) == note.started
