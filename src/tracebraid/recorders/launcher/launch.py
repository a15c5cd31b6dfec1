"""Run a command so that the Python processes in it capture themselves; this needs no torch itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from msgspec.structs import replace

from tracebraid.errors import CaptureError
from tracebraid.files import make_folder, refuse_existing
from tracebraid.model.capture_facts import PROCESS
from tracebraid.model.capture_outcome import CaptureOutcome, NothingCaptured, ProcessNote
from tracebraid.recorders.launcher.notes import NOTES_VARIABLE, read_notes
from tracebraid.recorders.launcher.nsys_command import nsys_command
from tracebraid.recorders.session.numbered import numbered_folder
from tracebraid.recorders.session.settings import Settings

_FOLDERS = ("window_*", f"{PROCESS}[0-9]*")
_FILES = ("manifest_*.json", "torch_et_*.json.gz", "kineto_trace_*.json.gz", *_FOLDERS)
_PassesTo = Callable[[subprocess.Popen[bytes]], None]
_CLOCK_S = 2.0
"""Seconds by which a file system's clock may lag: the resolution of FAT, the coarsest in use."""
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT)
_GROUP_S = 1.0
"""Seconds in which a SIGINT to the whole group ends the witness: milliseconds on an idle machine."""

_VARIABLE = "TRACEBRAID_CAPTURE"
_INJECT = Path(__file__).parent / "inject"
_PYTHON = re.compile(r"(^|/)(python|pypy)[0-9.]*$")
_ISOLATING = re.compile(r"-[a-zA-Z]*[IES][a-zA-Z]*")
_TAKES_VALUE = ("-W", "-X")
_REPLACES = re.compile(r"PYTHONPATH\s*=|(?:^|\s)env\s+(?:-i|-\s|--ignore-environment)")
_SCRIPT_BYTES = 1 << 16
"""Bytes of a shell script that are searched."""


def launch(command: Sequence[str], settings: Settings) -> CaptureOutcome:
    """Run a command to its end; its input and output are this process's, and signals are passed on to it."""
    _find(command[0])
    out_dir = Path(settings.out_dir)
    if settings.new:
        out_dir = numbered_folder(out_dir)
        settings = replace(settings, out_dir=str(out_dir), new=False)
    whole = nsys_command(command, out_dir, settings.overwrite) if settings.nsys else list(command)
    make_folder(out_dir)
    if not settings.overwrite:
        refuse_existing(path for pattern in _FILES for path in sorted(out_dir.glob(pattern)))
    began_s = time.time()
    with tempfile.TemporaryDirectory(prefix="tracebraid-", ignore_cleanup_errors=True) as folder:
        returncode = _run(whole, child_environment(settings, Path(folder)))
        notes = read_notes(Path(folder))
    nothing, detail = (None, "") if _has_files(out_dir, began_s) else cause_of(notes, command)
    if settings.overwrite and nothing is None:
        _remove_earlier(out_dir, began_s)
    return CaptureOutcome(returncode, str(out_dir), nothing, detail, tuple(notes))


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    # A signal between the start of the command and that of the handlers would end the launcher alone.
    with _witness() as witness, _passing_on(witness) as (early, passes_to):
        if signal.SIGINT in early:
            raise KeyboardInterrupt
        try:
            process = subprocess.Popen(command, env=environment)
        except OSError as error:
            raise CaptureError(f"{command[0]} cannot be run ({error.strerror}). Is it a program?") from None
        with process:
            passes_to(process)
            return process.wait()


def _has_files(out_dir: Path, since_s: float) -> bool:
    """Return whether a process of this run wrote traces: a manifest of this run lists files."""
    for path in (*out_dir.glob("manifest_*.json"), *out_dir.glob(f"{PROCESS}[0-9]*/manifest_*.json")):
        with suppress(OSError, ValueError, AttributeError, TypeError):
            windows = json.loads(path.read_bytes()).get("windows")
            if path.stat().st_mtime >= since_s - _CLOCK_S and any(window["files"] for window in windows):
                return True
    return False


def _remove_earlier(out_dir: Path, since_s: float) -> None:
    """Remove what an earlier capture left here and this one did not replace: other ranks, windows and processes.

    It is done at the end, by age: launchers of other hosts may have begun before this one.
    """
    inside = [
        folder for pattern in (*_FOLDERS, f"{_FOLDERS[1]}/{_FOLDERS[0]}") for folder in out_dir.glob(pattern)
    ]
    for folder in (out_dir, *sorted(inside, reverse=True)):
        for path in (path for pattern in _FILES for path in folder.glob(pattern)):
            with suppress(OSError):
                if path.is_file() and path.stat().st_mtime < since_s - _CLOCK_S:
                    path.unlink()
        if folder != out_dir:
            with suppress(OSError):
                folder.rmdir()  # refused where anything is left in it


