"""The times of many scenarios in one pass over the edges: each scales the work of groups of edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.model.graph.dependency_graph import Edges

__all__ = ["BUDGET_BYTES", "Scenarios", "replay_many"]

_Ints = NDArray[np.int64]

BUDGET_BYTES = 256 << 20
"""The most memory for the times of the scenarios that are computed together; a single one may take more."""

_TOGETHER = 32
"""Scenarios that are computed together at most: the fastest on traces of 50 MB."""


@dataclass(frozen=True, eq=False)
class Scenarios:
    """What each scenario does to the work of edges: it is multiplied, and rounded to whole ns.

    Args:
        group: of each edge, such as the family of its activity; from 0 up to the columns of `factor`.
        factor: by what each scenario (row) multiplies the work of each group (column); not negative.
    """

    group: NDArray[np.int32]
    factor: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.factor)


def replay_many(
    edges: Edges, residual_ns: _Ints, scenarios: Scenarios, chosen: _Ints, budget_bytes: int = BUDGET_BYTES
) -> _Ints:
    """When the chosen moments are in each scenario, in ns after the earliest: a row per scenario.

    As `replay` computes them, with work as the scenario has it.

    Args:
        edges: of a graph.
        residual_ns: of each moment.
        scenarios: what happens to the work.
        chosen: moments, such as `StepMoments.chosen`.
        budget_bytes: how much memory the times of all moments may take; decides how many scenarios run together.
    """
    together = budget_bytes // (8 * max(len(residual_ns), 1))
    together = min(max(together, 1), _TOGETHER)
    found = np.empty((len(scenarios), len(chosen)), dtype=np.int64)
    for low in range(0, len(scenarios), together):
        # Of each group the factors of all scenarios lie side by side.
        factor = np.ascontiguousarray(scenarios.factor[low : low + together].T)
        times = np.zeros((len(residual_ns), factor.shape[1]), dtype=np.float64)
        arrays = (edges.first, edges.before, edges.work_ns, scenarios.group)
        _replay(arrays, residual_ns, factor, times)
        found[low : low + together] = times[chosen].T
    return found


@compiled
def _replay(
    edges: tuple[_Ints, NDArray[np.int32], _Ints, NDArray[np.int32]],
    residual_ns: _Ints,
    factor: NDArray[np.float64],
    times: NDArray[np.float64],
) -> None:
    """Fill `times`, which are 0, moment by scenario. Whole numbers of ns are exact in floats below 104 days."""
    first, before, work_ns, group = edges
    count = times.shape[1]
    for moment in range(len(residual_ns)):
        for edge in range(first[moment], first[moment + 1]):
            start, work, scaled = before[edge], work_ns[edge], group[edge]
            if work == 0:
                for scenario in range(count):
                    times[moment, scenario] = max(times[moment, scenario], times[start, scenario])
            else:
                for scenario in range(count):
                    ready = times[start, scenario] + np.rint(work * factor[scaled, scenario])
                    times[moment, scenario] = max(times[moment, scenario], ready)
        residual = residual_ns[moment]
        if residual != 0:
            for scenario in range(count):
                times[moment, scenario] += residual
