"""Captures of pairs, before and after the change in turns; a pair that is not steady is captured again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import ROOT
from benchmarks.whatif_pairs.declare import Pair

__all__ = ["VARIANTS", "Loop", "capture_pair", "captures_of", "control", "loop_of", "typical_ms"]

STEADY = 0.03
"""By how much of a step a program may differ from itself in another round."""
TIMEOUT_S = 300
VARIANTS = ("before", "after")
_STEADY_ENVIRONMENT = {
    # Memory stays in the process: else whether an op waits for pages depends on what was freed before it.
    "MALLOC_MMAP_THRESHOLD_": str(1 << 25),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
}
_TIMES = "times_captured"
"""The file that says how often a pair was captured."""

_Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Loop:
    """Times of a job's steps in a capture, in ms: from the end of the step before to its own, the latest of all ranks.

    Args:
        recorded: of the steps in the traces.
        unrecorded: of as many before them, and as many after.
    """

    recorded: _Floats
    unrecorded: tuple[_Floats, _Floats]

    @property
    def recorded_ms(self) -> float:
        """A typical recorded step."""
        return typical_ms(self.recorded)

    @property
    def untraced_ms(self) -> float:
        """A typical step that is not recorded."""
        return typical_ms(np.concatenate(self.unrecorded))


def typical_ms(times_ms: _Floats) -> float:
    """The mean of the middle half: steady, and right where steps alternate."""
    ordered = np.sort(times_ms)
    quarter = len(ordered) // 4
    return float(ordered[quarter : len(ordered) - quarter].mean())


def captures_of(rounds: int) -> list[str]:
    """Names of the captures of a pair, in the order in which they are made."""
    return [f"{variant}_{number}" for number in range(1, rounds + 1) for variant in VARIANTS]


def loop_of(capture: Path) -> Loop:
    """Read what the ranks of a capture noted."""
    ranks = [json.loads(path.read_text()) for path in sorted(capture.glob("steps_*.json"))]
    recorded = _times_ms([rank["recorded"] for rank in ranks])
    first, second = (_times_ms([rank["unrecorded"][part] for rank in ranks]) for part in range(2))
    return Loop(recorded, (first, second))


def _times_ms(ends_ns: Sequence[Sequence[int]]) -> _Floats:
    return np.diff(np.array(ends_ns).max(axis=0)) / 1e6


def control(loops: Sequence[Sequence[Loop]]) -> float:
    """How far a program is off itself, as a share of its step: the most of both variants, recorded or not.

    Args:
        loops: of each variant, the rounds; a single one is compared with itself before and after the recorded steps.
    """
    found = []
    for rounds in loops:
        found.append(_spread([each.untraced_ms for each in rounds]))
        found.append(_spread([each.recorded_ms for each in rounds]))
        if len(rounds) == 1:
            found.append(_spread([typical_ms(part) for part in rounds[0].unrecorded]))
    return max(found)


def _spread(times_ms: Sequence[float]) -> float:
    return (max(times_ms) - min(times_ms)) / float(np.mean(times_ms))


def control_of(folder: Path, rounds: int) -> float:
    """The control of a pair that is captured."""
    names = captures_of(rounds)
    return control(
        [[loop_of(folder / name) for name in names if name.startswith(variant)] for variant in VARIANTS]
    )


def capture_pair(pair: Pair, folder: Path, rounds: int, attempts: int) -> int:
    """Capture what is missing of a pair; again if it is not steady, and keep what is steadiest.

    Returns how often it was captured, at most `attempts` times; earlier calls count.

    Raises:
        RuntimeError: the program failed.
    """
    target, again = folder / pair.name, folder / f"{pair.name}.again"
    count = target / _TIMES
    # Without the count a run has failed, perhaps behind its last capture.
    missing = [
        name for name in captures_of(rounds) if not (count.exists() and _is_whole(target / name, pair))
    ]
    if missing:
        _run(pair, target, missing)
        count.write_text("1")
    found, times = control_of(target, rounds), int(count.read_text())
    while found > STEADY and times < attempts:
        _run(pair, again, captures_of(rounds))
        times += 1
        if control_of(again, rounds) < found:
            found = control_of(again, rounds)
            shutil.rmtree(target)
            again.rename(target)
        else:
            shutil.rmtree(again)
    count.write_text(str(times))
    return times


def _is_whole(capture: Path, pair: Pair) -> bool:
    return all((capture / f"steps_{rank}.json").exists() for rank in range(pair.ranks))


def _run(pair: Pair, folder: Path, captures: Sequence[str]) -> None:
    """Run all ranks of a pair; what a broken run left of these captures goes."""
    for name in captures:
        shutil.rmtree(folder / name, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        logs = [Path(work) / f"rank_{rank}" for rank in range(pair.ranks)]
        words = [sys.executable, "-m", "benchmarks.whatif_pairs.run", pair.name, str(folder.absolute())]
        environment = os.environ | _STEADY_ENVIRONMENT | {"OMP_NUM_THREADS": str(pair.threads)}
        running = []
        for rank, log in enumerate(logs):
            arguments = [*words, f"{work}/store", str(rank), *captures]
            with log.open("w") as out:
                running.append(subprocess.Popen(arguments, cwd=ROOT, env=environment, stdout=out, stderr=out))
        failed = _failed(running)
        if failed is not None:
            raise RuntimeError(f"{pair.name} failed on rank {failed}:\n{logs[failed].read_text()[-2000:]}")


def _failed(running: Sequence[subprocess.Popen[bytes]]) -> int | None:
    """Wait for processes; the first that failed or did not end, of which the others wait in vain."""
    until = time.monotonic() + TIMEOUT_S
    try:
        while any(process.poll() is None for process in running):
            failed = [rank for rank, process in enumerate(running) if process.poll()]
            if failed:
                return failed[0]
            if time.monotonic() > until:
                return next(rank for rank, process in enumerate(running) if process.poll() is None)
            time.sleep(0.05)
        return next((rank for rank, process in enumerate(running) if process.returncode), None)
    finally:
        for process in running:
            process.kill()
            process.wait()
