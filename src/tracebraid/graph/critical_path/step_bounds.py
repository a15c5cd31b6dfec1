"""Between which moments the path of a step lies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.graph.dependency_graph import DependencyGraph

__all__ = ["StepBounds", "step_bounds"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StepBounds:
    """Where a step starts and ends.

    Args:
        step: its name; None: the whole trace, which has no steps.
        start_ns: the earliest start of its ranks.
        ends: the moments at which its ranks' hosts and devices end: by rank, the host first.
        end: the latest of these; of equal ones the first.
        end_ns: when that is.
    """

    step: str | None
    start_ns: int
    ends: _Ints
    end: int
    end_ns: int


def step_bounds(graph: DependencyGraph, rank: int | None = None) -> list[StepBounds]:
    """The bounds of each step, in the order of the steps; of a step without any moment there are none.

    Args:
        graph: the graph.
        rank: only the ends and the start of this rank count; None: those of all ranks.
    """
    rows = graph.steps if rank is None else graph.steps.filter(pl.col("rank") == rank)
    found = []
    for (step,), of_step in rows.group_by("step", maintain_order=True):
        starts = of_step.get_column("start_moment").drop_nulls().to_numpy()
        ends = of_step.select(pl.concat_list("host_end_moment", "device_end_moment")).to_series().explode()
        moments = ends.drop_nulls().to_numpy()
        if len(starts) and len(moments):
            times_ns = graph.moments.time_ns[moments]
            end = int(moments[np.argmax(times_ns)])
            start_ns = min(int(graph.moments.time_ns[starts].min()), int(times_ns.max()))
            found.append(
                StepBounds(None if step is None else str(step), start_ns, moments, end, int(times_ns.max()))
            )
    return found
