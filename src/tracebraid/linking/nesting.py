"""Which host event lies inside which, and inclusive and exclusive times, from the intervals alone."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.category import Role, categories_of
from tracebraid.model.schema import HOST_TREE
from tracebraid.model.timeline import Timeline

__all__ = ["TOLERANCE_NS", "host_tree"]

TOLERANCE_NS = 1000
"""How far a child may stick out of its parent: traces in µs round to it, those in ns overlap by less."""

_Ints = NDArray[np.int64]
_OPS = categories_of(Role.OP, Role.ANNOTATION)
_INSIDE_FIRST = {Role.PYTHON: 0, Role.ANNOTATION: 1, Role.OP: 1, Role.CALL: 2}


def host_tree(timeline: Timeline) -> pl.DataFrame:
    """The table `host_tree`: parents, depths and times of all host events that have a duration.

    On each thread, an event is inside the nearest earlier one that is still open when it starts and that it
    does not outlast. It may outlast it by what rounding explains: at most `TOLERANCE_NS`, and no more than
    the part of it that lies inside. Of events that start together, Python functions are outside of ops and
    ops outside of runtime calls; ops keep the order of the file, which is the order of their starts.

    Inclusive time is the duration, cut at the parent's end. Exclusive time is inclusive time less what the
    events directly inside cover.
    """
    events = _host_events(timeline)
    if events.is_empty():
        return HOST_TREE.empty()
    start, end = events.get_column("ts_ns").to_numpy(), events.get_column("end_ns").to_numpy()
    is_op = events.get_column("is_op").to_numpy()
    parent, op_parent, depth, cut = _walk(
        events.get_column("lane").to_list(), start.tolist(), end.tolist(), is_op.tolist()
    )
    event_id = events.get_column("event_id").to_numpy()
    op_covered = np.where(is_op, _covered(np.where(is_op, op_parent, -1), start, cut), 0)
    inclusive = cut - start
    tree = pl.DataFrame(
        {
            "event_id": event_id,
            "parent_event": _ids(event_id, parent),
            "op_event": _ids(event_id, op_parent),
            "depth": depth,
            "inclusive_ns": inclusive,
            "exclusive_ns": inclusive - _covered(parent, start, cut),
            "op_exclusive_ns": pl.Series(inclusive - op_covered).set(pl.Series(~is_op), None),
        },
        schema=HOST_TREE.polars_schema(),
    )
    return tree.sort("event_id")


def _host_events(timeline: Timeline) -> pl.DataFrame:
    """Host events with a duration, outer before inner: by thread, start, and what is outside of what."""
    category = pl.col("category").cast(pl.String)
    order = {name: rank for role, rank in _INSIDE_FIRST.items() for name in categories_of(role)}
    return (
        timeline.events.filter(category.is_in(list(order)))
        .select(
            "event_id",
            "lane",
            "ts_ns",
            (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
            category.replace_strict(order, return_dtype=pl.Int8).alias("outside"),
            category.is_in(_OPS).alias("is_op"),
        )
        .with_columns(
            pl.when(pl.col("outside") == 0).then(-pl.col("end_ns")).otherwise(0).alias("long_first")
        )
        .sort("lane", "ts_ns", "outside", "long_first", "event_id")
    )


def _walk(
    lanes: list[int], starts: list[int], ends: list[int], is_op: list[bool]
) -> tuple[_Ints, _Ints, _Ints, _Ints]:
    """(row of the parent, row of the op around, depth, end cut at the parent's end) of each row; -1 for none.

    One pass with a stack of open rows. A row that the new one outlasts is closed: whatever lies in it from
    here on lies in the new one too.
    """
    parents, around, depths, cuts = [-1] * len(starts), [-1] * len(starts), [0] * len(starts), ends.copy()
    stack: list[int] = []
    lane = None
    for row, start in enumerate(starts):
        if lanes[row] != lane:
            stack.clear()
            lane = lanes[row]
        end = ends[row]
        while stack:
            top = stack[-1]
            inside = ends[top] - start
            if inside > 0 and end - ends[top] <= min(inside, TOLERANCE_NS):
                parents[row] = top
                around[row] = top if is_op[top] else around[top]
                depths[row] = len(stack)
                if cuts[top] < end:
                    cuts[row] = cuts[top]
                break
            stack.pop()
        stack.append(row)
    return np.array(parents), np.array(around), np.array(depths), np.maximum(np.array(cuts), np.array(starts))


def _covered(parent: _Ints, start: _Ints, end: _Ints) -> _Ints:
    """How much of each row the rows with that parent cover; siblings may overlap, and then count once.

    Rows are in the order of their starts, and so the ends of siblings rise: see `_walk`.
    """
    child = np.flatnonzero(parent >= 0)
    child = child[np.argsort(parent[child], kind="stable")]
    begin = start[child].copy()
    same = parent[child][1:] == parent[child][:-1]
    begin[1:][same] = np.maximum(begin[1:][same], end[child][:-1][same])
    length = np.maximum(end[child] - begin, 0)
    covered = np.zeros(len(parent), dtype=np.int64)
    np.add.at(covered, parent[child], length)
    return covered


def _ids(event_id: _Ints, rows: _Ints) -> pl.Series:
    ids = pl.Series(event_id[np.maximum(rows, 0)])
    return ids.set(pl.Series(rows < 0), None)
