"""Nest host events by their intervals, and compute inclusive and exclusive times."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import astuple
from numpy.typing import NDArray

from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.quantities import NS_PER_MS
from tracebraid.model.schema import HOST_TREE
from tracebraid.model.timeline import Timeline

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
_NONE = -1
_LARGEST = 1 << 62
"""Times of all threads are laid in turn: as long as they fit."""


_FRAME = 0
_OP = 1
_CALL = 2
_ANNOTATION = 3
_KINDS = {Role.PYTHON: _FRAME, Role.ANNOTATION: _ANNOTATION, Role.OP: _OP, Role.CALL: _CALL}


class HostRows(Struct, frozen=True):
    """Host events with a duration, sorted by thread, start, and nesting order.

    Args:
        lane: the thread.
        start: ns.
        end: ns.
        kind: a value of `_KINDS`.
    """

    lane: _Ints
    start: _Ints
    end: _Ints
    kind: NDArray[np.int8]

    @property
    def is_op(self) -> _Bools:
        """Return whether each is an op or annotation."""
        found: _Bools = (self.kind == _OP) | (self.kind == _ANNOTATION)
        return found


class PlainNesting(Struct, frozen=True):
    """Nesting of plain threads' events.

    Args:
        is_plain: whether the thread of each row is plain; of the other rows nothing is said.
        parent: row of the op that encloses each row; -1: none.
        depth: number of ops that enclose it.
    """

    is_plain: _Bools
    parent: _Ints
    depth: _Ints


def plain_nesting(rows: HostRows) -> PlainNesting:
    """Compute the nesting of plain threads' events, in O(n log n)."""
    count = len(rows.lane)
    parent, depth = np.full(count, _NONE, dtype=np.int64), np.zeros(count, dtype=np.int64)
    thread = np.cumsum(np.r_[True, rows.lane[1:] != rows.lane[:-1]]) - 1 if count else rows.lane
    spread = _sequential_intervals(rows, thread)
    if spread is None:
        return PlainNesting(np.zeros(count, dtype=np.bool_), parent, depth)
    start, end = spread
    ops, calls = np.flatnonzero(rows.is_op), np.flatnonzero(rows.kind == _CALL)
    fault = (rows.kind == _FRAME) | (rows.end < rows.start)
    # A call must end before the next event of its thread begins.
    fault[calls] |= np.r_[start[1:], _LARGEST][calls] < end[calls]
    op_parent, op_depth, op_fault = _of_ops(start[ops], end[ops])
    fault[ops] |= op_fault
    parent[ops], depth[ops] = _at(ops, op_parent), op_depth
    op_of_call = _of_calls(start[calls], end[calls], start[ops], end[ops], op_parent)
    known = op_of_call != _NONE
    fault[calls[known]] |= end[calls[known]] > end[ops[op_of_call[known]]]
    parent[calls] = _at(ops, op_of_call)
    depth[calls[known]] = op_depth[op_of_call[known]] + 1
    has_fault = np.zeros(int(thread[-1]) + 1 if count else 0, dtype=np.bool_)
    has_fault[thread[fault]] = True
    return PlainNesting(~has_fault[thread], parent, depth)


def _sequential_intervals(rows: HostRows, thread: _Ints) -> tuple[_Ints, _Ints] | None:
    """Starts and ends, where each thread begins after the last has ended; None if the numbers do not allow it."""
    if not len(thread):
        return rows.start, rows.end
    first, last = int(rows.start.min()), int(np.maximum(rows.start, rows.end).max())
    # Two apart, so that no event of a thread begins where one of the thread before may end.
    length = last - first + 2
    if length * (int(thread[-1]) + 1) >= _LARGEST:
        return None
    shift = thread * length - first
    return rows.start + shift, np.maximum(rows.end, rows.start) + shift


