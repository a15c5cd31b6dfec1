"""Predicted steps at another shape beside measured ones, on pairs of captures at both shapes; needs torch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import polars as pl

import tracebraid
from benchmarks.inputs import Given
from benchmarks.measure import ROOT, Row, Target
from benchmarks.shape_programs import SHAPES

GOAL = 0.06
"""Median error of a step to reach."""
STEADY = 0.05
"""Half of the range of the measured steps of the rounds, as a share of a step, that counts as none."""
TIMEOUT_S = 600
_FASTEST = 0.25
"""Share of steps that count, the fastest: what else runs on the machine makes steps slower, never faster."""


def shapes(given: Given) -> Iterator[Row]:
    """Predicted and measured steps at another shape; with `keep`, captures stay.

    Both shapes of a pair are captured one right after the other, in an order that alternates. The step at the second
    shape is predicted from the capture at the first. A pair whose rounds are not `STEADY` is captured again, `attempts`
    times at most; the last captures count.
    """
    folder, errors = given.keep or given.folder, []
    for name in given.only or SHAPES:
        print(f"  {name}", file=sys.stderr)
        for attempt in range(1, given.attempts + 1):
            _captured(name, folder / name, given.rounds)
            rounds = [_measured(name, folder / name, number) for number in range(1, given.rounds + 1)]
            before, predicted, low, high, measured = (median(column) for column in zip(*rounds, strict=True))
            steps = [row[-1] for row in rounds]
            noise = (max(steps) - min(steps)) / 2
            if noise <= STEADY * measured or attempt == given.attempts:
                break
            shutil.rmtree(folder / name)
        error = predicted / measured - 1
        errors.append(abs(error))
        figures = {
            "step_ms": before,
            "predicted_ms": predicted,
            "measured_ms": measured,
            "noise_ms": noise,
            "captured": attempt,
            "in_interval": float(low <= measured <= high),
            "error": error,
        }
        yield Row("shapes", f"{name}, {SHAPES[name].change}", figures=figures)
    middle = median(errors)
    yield Row(
        "shapes",
        "all",
        figures={"pairs": len(errors), "median error": middle, "largest error": max(errors)},
        target=Target(f"median error at most {GOAL:.0%}", middle <= GOAL),
    )


def _captured(name: str, folder: Path, rounds: int) -> None:
    words = ["-m", "benchmarks.shape_programs", name, str(folder), "--rounds", str(rounds)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{name} failed:\n{done.stderr[-2000:]}")


def _measured(name: str, folder: Path, number: int) -> tuple[float, float, float, float, float]:
    """Steps in ms: at the first shape, at the second as predicted, its interval, and as measured."""
    base, changed = (folder / f"{which}_{number}" for which in ("base", "changed"))
    network = changed / "network.txt"
    given = f" network={network.read_text()}" if network.exists() else ""
    found = tracebraid.what_if(tracebraid.open(base), SHAPES[name].change + given)
    rows = found.steps.filter(pl.col("rank").is_null())[1:]
    ratio = rows.select((pl.col("after_ns") / pl.col("before_ns")).median()).item()
    before, measured = (_step_ms(path, SHAPES[name].ranks) for path in (base, changed))
    low, high = (
        ratio + (found.gain_ns - end) / found.before_ns for end in (found.gain_high_ns, found.gain_low_ns)
    )
    return before, before * ratio, before * low, before * high, measured


def _step_ms(folder: Path, ranks: int) -> float:
    """A step of a capture: of one rank its time on a processor, which other programs do not slow; else its time."""
    if ranks == 1:
        return float(median(json.loads((folder / "processor_0.json").read_text()))) * 1e3
    found = tracebraid.what_if(tracebraid.open(folder), "scale 1")
    times = found.steps.filter(pl.col("rank").is_null()).get_column("before_ns")[1:].sort()
    return float(times.head(max(int(len(times) * _FASTEST), 1)).mean()) / 1e6
