"""Captures of a pair of programs in turn, and what a graph of the first predicts of the second."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

import tracebraid
from benchmarks.measure import ROOT
from benchmarks.whatif_programs.changes import CHANGES
from tracebraid.api.graphing import dependency_graph
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.graph.replay_error import ReplayError
from tracebraid.simulation.replay import replay
from tracebraid.simulation.reproduction import replay_error, replay_errors
from tracebraid.simulation.step_times import job_step_times, step_moments

__all__ = ["WITHIN", "Pair", "capture_pair", "measured_pair"]

WITHIN = 0.1
"""By how much of the measured gain a prediction may be off, where the noise of the runs is not larger."""
TIMEOUT_S = 120

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """What was predicted and measured of a pair; times in ms, medians over the rounds.

    Args:
        name: the program.
        change: what was changed.
        rounds: how often both were captured.
        step_ms: of a step without the change: the mean of the middle half of all steps.
        predicted_ms: by how much shorter the graph of each capture without the change says that the step gets.
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


def capture_pair(name: str, folder: Path, number: int) -> None:
    """Capture a program without and with its change, in the order that the number of the round gives.

    Raises:
        RuntimeError: the program failed.
    """
    for changed in (False, True) if number % 2 else (True, False):
        target = _folder(folder, name, changed, number)
        if target.exists():
            continue
        words = [sys.executable, "-m", "benchmarks.whatif_programs.run", name, str(target)]
        done = subprocess.run(
            [*words, *(["--changed"] if changed else [])],
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
    """Compare what the graphs of the captures without the change predict with what those with it took."""
    found = [_round(name, folder, number) for number in range(1, rounds + 1)]
    gains = [each.measured_ms for each in found]
    errors = [each.replay for each in found]
    return Pair(
        name,
        CHANGES[name].text,
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
    target = _folder(folder, name, False, number)
    graph = _graph(target)
    base = step_times_ms(graph)
    changed = step_times_ms(_graph(_folder(folder, name, True, number)))
    typical = typical_ms(base)
    return _Round(
        typical,
        replay_error(replay_errors(graph)),
        typical - typical_ms(step_times_ms(CHANGES[name].apply(graph))),
        typical - typical_ms(changed),
        max(float(np.subtract(*np.quantile(times, [0.75, 0.25]))) for times in (base, changed)),
        typical / _untraced_ms(target),
    )


def step_times_ms(graph: DependencyGraph) -> _Floats:
    """The times of all steps but the first, from the end of the step before, as a replay has them."""
    edges = graph.edges
    times = replay(edges.first, edges.before, edges.work_ns, graph.moments.residual_ns)
    return job_step_times(times, step_moments(graph.steps)).time_ns[1:] / 1e6


def typical_ms(times_ms: _Floats) -> float:
    """The mean of the middle half: steady, and right where steps alternate."""
    ordered = np.sort(times_ms)
    quarter = len(ordered) // 4
    return float(ordered[quarter : len(ordered) - quarter].mean())


def _untraced_ms(folder: Path) -> float:
    ranks = [json.loads(path.read_text()) for path in sorted(folder.glob("untraced_*.json"))]
    return typical_ms(np.array(ranks).mean(axis=0) * 1e3)


def _graph(folder: Path) -> DependencyGraph:
    return dependency_graph(tracebraid.open(folder))


def _folder(folder: Path, name: str, changed: bool, number: int) -> Path:
    return folder / name / f"{'changed' if changed else 'base'}_{number}"
