"""Run a command so that the Python processes in it capture themselves; this needs no torch itself."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType

from tracebraid.errors import CaptureError
from tracebraid.files import make_folder, refuse_existing
from tracebraid.model.capture_outcome import CaptureOutcome
from tracebraid.recorders.launcher.causes import cause_of
from tracebraid.recorders.launcher.environment import child_environment
from tracebraid.recorders.launcher.notes import read_notes
from tracebraid.recorders.launcher.nsys_command import nsys_command
from tracebraid.recorders.session.numbered import numbered_folder
from tracebraid.recorders.session.settings import Settings

__all__ = ["launch"]

_FILES = ("manifest_*.json", "torch_et_*.json.gz", "kineto_trace_*.json.gz", "window_*")
_CLOCK_S = 2.0
"""Seconds by which a file system's clock may lag: the resolution of FAT, the coarsest in use."""
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def launch(command: Sequence[str], settings: Settings) -> CaptureOutcome:
    """Run a command to its end; its input and output are this process's, and signals are passed on to it.

    Args:
        command: the program and its arguments.
        settings: what its Python processes capture; `out_dir` is absolute.

    Returns:
        How it ended, and why nothing was recorded, if that is so.

    Raises:
        CaptureError: there is no such program; or Nsight Systems is asked for, and is not there.
        OutputError: the folder cannot be written, or holds files of another run.
    """
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
    with _passing_on() as passes_to:
        try:
            process = subprocess.Popen(command, env=environment)
        except OSError as error:
            raise CaptureError(f"{command[0]} cannot be run ({error.strerror}). Is it a program?") from None
        with process:
            passes_to(process)
            return process.wait()


def _has_files(out_dir: Path, since_s: float) -> bool:
    """Whether a process of this run wrote traces: a manifest of this run lists files."""
    for path in out_dir.glob("manifest_*.json"):
        with suppress(OSError, ValueError, AttributeError, TypeError):
            windows = json.loads(path.read_bytes()).get("windows")
            if path.stat().st_mtime >= since_s - _CLOCK_S and any(window["files"] for window in windows):
                return True
    return False


def _remove_earlier(out_dir: Path, since_s: float) -> None:
    """Remove what an earlier capture left here and this one did not replace: other ranks, other windows.

    It is done at the end, by age: launchers of other hosts may have begun before this one.
    """
    for folder in (out_dir, *sorted(out_dir.glob("window_*"))):
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
def _passing_on() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Pass signals on to the process that is named within the block; those that come before are kept for it.

    Ctrl-C reaches it from the terminal directly, so SIGINT is ignored here.
    """
    started: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        if started:
            started[0].send_signal(number)
        else:
            early.append(number)

    def passes_to(process: subprocess.Popen[bytes]) -> None:
        started.append(process)
        while early:
            process.send_signal(early.pop(0))

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield passes_to
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