def _of_ops(start: _Ints, end: _Ints) -> tuple[_Ints, _Ints, _Bools]:
    """Return each op's parent (-1: none), its depth, and whether its thread is not plain.

    An op is over at the first later op that starts behind its end, or at its end and has a length. Those that are
    not over enclose the ops that follow; the innermost is the last op of the depth above.
    """
    count = len(start)
    number = np.arange(count)
    long = np.flatnonzero(end > start)
    behind = np.searchsorted(start, end, side="right")
    at_end = np.searchsorted(start[long], end, side="left")
    # For an op without length, of those that start with it only later ones.
    at_end = np.where(end > start, at_end, np.searchsorted(long, number, side="right"))
    over = np.minimum(behind, np.r_[long, count][at_end])
    depth = number - np.cumsum(np.bincount(over, minlength=count + 1))[:count]
    order = np.argsort(depth, kind="stable")
    keys = depth[order] * (count + 1) + order
    before = np.searchsorted(keys, (depth - 1) * (count + 1) + number) - 1
    parent = np.where(depth > 0, order[np.maximum(before, 0)], _NONE) if count else number
    inside = parent >= 0
    outer = np.maximum(parent, 0)
    holds = (depth[outer] == depth - 1) & (over[outer] > number) & (end[outer] >= end) if count else inside
    return parent, depth, inside & ~holds


def _of_calls(start: _Ints, end: _Ints, op_start: _Ints, op_end: _Ints, op_parent: _Ints) -> _Ints:
    """The innermost op that is open at each call; one that ends as a call with a length starts is not."""
    op_of_call = np.searchsorted(op_start, start, side="right") - 1
    until = np.where(end > start, start + 1, start)
    over = np.flatnonzero(op_of_call >= 0)
    while len(over := over[op_end[op_of_call[over]] < until[over]]):
        op_of_call[over] = op_parent[op_of_call[over]]
        over = over[op_of_call[over] >= 0]
    found: _Ints = op_of_call
    return found


def _at(rows: _Ints, numbers: _Ints) -> _Ints:
    """The row of each number; -1 for -1."""
    found: _Ints = np.r_[rows, _NONE][numbers]
    return found


TOLERANCE_NS = 1000
"""Maximum overhang of a child over its parent: traces in µs round to it, those in ns overlap by less."""


EXIT_NS = 1_000_000
"""Maximum time that a built-in function continues after closing an annotation: 1 ms; traces have some µs."""

_BUILT_IN = "<built-in "
_TABLE_SCHEMA = {"event_id": pl.Int64, "python_id": pl.Int64, "python_parent_id": pl.Int64}
_FRAME_SCHEMA = {"event_id": pl.Int64, "proven_end_ns": pl.Int64}


def proven_ends(timeline: Timeline) -> pl.DataFrame:
    """The frames that end late, and when they ended at the latest: `event_id`, `proven_end_ns`.

    Kineto names each frame's caller by its `Python parent id`. A frame is over when its caller calls another
    function, and when its caller returns.
    """
    frames = _frames(timeline)
    if frames.is_empty():
        return pl.DataFrame(schema=_FRAME_SCHEMA)
    of_caller = ["lane", "python_parent_id"]
    cut = frames.sort(*of_caller, "ts_ns", "event_id").with_columns(
        pl.min_horizontal("end_ns", pl.col("ts_ns").shift(-1).over(of_caller)).alias("cut_ns")
    )
    callers = cut.select("lane", pl.col("python_id").alias("python_parent_id"), caller_end_ns="cut_ns")
    cut = cut.join(callers.unique(of_caller, keep="none"), on=of_caller, how="left").with_columns(
        pl.when(pl.col("caller_end_ns") >= pl.col("ts_ns"))
        .then(pl.min_horizontal("cut_ns", "caller_end_ns"))
        .otherwise("cut_ns")
        .alias("proven_end_ns")
    )
    late = cut.filter(pl.col("end_ns") > pl.col("proven_end_ns") + TOLERANCE_NS)
    return late.select(list(_FRAME_SCHEMA))


def frame_end_findings(timeline: Timeline, tree: pl.DataFrame) -> list[Finding]:
    """Count the frames with a wrong end in the Kineto trace, as a finding: those that `host_tree` cuts."""
    if not timeline.has_role(Role.PYTHON):
        return []
    events = timeline.events.select("event_id", "name", "category", "dur_ns")
    over = pl.col("dur_ns") - pl.col("inclusive_ns")
    late = (
        events.filter(as_text("category").is_in(categories_of(Role.PYTHON)))
        .join(tree.select("event_id", "inclusive_ns"), on="event_id", maintain_order="left")
        .filter(over > TOLERANCE_NS)
    )
    if late.is_empty():
        return []
    longest = late.select(over.max()).item() / NS_PER_MS
    where = f"event {late.item(0, 'event_id')} ({late.item(0, 'name')})"
    return [Finding.of(FindingCode.FRAME_END_LATE, timeline.path, where, late.height, longest_ms=longest)]


