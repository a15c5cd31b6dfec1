"""Captures of a pair of programs in turn, and what `what_if` predicts of the second from the first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl
from numpy.typing import NDArray

import tracebraid
from benchmarks.measure import ROOT
from benchmarks.whatif_programs.changes import CHANGES
from tracebraid.model.graph.replay_error import ReplayError

__all__ = ["WITHIN", "Pair", "capture_pair", "measured_pair"]

WITHIN = 0.1
"""By how much of the measured gain a prediction may be off, where the noise of the runs is not larger."""
TIMEOUT_S = 600

_UNCHANGED = "scale 1"
"""A change that changes nothing."""

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """What was predicted and measured of a pair; times in ms, medians over the rounds.

    Args:
        name: the program.
        change: what was changed, as `--change` takes it.
        rounds: how often both were captured.
        step_ms: of a step without the change: the mean of the middle half of all steps.
        predicted_ms: by how much shorter the step gets, as `what_if` says of each capture without the change.
        measured_ms: by how much shorter it is in the other capture of the round.
        noise_ms: half of the range of the measured gains over the rounds.
        spread_ms: the distance of the quartiles of the steps, the larger of both captures.
        replayed: how far the steps of the graph are off the measured, replayed without measured starts: as a share, the
            median over steps.
        replayed_p95: their 95th percentile.
        next_step: the same of a step that is predicted from the step before it alone.
        next_step_p95: their 95th percentile.
        recorded: how many times as long a step is with the profiler as without it.
    """

    name: str
    change: str
    rounds: int
    step_ms: float
    predicted_ms: float
    measured_ms: float
    noise_ms: float
    spread_ms: float
    replayed: float
    replayed_p95: float
    next_step: float
    next_step_p95: float
    recorded: float

    @property
    def error_ms(self) -> float:
        """The predicted gain less the measured."""
        return self.predicted_ms - self.measured_ms

    @property
    def within_a_tenth(self) -> bool:
        """Whether the prediction is within a tenth of the measured gain."""
        return abs(self.error_ms) <= WITHIN * abs(self.measured_ms)

    @property
    def right(self) -> bool:
        """Whether the prediction is within a tenth of the measured gain, or within the noise."""
        return self.within_a_tenth or abs(self.error_ms) <= self.noise_ms


@dataclass(frozen=True, eq=False)
class _Round:
    """Of one round: a step without the change, and its replay; the rest as `Pair` has it."""

    step_ms: float
    replay: ReplayError
    predicted_ms: float
    measured_ms: float
    spread_ms: float
    recorded: float


def capture_pair(name: str, folder: Path, rounds: int) -> None:
    """Capture a program without and with its change, so many times, in turns and in a process of their own.

    Raises:
        RuntimeError: the program failed.
    """
    words = ["-m", "benchmarks.whatif_programs.run", name, str(folder / name), "--rounds", str(rounds)]
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
        raise RuntimeError(f"{name} failed:\n{done.stderr[-2000:]}")


def measured_pair(name: str, folder: Path, rounds: int) -> Pair:
    """Compare what is predicted from the captures without the change with what those with it took."""
    found = [_round(name, folder / name, number) for number in range(1, rounds + 1)]
    gains = [each.measured_ms for each in found]
    errors = [each.replay for each in found]
    return Pair(
        name,
        "; ".join(CHANGES[name]),
        rounds,
        step_ms=median(each.step_ms for each in found),
        predicted_ms=median(each.predicted_ms for each in found),
        measured_ms=median(gains),
        noise_ms=(max(gains) - min(gains)) / 2,
        spread_ms=median(each.spread_ms for each in found),
        replayed=median(each.median or 0.0 for each in errors),
        replayed_p95=median(each.p95 or 0.0 for each in errors),
        next_step=median(each.next_step_median or 0.0 for each in errors),
        next_step_p95=median(each.next_step_p95 or 0.0 for each in errors),
        recorded=median(each.recorded for each in found),
    )


def _round(name: str, folder: Path, number: int) -> _Round:
    target = folder / f"base_{number}"
    found = tracebraid.what_if(tracebraid.open(target), *CHANGES[name])
    other = tracebraid.what_if(tracebraid.open(folder / f"changed_{number}"), _UNCHANGED)
    base, predicted = (_steps_ms(found, column) for column in ("before_ns", "after_ns"))
    changed = _steps_ms(other, "before_ns")
    typical = typical_ms(base)
    return _Round(
        typical,
        found.replay_error,
        typical - typical_ms(predicted),
        typical - typical_ms(changed),
        max(float(np.subtract(*np.quantile(times, [0.75, 0.25]))) for times in (base, changed)),
        typical / _untraced_ms(target),
    )


def _steps_ms(found: tracebraid.WhatIf, column: str) -> _Floats:
    """The times of the job's steps but the first, of which the end of the step before is not known."""
    times = found.steps.filter(pl.col("rank").is_null()).get_column(column)
    return times.to_numpy()[1:] / 1e6


def typical_ms(times_ms: _Floats) -> float:
    """The mean of the middle half: steady, and right where steps alternate."""
    ordered = np.sort(times_ms)
    quarter = len(ordered) // 4
    return float(ordered[quarter : len(ordered) - quarter].mean())


def _untraced_ms(folder: Path) -> float:
    ranks = [json.loads(path.read_text()) for path in sorted(folder.glob("untraced_*.json"))]
    return typical_ms(np.array(ranks).mean(axis=0) * 1e3)
