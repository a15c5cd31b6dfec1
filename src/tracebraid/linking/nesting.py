"""Which host event lies inside which, and inclusive and exclusive times, from the intervals alone."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.linking.plain_nesting import HostRows, plain_nesting
from tracebraid.linking.python_frames import proven_ends
from tracebraid.linking.rounding import TOLERANCE_NS
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.schema import HOST_TREE
from tracebraid.model.timeline import Timeline

__all__ = ["TOLERANCE_NS", "host_tree"]

_Ints = NDArray[np.int64]
_NEVER = 1 << 62
"""An end after all others, ns."""
_FRAME, _OP, _CALL = 0, 1, 2
_KINDS = {Role.PYTHON: _FRAME, Role.ANNOTATION: _OP, Role.OP: _OP, Role.CALL: _CALL}
"""Of events that start together, the lower kind is outside."""


def host_tree(timeline: Timeline) -> pl.DataFrame:
    """The table `host_tree`: parents, depths and times of all host events that have a duration.

    On each thread, an op or annotation is inside the nearest earlier one that is still open when it starts and that
    it does not outlast. It may outlast it by what rounding explains: at most `TOLERANCE_NS`, and no more than the
    part of it that lies inside. One without length is inside the nearest earlier one that has not ended before: in
    traces in µs short ops have no length and lie at their parent's end. Ops that start together keep the order of the
    file, which is the order of their starts.

    Runtime calls and Python frames never change how ops nest. A call is inside the nearest op that it does not
    outlast. A frame is inside the nearest op that is open when it starts, and is cut at that op's end: frames close
    annotations that were open before them, and Kineto may end a frame late. Of events that start together, frames are
    outside of ops and ops outside of calls.

    Inclusive time is the duration, cut at the parent's end; that of ops at the end of the enclosing op.
    Exclusive time is inclusive time less what the events directly inside cover.
    """
    events = _host_events(timeline)
    if events.is_empty():
        return HOST_TREE.empty()
    start, end = events.get_column("ts_ns").to_numpy(), events.get_column("end_ns").to_numpy()
    kind = events.get_column("kind").to_numpy()
    is_op, lane = kind == _OP, events.get_column("lane").to_numpy()
    parent, op_parent, depth, cut = _nested(HostRows(lane, start, end, is_op, kind == _FRAME), kind)
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
    category = as_text("category")
    kinds = {name: kind for role, kind in _KINDS.items() for name in categories_of(role)}
    events = timeline.events.filter(category.is_in(list(kinds))).select(
        "event_id",
        "lane",
        "ts_ns",
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
        category.replace_strict(kinds, return_dtype=pl.Int8).alias("kind"),
    )
    proven = proven_ends(timeline)
    if not proven.is_empty():
        events = events.join(proven, on="event_id", how="left").with_columns(
            pl.coalesce("proven_end_ns", "end_ns").alias("end_ns")
        )
    long_first = pl.when(pl.col("kind") == _FRAME).then(-pl.col("end_ns")).otherwise(0)
    return events.with_columns(long_first.alias("long_first")).sort(
        "lane", "ts_ns", "kind", "long_first", "event_id"
    )


def _nested(rows: HostRows, kind: NDArray[np.int8]) -> tuple[_Ints, _Ints, _Ints, _Ints]:
    """What `_walk` gives; only the threads that are not plain are walked through."""
    plain = plain_nesting(rows)
    parent, op_of, depth, cut = plain.parent, plain.parent.copy(), plain.depth, rows.end.copy()
    left = np.flatnonzero(~plain.is_plain)
    if len(left):
        columns = (rows.lane, rows.start, rows.end, kind)
        walked = _walk(*(column[left].tolist() for column in columns))
        parent[left], op_of[left] = (np.r_[left, -1][found] for found in walked[:2])
        depth[left], cut[left] = walked[2:]
    return parent, op_of, depth, cut


def _walk(
    lanes: list[int], starts: list[int], ends: list[int], kinds: list[int]
) -> tuple[_Ints, _Ints, _Ints, _Ints]:
    """(row of the parent, row of the op that encloses it, depth, end cut at the parent's end) of each row; -1 for none.

    One pass with a stack of the open ops; each holds the open frames and calls that lie directly in it, outer ones
    first. An op that a new op outlasts is closed: whatever lies in it from here on lies in the new one too. Frames
    and calls close no op, so that ops nest as if there were none. Below the stack lies a row that never ends.
    """
    parents, op_of, depths, cuts = [-1] * len(starts), [-1] * len(starts), [0] * len(starts), ends.copy()
    ops, op_ends = [-1], [_NEVER]
    # No list for each op: the garbage collector would visit all of them again and again.
    inside: list[list[int] | None] = [None]
    lane = None
    for row, (start, end, kind) in enumerate(zip(starts, ends, kinds, strict=True)):
        if lanes[row] != lane:
            ops, op_ends, inside = [-1], [_NEVER], [None]
            lane = lanes[row]
        while op_ends[-1] < start:
            del ops[-1], op_ends[-1], inside[-1]
        level = -1
        while (over := end - op_ends[level]) > 0:
            left = op_ends[level] - start
            if left > 0 and (kind == _FRAME or over <= min(left, TOLERANCE_NS)):
                break
            level -= 1
        op_of[row] = parent = ops[level]
        if over > 0:
            end = cuts[row] = min(end, cuts[parent])
        between = inside[level]
        if between:
            parent = _enclosing(between, start, end, cuts, parent)
        if parent >= 0:
            parents[row] = parent
            depths[row] = depths[parent] + 1
            limit = ops[level] if kind == _OP else parent
            if limit >= 0 and cuts[limit] < end:
                cuts[row] = cuts[limit]
        if kind != _OP:
            if between is None:
                inside[level] = [row]
            else:
                between.append(row)
            continue
        if level < -1:
            del ops[level + 1 :], op_ends[level + 1 :], inside[level + 1 :]
        ops.append(row)
        op_ends.append(ends[row])
        inside.append(None)
    return np.array(parents), np.array(op_of), np.array(depths), np.maximum(np.array(cuts), np.array(starts))


def _enclosing(between: list[int], start: int, end: int, cuts: list[int], op: int) -> int:
    """The innermost frame or call that encloses an event, else the op; those that it outlasts are closed."""
    while between:
        left = (cut := cuts[between[-1]]) - start
        if left > 0 and (end <= cut or end - cut <= min(left, TOLERANCE_NS)):
            return between[-1]
        between.pop()
    return op


def _covered(parent: _Ints, start: _Ints, end: _Ints) -> _Ints:
    """How much of each row the rows with that parent cover; siblings may overlap, and then count once.

    Rows are in the order of their starts, and so the ends of siblings rise: see `_walk`.
    """
    child = np.flatnonzero(parent >= 0)
    child = child[np.argsort(parent[child], kind="stable")]
    begin = start[child].copy()
    same = parent[child][1:] == parent[child][:-1]
    begin[1:][same] = np.maximum(begin[1:][same], end[child][:-1][same])
    length = np.maximum(np.minimum(end[child], end[parent[child]]) - begin, 0)
    covered = np.zeros(len(parent), dtype=np.int64)
    np.add.at(covered, parent[child], length)
    return covered


def _ids(event_id: _Ints, rows: _Ints) -> pl.Series:
    ids = pl.Series(event_id[np.maximum(rows, 0)])
    return ids.set(pl.Series(rows < 0), None)
