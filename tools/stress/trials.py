"""Starts the program of a trial in fresh processes, with a limit on its time; nothing of it is left running."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tools.stress.model import Outcome, Trial, Way

__all__ = ["options_of", "try_out"]

ROOT = Path(__file__).parents[2]
_OURS = ("TRACEBRAID_", "RANK", "WORLD_SIZE", "PYTHONPATH", "MASTER_")
_CLEAN_UP_S = 2.0
"""Seconds that processes of the program have to end after it, as those of a DataLoader do."""


def options_of(trial: Trial) -> dict[str, Any]:
    """What `tracebraid.capture` is asked for, besides the folder: it depends on the seed only."""
    drawn = random.Random(trial.seed)
    return {
        "skip_first": 1,
        "wait": drawn.choice([0, 1]),
        "warmup": drawn.choice([0, 1, 1]),
        "active": drawn.choice([1, 2, 3]),
        "repeat": drawn.choice([1, 1, 2]),
        "stacks": drawn.random() < 0.2,
        "memory": drawn.random() < 0.2,
        "recorder": trial.capturing.recorder,
    }


def try_out(trial: Trial, folder: Path, limit_s: float) -> Outcome:
    """Run the program of a trial to its end.

    Args:
        trial: what to run.
        folder: an empty one, for its files.
        limit_s: seconds after which it is killed.
    """
    for name in ("out", "tmp", "own"):
        (folder / name).mkdir(parents=True)
    began_s = time.monotonic()
    # What ignores Ctrl-C, as a job in the background of a shell does, hands that down.
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "tools.stress.start", *_command(trial, folder)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=ROOT,
            env=_environment(trial, folder),
            start_new_session=True,
        )
    returncode: int | None = None
    with suppress(subprocess.TimeoutExpired):
        returncode = process.wait(limit_s)
    strays = _end(process, wait=returncode is not None)
    return Outcome(
        returncode,
        (folder / "stdout").read_text(errors="replace"),
        (folder / "stderr").read_text(errors="replace"),
        time.monotonic() - began_s,
        folder,
        strays,
    )


def _command(trial: Trial, folder: Path) -> list[str]:
    words = [trial.scenario, str(trial.seed), str(folder / "own"), *["full"] * trial.is_full]
    program = [sys.executable, "-m", "tools.stress.program", *words]
    if trial.capturing.way is not Way.COMMAND:
        return program
    options = options_of(trial)
    flags = [f"--{name}" for name in ("stacks", "memory") if options.pop(name)]
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    capture = [sys.executable, "-m", "tracebraid", "capture", "--no-check", "-o", str(folder / "out")]
    return [*capture, *words, *flags, "--", *program]


def _environment(trial: Trial, folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    kept |= {name: value for name, value in os.environ.items() if name in ("TRACEBRAID_CACHE",)}
    kept |= {"TMPDIR": str(folder / "tmp"), "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    if trial.capturing.way is Way.CONTEXT:
        options = {"out_dir": str(folder / "out"), "check": False, **options_of(trial)}
        kept["TRACEBRAID_STRESS_CAPTURE"] = json.dumps(options)
    return kept


def _end(process: subprocess.Popen[bytes], wait: bool) -> int:
    """End what is left of a session: how many processes that were, once those that end by themselves had."""
    until_s = time.monotonic() + _CLEAN_UP_S * wait
    left = _members(process.pid)
    while left and time.monotonic() < until_s:
        time.sleep(0.05)
        left = _members(process.pid)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    return len(left)


def _members(session: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError, IndexError):
                state, _, _, of_session, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(of_session) == session and state != "Z":
                    found.append(int(entry.name))
    return found
