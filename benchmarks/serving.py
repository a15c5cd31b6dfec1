"""A small inference server, captured with a few requests and then run under load, beside what was predicted of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.inputs import Given
from benchmarks.measure import ROOT, Row, Target

__all__ = ["served", "serving"]

WITHIN = 0.1
"""By how much the time per output token may be off."""
TIMEOUT_S = 900
REQUESTS = 1000


def served(folder: Path, requests: int, *options: str) -> dict[str, Any]:
    """Capture the server and run it at each load, in a process of its own: what `serving_program` writes.

    Raises:
        RuntimeError: the program failed.
    """
    words = ["-m", "benchmarks.serving_program", str(folder), "--requests", str(requests), *options]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the server failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads((folder / "served.json").read_text())
    return found


def serving(given: Given) -> Iterator[Row]:
    """Predicted and measured times of a server by batch and at three loads, for each round."""
    options = ("--processor-time",) if given.processor_time else ()
    for number in range(given.rounds):
        print(f"  {number + 1} of {given.rounds}", file=sys.stderr)
        folder = given.folder / f"serving_{number}"
        folder.mkdir()
        found = served(folder, given.steps or REQUESTS, *options)
        for row in found["batches"]:
            yield _row(f"round {number + 1}, a decode step of {row['batch']}", row, "ms")
        for run in found["runs"]:
            subject = f"round {number + 1}, load {run['load']:.0%}"
            yield _row(subject, {**run, "disturbed": found["disturbed"]}, "tpot_ms")


def _row(subject: str, figures: dict[str, float], name: str) -> Row:
    error = figures[f"{name}_said"] / figures[name] - 1
    return Row(
        "serving",
        subject,
        figures={**figures, "error": error},
        target=Target("within 10 %", abs(error) <= WITHIN),
    )
