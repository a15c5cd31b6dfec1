"""The part of a rank's graph that lies in some steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.rank_graph import EdgeList, RankGraph
from tracebraid.model.step import some_steps

__all__ = ["Steps", "in_steps", "step_names"]

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]

Steps: TypeAlias = int | str | Iterable[int | str]
"""A step by its number or name, or several of them, such as `range(3, 6)`."""


def step_names(steps: Steps, seen: Sequence[str], annotation: str) -> tuple[str, ...]:
    """The names of the chosen steps, in the order in which they were seen.

    Args:
        steps: as a user names them.
        seen: the names of all steps, in the order of their starts.
        annotation: what marks a step.

    Raises:
        ArgumentError: there is no such step, or none is chosen.
    """
    chosen = [steps] if isinstance(steps, int | str) else list(steps)
    have = some_steps(seen) or f"none: no annotation {annotation}"
    if not chosen:
        raise ArgumentError(f"no step is chosen; there are: {have}")
    names: set[str] = set()
    for step in chosen:
        found = {str(step), f"{annotation}#{step}"} & set(seen)
        if not found:
            raise ArgumentError(f"there is no step {step}; there are: {have}")
        names |= found
    return tuple(name for name in dict.fromkeys(seen) if name in names)


def in_steps(part: RankGraph, names: Sequence[str], windows: pl.DataFrame) -> RankGraph:
    """The moments of some steps: those of threads in the windows of the steps, and of the device work issued in them.

    What they waited for outside of these is kept without what it waited for itself: it happens when it did.

    Args:
        part: all of a rank.
        names: the steps.
        windows: all steps of the rank: `step`, `start_ns`, `end_ns`.
    """
    inside = _inside(part, names, windows.filter(pl.col("step").is_in(list(names))))
    edges = part.edges[inside[part.edges.after]]
    kept = inside[::2] | inside[1::2]
    for moments in (edges.before, edges.after):
        kept[moments // 2] = True
    kept[edges.activity] = True
    number = np.cumsum(kept) - 1
    return replace(
        part,
        activities=part.activities.filter(pl.Series(kept)),
        times_ns=part.times_ns[np.repeat(kept, 2)],
        edges=EdgeList(
            2 * number[edges.before // 2] + edges.before % 2,
            2 * number[edges.after // 2] + edges.after % 2,
            edges.work_ns,
            edges.kind,
            number[edges.activity],
        ),
    )


def _inside(part: RankGraph, names: Sequence[str], windows: pl.DataFrame) -> _Flags:
    """Of each moment whether it is in the steps."""
    of_step = part.activities.select(as_text("step").is_in(list(names)).fill_null(value=False)).to_series()
    on_device = part.activities.get_column("stream").is_not_null().to_numpy()
    in_window = np.zeros(len(part.times_ns), dtype=np.bool_)
    for start, end in windows.select("start_ns", "end_ns").iter_rows():
        in_window |= (part.times_ns >= start) & (part.times_ns <= end)
    found: _Flags = np.where(np.repeat(on_device, 2), np.repeat(of_step.to_numpy(), 2), in_window)
    return found
