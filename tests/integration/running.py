"""Runs programs that capture, or are captured, with a limit on their time; nothing of them is left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.integration.captured import QUIET, SCRIPTS
from tests.integration.command import Done
from tests.waiting import HANG_S

_GLOO = re.compile(r"^.*(?:\[Gloo\]|peer ranks).*\n(?:\d*\n)*", re.MULTILINE)
"""What gloo of torch 2.8 prints on standard output as it connects, each process in pieces."""
_OURS = ("PYTHONPATH", "TRACEBRAID_CAPTURE", "RANK", "WORLD_SIZE")


@contextmanager
def started(*command: object, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command that runs in a session of its own; whatever is left of it in the end is killed."""
    inherited = {key: value for key, value in os.environ.items() if key not in _OURS}
    # What ignores Ctrl-C, as a worker of pytest does, hands that down.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**inherited, **QUIET, **env},
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def ended(process: subprocess.Popen[bytes], stdin: bytes = b"", limit_s: float = HANG_S) -> Done:
    """How a command ends; it must do so in time."""
    out, err = process.communicate(stdin, timeout=limit_s)
    return Done(process.returncode, _GLOO.sub("", out.decode()), err.decode())


def run_command(*command: object, stdin: bytes = b"", **env: str) -> Done:
    with started(*command, **env) as process:
        return ended(process, stdin)


def run_script(name: str, *arguments: object, **env: str) -> Done:
    """Run one of the scripts."""
    return run_command(sys.executable, SCRIPTS / name, *arguments, stdin=b"", **env)


def signalled(number: signal.Signals, *command: object, **env: str) -> Done:
    """Run a command until it says `recording`, send it a signal, and see how it ends."""
    with started(*command, **env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"recording\n"
        process.send_signal(number)
        return ended(process)
