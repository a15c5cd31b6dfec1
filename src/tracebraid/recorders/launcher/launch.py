"""Run a command so that the Python processes in it capture themselves; this needs no torch itself."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tracebraid.errors import CaptureError
from tracebraid.files import make_folder, refuse_existing
from tracebraid.recorders.launcher.environment import child_environment
from tracebraid.recorders.launcher.nsys_command import nsys_command
from tracebraid.recorders.session.settings import Settings

__all__ = ["launch"]

_FILES = ("manifest_*.json", "torch_et_*.json.gz", "kineto_trace_*.json.gz", "window_*")
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def launch(command: Sequence[str], settings: Settings) -> int:
    """Run a command to its end; its input and output are this process's, and signals are passed on to it.

    Args:
        command: the program and its arguments.
        settings: what its Python processes capture; `out_dir` is absolute.

    Returns:
        Its exit code; less than 0 where a signal ended it.

    Raises:
        CaptureError: there is no such program; or Nsight Systems is asked for, and is not there.
        OutputError: the folder cannot be written, or holds files of another run.
    """
    out_dir = Path(settings.out_dir)
    _find(command[0])
    whole = nsys_command(command, out_dir, settings.overwrite) if settings.nsys else list(command)
    make_folder(out_dir)
    if not settings.overwrite:
        refuse_existing(path for pattern in _FILES for path in sorted(out_dir.glob(pattern)))
    try:
        process = subprocess.Popen(whole, env=child_environment(settings))
    except OSError as error:
        raise CaptureError(f"{whole[0]} cannot be run ({error.strerror}). Is it a program?") from None
    with process, _passing_on(process):
        return process.wait()


def _find(program: str) -> None:
    if shutil.which(program) is None:
        advice = "Give a program that is on the path"
        if program.endswith(".py") and Path(program).exists():
            advice = f"Is it a script? Then: python {program}"
        raise CaptureError(f"{program} cannot be run. {advice}")


@contextmanager
def _passing_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass signals on to the process. Ctrl-C reaches it by itself, from the terminal; here it is ignored."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