def _frames(timeline: Timeline) -> pl.DataFrame:
    table = timeline.tables.get("python_functions")
    if table is None or table.is_empty():
        return pl.DataFrame(schema={"event_id": pl.Int64})
    events = timeline.events.select(
        "event_id", "lane", "ts_ns", (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns")
    )
    return (
        table.select("event_id", "python_id", "python_parent_id")
        .filter(pl.col("python_id").is_not_null() & pl.col("python_parent_id").is_not_null())
        .join(events, on="event_id")
    )


_NEVER = 1 << 62
"""An end after all others, ns."""


def host_tree(timeline: Timeline) -> pl.DataFrame:
    """The table `host_tree`: parents, depths and times of all host events that have a duration.

    Ops and annotations nest among themselves (`op_event`): on each thread, one is inside the nearest earlier one that
    is still open when it starts and that it does not outlast. It may outlast it by what rounding explains: at most
    `TOLERANCE_NS`, and no more than the part of it that lies inside. One without length is inside the nearest earlier
    one that has not ended before: in traces in µs short ops have no length and lie at their parent's end. Ops that
    start together keep the order of the file, which is the order of their starts.

    Python frames nest among themselves and in ops: an op ends no earlier than what it calls, so that a frame is cut
    at the end of the op in which it starts. An annotation proves nothing about a frame. It is opened by one call and
    closed by another, and belongs to what calls both; its body lies between them. The parent of a frame that is open
    when an annotation closes is therefore not that annotation.

    A call is inside the nearest op that it does not outlast. Of events that start together, frames are outside ops
    and ops outside calls.

    Inclusive time is the duration; that of an op is cut at the end of the enclosing op. Exclusive time is the body's
    less what the events directly inside cover: over a thread it sums to the time in which any event is open.
    """
    events = _host_events(timeline)
    if events.is_empty():
        return HOST_TREE.empty()
    rows = HostRows(
        *(events.get_column(name).to_numpy(writable=True) for name in ("lane", "ts_ns", "end_ns", "kind"))
    )
    nest = _nested(rows)
    late = _ends_late(timeline, events, rows, nest)
    if late.any():
        rows.end[late] = nest.end[nest.op_parent[late]]
        nest = _nested(rows)
    event_id, start = events.get_column("event_id").to_numpy(), rows.start
    op_covered = np.where(rows.is_op, _covered(np.where(rows.is_op, nest.op_parent, -1), start, nest.end), 0)
    inclusive = nest.end - start
    covered = _covered(nest.parent, nest.body_start, nest.body_end)
    tree = pl.DataFrame(
        {
            "event_id": event_id,
            "parent_event": _ids(event_id, nest.parent),
            "op_event": _ids(event_id, nest.op_parent),
            "depth": nest.depth,
            "body_start_ns": nest.body_start,
            "body_end_ns": nest.body_end,
            "inclusive_ns": inclusive,
            "exclusive_ns": nest.body_end - nest.body_start - covered,
            "op_exclusive_ns": pl.Series(inclusive - op_covered).set(pl.Series(~rows.is_op), None),
        },
        schema=HOST_TREE.polars_schema(),
    )
    return tree.sort("event_id")


def _host_events(timeline: Timeline) -> pl.DataFrame:
    """Sort host events with a duration, outer before inner: by thread, start, and nesting order."""
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
    # Of events that start together, the lower is outside.
    order = pl.when(pl.col("kind") == _ANNOTATION).then(_OP).otherwise("kind").alias("order")
    long_first = pl.when(pl.col("kind") == _FRAME).then(-pl.col("end_ns")).otherwise(0).alias("long_first")
    return events.with_columns(order, long_first).sort("lane", "ts_ns", "order", "long_first", "event_id")


class _Nest(Struct, frozen=True):
    """Nesting of host events, a value for each row.

    Args:
        parent: row of the innermost event around it; -1: none.
        op_parent: row of the innermost op or annotation around it; -1: none.
        depth: number of parents.
        end: its end, cut.
        body_start: start of its body, see `host_tree`.
        body_end: end of its body.
    """

    parent: _Ints
    op_parent: _Ints
    depth: _Ints
    end: _Ints
    body_start: _Ints
    body_end: _Ints


def _nested(rows: HostRows) -> _Nest:
    """Nest all rows; only threads that are not plain are walked."""
    plain = plain_nesting(rows)
    times = (rows.end.copy(), rows.start.copy(), rows.end.copy())
    nest = _Nest(plain.parent, plain.parent.copy(), plain.depth, *times)
    left = np.flatnonzero(~plain.is_plain)
    if len(left):
        walked = _walk(*(column[left].tolist() for column in astuple(rows)))
        for known, found in zip(astuple(nest), walked, strict=True):
            known[left] = found
        for column in (nest.parent, nest.op_parent):
            column[left] = np.r_[left, -1][column[left]]
    return nest


def _ends_late(timeline: Timeline, events: pl.DataFrame, rows: HostRows, nest: _Nest) -> _Bools:
    """Whether each row is a built-in function that outlasts an annotation by long, and makes no call at its end.

    Only such a call could have closed the annotation.
    """
    around = np.maximum(nest.op_parent, 0)
    late: _Bools = (rows.kind == _FRAME) & (nest.op_parent >= 0) & (rows.kind[around] == _ANNOTATION)
    late &= nest.end > nest.end[around] + EXIT_NS
    if not late.any():
        return late
    names = timeline.events.get_column("name").gather(events.get_column("event_id").to_numpy()[late])
    late[late] = names.cast(pl.String).str.starts_with(_BUILT_IN).to_numpy()
    calls = np.flatnonzero((nest.parent >= 0) & (rows.kind == _FRAME))
    closes = nest.end[around[nest.parent[calls]]]
    late[nest.parent[calls[(rows.start[calls] <= closes) & (closes <= nest.end[calls])]]] = False
    return late


def _walk(lanes: list[int], starts: list[int], ends: list[int], kinds: list[int]) -> tuple[_Ints, ...]:
    """The columns of `_Nest` for these rows.

    One pass with a stack of the open ops and annotations; each holds the frames and calls that are open in it, outer
    ones first. An op that a new op outlasts is closed: whatever lies in it from here on lies in the new one too.
    Frames and calls close no op, so that ops nest as if there were none. Frames outlive annotations that close, and
    go on in those that open within them. Below the stack lies a row that never ends.
    """
    count = len(starts)
    parents, op_of, depths, cuts = [-1] * count, [-1] * count, [0] * count, ends.copy()
    body_starts, body_ends = starts.copy(), [_NEVER] * count
    ops, op_ends = [-1], [_NEVER]
    # No list for each op: the garbage collector would visit all of them again and again.
    inside: list[list[int] | None] = [None]
    lane = None

    def close(start: int) -> None:
        """Close the innermost op; frames that are still open go on in the next."""
        del ops[-1], op_ends[-1]
        if between := inside.pop():
            go_on = [row for row in between if cuts[row] > start]
            if go_on:
                inside[-1] = [*(inside[-1] or ()), *go_on]

    for row, (start, end, kind) in enumerate(zip(starts, ends, kinds, strict=True)):
        if lanes[row] != lane:
            ops, op_ends, inside = [-1], [_NEVER], [None]
            lane = lanes[row]
        while op_ends[-1] < start:
            close(start)
        level = -1
        while (over := end - op_ends[level]) > 0:
            left = op_ends[level] - start
            if left > 0 and (kind == _FRAME or over <= min(left, TOLERANCE_NS)):
                break
            level -= 1
        op_of[row] = parent = ops[level]
        outlasted: list[int] = []
        if kind == _FRAME:
            at = level
            while (frame := _enclosing(inside[at], start, end, cuts)) < 0 and (parent := ops[at]) >= 0:
                if kinds[parent] == _OP or end <= cuts[parent]:
                    break
                body_ends[parent] = min(body_ends[parent], start)
                at -= 1
            parent = frame if frame >= 0 else parent
            limit = parent
        else:
            if kind != _CALL:
                for _ in range(-level - 1):
                    close(start)
                    level = -1
            limit = parent
            until = min(end, cuts[parent]) if over > 0 else end
            frame = _enclosing(inside[level], start, until, cuts, outlasted)
            if frame >= 0:
                parent = frame
                limit = parent if kind == _CALL else limit
        if parent >= 0:
            parents[row] = parent
            depths[row] = depths[parent] + 1
        if limit >= 0 and cuts[limit] < end:
            cuts[row] = cuts[limit]
        if kind in (_FRAME, _CALL):
            between = inside[level]
            if between is None:
                inside[level] = [row]
            else:
                between.append(row)
            continue
        ops.append(row)
        op_ends.append(end)
        go_on = [frame for frame in outlasted[::-1] if kinds[frame] == _FRAME] if kind == _ANNOTATION else []
        inside.append(go_on or None)
        if go_on:
            body_starts[row] = max(cuts[frame] for frame in go_on)
    end_ns = np.maximum(np.array(cuts), np.array(starts))
    body_end = np.minimum(np.array(body_ends), end_ns)
    body_start = np.minimum(np.array(body_starts), body_end)
    return np.array(parents), np.array(op_of), np.array(depths), end_ns, body_start, body_end


def _enclosing(
    between: list[int] | None, start: int, end: int, cuts: list[int], outlasted: list[int] | None = None
) -> int:
    """The innermost frame or call that encloses an event; -1: none. Those that it outlasts are closed."""
    while between:
        left = (cut := cuts[between[-1]]) - start
        if left > 0 and (end <= cut or end - cut <= min(left, TOLERANCE_NS)):
            return between[-1]
        if left > 0 and outlasted is not None:
            outlasted.append(between[-1])
        between.pop()
    return -1


def _covered(parent: _Ints, start: _Ints, end: _Ints) -> _Ints:
    """Part of each row that its children cover; overlapping siblings count once.

    Rows are in the order of their starts, and so the ends of siblings rise, but where a frame ends an annotation.
    """
    child = np.flatnonzero(parent >= 0)
    child = child[np.argsort(parent[child], kind="stable")]
    begin, reached = start[child].copy(), end[child]
    same = parent[child][1:] == parent[child][:-1]
    if (reached[1:][same] < reached[:-1][same]).any():
        ends = pl.DataFrame({"parent": parent[child], "end": reached})
        reached = ends.select(pl.col("end").cum_max().over("parent")).to_series().to_numpy()
    begin[1:][same] = np.maximum(begin[1:][same], reached[:-1][same])
    length = np.maximum(np.minimum(end[child], end[parent[child]]) - begin, 0)
    covered = np.zeros(len(parent), dtype=np.int64)
    np.add.at(covered, parent[child], length)
    return covered


def _ids(event_id: _Ints, rows: _Ints) -> pl.Series:
    ids = pl.Series(event_id[np.maximum(rows, 0)])
    return ids.set(pl.Series(rows < 0), None)


_SINGLE_QUOTED = pl.col("name").str.replace_all('"', "'", literal=True)
SAME_NAME = (pl.col("name") == pl.col("node_name")) | (pl.col("kineto_name") == _SINGLE_QUOTED)
"""Expression: whether an event with `name` and a node with `node_name` and `kineto_name` agree in name."""

_UNPRINTABLE = r"[^\x20-\x7e]"


def as_kineto_writes(name: pl.Expr) -> pl.Expr:
    """A name as Kineto writes it: without newlines, `/` for a backslash; with other characters, `unknown`.

    From torch 2.14 on it writes `'` for `"`; before, it left `"` as it is.
    """
    plain = name.str.replace_all("\n", "", literal=True)
    for old, new in (("\\", "/"), ('"', "'")):
        plain = plain.str.replace_all(old, new, literal=True)
    return pl.when(plain.str.contains(_UNPRINTABLE)).then(pl.lit("unknown")).otherwise(plain)
