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
