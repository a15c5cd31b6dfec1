"""Dependency graphs made of a few numbers, without any trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from hypothesis import strategies as st
from numpy.typing import NDArray

from tracebraid.linking.ranks.clocks import link_ranks
from tracebraid.model.graph import (
    ActivityKind,
    CriticalPath,
    DependencyGraph,
    EdgeKind,
    Edges,
    Moments,
    Residual,
)
from tracebraid.model.schema.links import ACTIVITIES, GRAPH_STEPS, LATENCIES
from tracebraid.simulation.replay import replay

Ints = NDArray[np.int64]
_NO_RANKS = link_ranks([])


class Wait(NamedTuple):
    """A moment waits for another; its work belongs to an activity."""

    before: int
    after: int
    work_ns: int = 0
    kind: EdgeKind = EdgeKind.HOST
    activity: int = 0


def graph_of(
    waits: Sequence[Wait],
    residual_ns: Sequence[int],
    steps: Sequence[dict[str, object]] = (),
    ranks: Sequence[int | None] = (),
) -> DependencyGraph:
    """A graph whose times follow from its work; two moments an activity, in the order of their numbers.

    Args:
        waits: the edges, each forward.
        residual_ns: of each moment.
        steps: rows of `GRAPH_STEPS`.
        ranks: of each activity; else 0.
    """
    ordered = sorted(waits, key=lambda wait: wait.after)
    after = np.array([wait.after for wait in ordered], dtype=np.int64)
    first = np.searchsorted(after, np.arange(len(residual_ns) + 1)).astype(np.int64)
    edges = Edges(
        first,
        np.array([wait.before for wait in ordered], dtype=np.int32),
        np.array([wait.work_ns for wait in ordered], dtype=np.int64),
        np.array([wait.kind for wait in ordered], dtype=np.uint8),
        np.array([wait.activity for wait in ordered], dtype=np.int32),
    )
    residual = np.array(residual_ns, dtype=np.int64)
    times = replay(first, edges.before, edges.work_ns, residual)
    count = len(residual) // 2
    codes = np.where(residual > 0, Residual.UNEXPLAINED, Residual.NONE).astype(np.uint8)
    moments = Moments(
        np.arange(2 * count) // 2, (np.arange(2 * count) % 2).astype(np.uint8), times, residual, codes
    )
    activities = pl.DataFrame(
        {
            "rank": list(ranks) or [0] * count,
            "kind": [ActivityKind.OP.value] * count,
            "name": [f"op{number}" for number in range(count)],
            "start_ns": times[::2],
            "end_ns": times[1::2],
        }
    )
    rows = pl.DataFrame(list(steps), schema=GRAPH_STEPS.polars_schema())
    return DependencyGraph(
        ACTIVITIES.conform(activities, fill_missing=True),
        moments,
        edges,
        np.arange(2 * count, dtype=np.int32).reshape(-1, 2),
        rows,
        LATENCIES.empty(),
        _NO_RANKS,
    )


@st.composite
def graphs(draw: st.DrawFn) -> DependencyGraph:
    """Any graph of a few activities, its moments in the order of their times, with one or two steps."""
    count = 2 * draw(st.integers(1, 8))
    small = st.integers(0, 30)
    pairs = draw(
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1), small), max_size=3 * count)
    )
    waits = [Wait(min(a, b), max(a, b), work) for a, b, work in pairs if a != b]
    residual = draw(st.lists(st.sampled_from([0, 0, 0, 5, 20]), min_size=count, max_size=count))
    times = graph_of(waits, residual).moments.time_ns
    order = np.argsort(times, kind="stable")
    position = np.empty(count, dtype=np.int64)
    position[order] = np.arange(count)
    kinds = st.sampled_from([EdgeKind.HOST, EdgeKind.DEVICE, EdgeKind.LAUNCH, EdgeKind.SYNC])
    moved = [
        Wait(
            int(position[wait.before]),
            int(position[wait.after]),
            wait.work_ns,
            draw(kinds),
            draw(small) % (count // 2),
        )
        for wait in waits
    ]
    cut = draw(st.integers(0, count - 1))
    steps = [step_row("s#1", 0, cut), step_row("s#2", cut, count - 1)][draw(st.integers(0, 1)) :]
    return graph_of(moved, [residual[moment] for moment in order], steps)


def step_row(step: str | None, start: int, end: int, rank: int = 0) -> dict[str, object]:
    """A row of `GRAPH_STEPS` that ends on the host."""
    return {
        "step": step,
        "rank": rank,
        "start_moment": start,
        "host_end_moment": end,
        "device_end_moment": None,
    }


def check_sums(path: CriticalPath) -> None:
    """Path and residuals are the step, its segments follow each other from its start to its end."""
    steps = path.steps
    assert (steps["path_ns"] + steps["residual_ns"]).to_list() == steps["span_ns"].to_list()
    assert (path.segments["work_ns"] + path.segments["residual_ns"]).to_list() == path.segments[
        "duration_ns"
    ].to_list()
    assert path.segments.filter(pl.col("duration_ns") <= 0).is_empty()
    for row in steps.iter_rows(named=True):
        found = path.segments.filter(pl.col("step").eq_missing(row["step"]))
        starts, durations = found["start_ns"].to_numpy(), found["duration_ns"].to_numpy()
        ends = starts + durations
        assert int(durations.sum()) == row["span_ns"]
        if found.height:
            assert starts[0] == row["start_ns"]
            assert (starts[1:] == ends[:-1]).all()
        for by in ("kind", "rank"):
            totals = path.totals.filter(
                pl.col("step").eq_missing(row["step"]) & (pl.col("by").cast(pl.String) == by)
            )
            assert totals["duration_ns"].sum() == row["span_ns"]