def _find(program: str) -> None:
    if shutil.which(program) is None:
        advice = "Give a program that is on the path"
        if program.endswith(".py") and Path(program).exists():
            advice = f"Is it a script? Then: python {program}"
        raise CaptureError(f"{program} cannot be run. {advice}")


@contextmanager
def _witness() -> Iterator[Callable[[], bool]]:
    """Return a function that says whether SIGINT came to the whole process group, as a terminal sends it.

    A handler of Python is not told. A process of this group that SIGINT ends tells it; where it cannot be
    started, SIGINT counts as the group's.
    """
    # It ends with its input at the latest, which closes with this process however that ends.
    try:
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    except OSError:
        yield lambda: True
        return

    def has_seen_it() -> bool:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GROUP_S)
        return process.returncode is not None

    with process:
        yield has_seen_it


@contextmanager
def _passing_on(is_of_group: Callable[[], bool]) -> Iterator[tuple[list[int], _PassesTo]]:
    """Pass signals on to the process that is named within the block.

    Those that come before are listed, and are kept for it. SIGINT that comes later is passed on if it came to this
    process alone: the command has that of the group. Signals that are ignored stay so, as `nohup` wants it.
    """
    started: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        if not started:
            early.append(number)
        elif number != signal.SIGINT or not is_of_group():
            started[0].send_signal(number)

    def passes_to(process: subprocess.Popen[bytes]) -> None:
        started.append(process)
        # A SIGINT among them that was the group's has either missed this command, or ends it as it starts.
        while early:
            process.send_signal(early.pop(0))

    before = {number: signal.getsignal(number) for number in _PASSED_ON}
    for number, handler in before.items():
        # What is ignored is set again: polars, once imported, has a handler of its own for SIGINT in its place.
        signal.signal(number, handler if handler is signal.SIG_IGN else pass_on)
    try:
        yield early, passes_to
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def child_environment(settings: Settings, notes: Path | None = None) -> dict[str, str]:
    """This process's environment, and what makes Python processes in it capture.

    The folder `inject` comes first on their module path: Python runs the `sitecustomize` in it at its start.
    """
    environment = dict(os.environ)
    rest = environment.get("PYTHONPATH", "")
    environment["PYTHONPATH"] = f"{_INJECT}{os.pathsep}{rest}" if rest else str(_INJECT)
    environment[_VARIABLE] = settings.to_json()
    environment.pop(NOTES_VARIABLE, None)
    if notes is not None:
        environment[NOTES_VARIABLE] = str(notes)
    return environment


def cause_of(notes: Sequence[ProcessNote], command: Sequence[str]) -> tuple[NothingCaptured, str]:
    """Return the reason why nothing was recorded, and the evidence, from the process whose capture came furthest."""
    watched = [note for note in notes if note.stage in ("watching", "recording", "ended")]
    if watched:
        return _of_watched(max(watched, key=_note_progress))
    failed = [note for note in notes if note.stage == "failed"]
    if failed:
        return NothingCaptured.NOT_INSTALLED, failed[0].problem
    shown = _isolated(command) or _replaced(command)
    if shown:
        return shown
    if notes:
        return NothingCaptured.NO_TORCH, ""
    return NothingCaptured.NO_PYTHON, ""


def _note_progress(note: ProcessNote) -> tuple[bool, bool, int, int]:
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
        return _too_few(followed)
    if note.optimizers_made:
        return (NothingCaptured.OPTIMIZER_COMPILED if note.compiled else NothingCaptured.OPTIMIZER_UNSEEN), ""
    return NothingCaptured.NO_STEPS, ""


def _too_few(loop: dict[str, Any]) -> tuple[NothingCaptured, str]:
    """Explain a loop that did not reach the window: further steps do not help where each is in a loop of its own."""
    name, longest = loop["name"], loop["longest"]
    if loop["steps_elsewhere"]:
        steps = loop["steps"] + loop["steps_elsewhere"]
        return (
            NothingCaptured.OTHER_THREADS,
            f"{_counted(steps, 'step')} of {name} on {loop['threads']} threads",
        )
    if loop["objects"] > longest:
        return (
            NothingCaptured.SHORT_LOOPS,
            f"{loop['objects']} objects of {name} took {_counted(longest, 'step')} each",
        )
    return NothingCaptured.TOO_FEW_STEPS, f"{_counted(longest, 'step')} of {name}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _isolated(command: Sequence[str]) -> tuple[NothingCaptured, str] | None:
    """Return whether a Python in the command is started with an option that keeps the injected file out."""
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
    """Return whether the command, or the shell script that it is, replaces the variables that the launcher sets."""
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
    """The words of a command, and those inside the one that a shell gets."""
    return [part for word in command for part in (word.split() if " " in word else [word])]
