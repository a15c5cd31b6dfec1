"""Ctrl-C ends a command with one word and the code that shells expect, wherever it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

START = "from tracebraid.cli.main import run; run()"


@pytest.mark.parametrize("delay_s", [0.3, 1.5], ids=["while it loads", "while it reads"])
def test_an_interrupted_command_says_so_in_a_word(tmp_path: Path, delay_s: float) -> None:
    """It waits for standard input, which does not end."""
    reading, writing = os.pipe()
    code = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); print('up', flush=True); {START}"
    with subprocess.Popen(
        [sys.executable, "-c", code, "info", "-"],
        cwd=tmp_path,
        stdin=reading,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(reading)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        time.sleep(delay_s)
        process.send_signal(signal.SIGINT)
        said, error = process.communicate(timeout=30)
    os.close(writing)
    assert (process.returncode, said, error) == (130, "", "interrupted\n")


DROPS = """
import sys, time, weakref
from tracebraid.cli import main
def work():
    class Thing: pass
    def drop(reference): signal.raise_signal(signal.SIGINT)
    import signal
    thing = Thing()
    reference = weakref.ref(thing, drop)
    del thing
    time.sleep(20)
main._run = work
main.run()
"""


def test_ctrl_c_that_python_drops_is_raised_again() -> None:
    """In the callback of a weak reference, as every import has one for its lock."""
    done = subprocess.run(
        [sys.executable, "-c", DROPS], capture_output=True, text=True, timeout=15, check=False
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


HALF_MADE = """
from tracebraid.cli import main
class HalfMade:
    def __del__(self): del self.never_set
kept = HalfMade()
def work(): raise KeyboardInterrupt
main._run = work
main.run()
"""


def test_what_was_half_made_at_ctrl_c_does_not_complain() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HALF_MADE], capture_output=True, text=True, timeout=15, check=False
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_that_comes_as_the_command_starts_reaches_it(name: str) -> None:
    """It would end the launcher alone, and leave the command running."""
    number = int(getattr(signal, name))
    code = (
        "import os, signal, subprocess, sys\n"
        "from tracebraid.recorders.launcher import launch\n"
        "start = subprocess.Popen\n"
        "def started(*words, **options):\n"
        f"    process = start(*words, **options)\n    os.kill(os.getpid(), {number})\n    return process\n"
        "subprocess.Popen = started\n"
        "sys.exit(-launch._run(['sleep', '20'], dict(os.environ)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=15, check=False
    )
    assert (done.returncode, done.stderr) == (number, "")


STRUCK = """
import signal, time
import numpy, polars
from numpy.lib import NumpyVersion
from tracebraid.ctrl_c import raised_outside_polars
plain = NumpyVersion.__init__
def struck(self, words):
    print("struck", flush=True)
    signal.raise_signal(signal.SIGINT)
    plain(self, words)
NumpyVersion.__init__ = struck
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    with raised_outside_polars():
        print(polars.Series(numpy.zeros(1)).to_list())
        time.sleep(10)
except KeyboardInterrupt:
    print("interrupted")
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


def test_ctrl_c_in_code_that_polars_runs_is_raised_when_polars_has_returned() -> None:
    """It would panic, and write a backtrace."""
    began_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", STRUCK], capture_output=True, text=True, timeout=15, check=False
    )
    assert (done.stdout.split(), done.stderr) == (["struck", "[0.0]", "interrupted"], "")
    assert time.monotonic() - began_s < 10


def test_a_worker_whose_parent_was_killed_ends_without_a_word() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    code = f"from tracebraid.engine.pool.worker import serve; serve({str(writing)!r})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        pass_fds=[writing],
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")
