"""Why a command left no traces, from the notes of its processes and its words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tracebraid.model.capture_outcome import NothingCaptured, ProcessNote

__all__ = ["cause_of"]

_PYTHON = re.compile(r"(^|/)(python|pypy)[0-9.]*$")
_ISOLATING = re.compile(r"-[a-zA-Z]*[IES][a-zA-Z]*")
_TAKES_VALUE = ("-W", "-X")
_REPLACES = re.compile(r"PYTHONPATH\s*=|(?:^|\s)env\s+(?:-i|-\s|--ignore-environment)")
_SCRIPT_BYTES = 1 << 16
"""So much of a shell script is searched."""


def cause_of(notes: Sequence[ProcessNote], command: Sequence[str]) -> tuple[NothingCaptured, str]:
    """Why nothing was recorded, and the evidence: of several processes, the one whose capture came furthest.

    Args:
        notes: those of the processes.
        command: the program and its arguments.
    """
    watched = [note for note in notes if note.stage in ("watching", "recording", "ended")]
    if watched:
        return _of_watched(max(watched, key=_progress))
    failed = [note for note in notes if note.stage == "failed"]
    if failed:
        return NothingCaptured.NOT_INSTALLED, failed[0].problem
    shown = _isolated(command) or _replaced(command)
    if shown:
        return shown
    if notes:
        return NothingCaptured.NO_TORCH, ""
    return NothingCaptured.NO_PYTHON, ""


def _progress(note: ProcessNote) -> tuple[bool, bool, int, int]:
    steps = sum(loop.get("steps", 0) for loop in note.loops)
    return note.own_capture, bool(note.problem or note.lost), steps, note.optimizers_made


def _of_watched(note: ProcessNote) -> tuple[NothingCaptured, str]:
    if note.own_capture:
        return NothingCaptured.OWN_CAPTURE, ""
    if note.problem or note.lost:
        return (
            NothingCaptured.REFUSED if note.problem else NothingCaptured.WINDOW_LOST
        ), note.problem or note.lost
    if note.stage != "ended":
        return NothingCaptured.KILLED, str(note.pid)
    if note.exception:
        return NothingCaptured.EXCEPTION, note.exception
    followed = next((loop for loop in note.loops if loop.get("followed")), None)
    if followed is not None:
        return NothingCaptured.TOO_FEW_STEPS, f"{followed['steps']} steps of {followed['name']}"
    if note.optimizers_made:
        return (NothingCaptured.OPTIMIZER_COMPILED if note.compiled else NothingCaptured.OPTIMIZER_UNSEEN), ""
    return NothingCaptured.NO_STEPS, ""


def _isolated(command: Sequence[str]) -> tuple[NothingCaptured, str] | None:
    """Whether a Python in the command is started with an option that keeps the injected file out."""
    words = _words(command)
    for index, word in enumerate(words):
        if not _PYTHON.search(word):
            continue
        for option in words[index + 1 :]:
            if not option.startswith("-") or option in ("-c", "-m", "-", "--"):
                break
            if _ISOLATING.fullmatch(option) and not option.startswith(_TAKES_VALUE):
                return NothingCaptured.PYTHON_OPTIONS, option
    return None


def _replaced(command: Sequence[str]) -> tuple[NothingCaptured, str] | None:
    """Whether the command, or the shell script that it is, replaces the variables that the launcher sets."""
    text = " ".join(command)
    if _REPLACES.search(text):
        return NothingCaptured.PATH_REPLACED, ""
    for word in command[:2]:
        try:
            with Path(word).open("rb") as file:
                head = file.read(_SCRIPT_BYTES)
        except (OSError, ValueError):
            continue
        if (head.startswith(b"#!") or word.endswith(".sh")) and _REPLACES.search(
            head.decode(errors="replace")
        ):
            return NothingCaptured.PATH_REPLACED, word
    return None


def _words(command: Sequence[str]) -> list[str]:
    """The words of a command, and those inside of the one that a shell gets."""
    return [part for word in command for part in (word.split() if " " in word else [word])]
