"""Device work that is queued on another stream."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from enum import Enum

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.graph.latest_edges import edge_list, with_edges, without_edges
from tracebraid.model.amounts import bytes_of_text
from tracebraid.model.category import Category
from tracebraid.model.collectives import is_between_two
from tracebraid.model.device_peaks import host_op_communicates
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import ActivityKind, DependencyGraph, EdgeKind, EdgeList, Point, Residual, Where
from tracebraid.model.kernel_family import KernelFamily
from tracebraid.model.quantities import number_ranges
from tracebraid.simulation.changes.communication import drop_residuals
from tracebraid.simulation.changes.verbs import Value, verb

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]

_NEVER = np.iinfo(np.int64).min
_OPS = (ActivityKind.OP.value, ActivityKind.CALL.value)


def host_moments(graph: DependencyGraph) -> tuple[_Ints, _Ints]:
    """The moments of all threads, thread by thread, each in its order; and the thread of each, a number."""
    table = graph.activities.select(
        pl.col("stream").is_null() & pl.col("lane").is_not_null() & pl.col("rank").is_not_null(),
        thread=pl.struct("rank", "lane").rank("dense"),
    )
    is_host, thread = (table.get_column(name).to_numpy() for name in ("stream", "thread"))
    moments = np.flatnonzero(is_host[graph.moments.activity])
    of_moment = thread[graph.moments.activity[moments]].astype(np.int64)
    order = np.argsort(of_moment, kind="stable")
    return moments[order], of_moment[order]


def with_nested(graph: DependencyGraph, chosen: _Bools) -> _Bools:
    """The chosen activities, all that host events among them call, and the device work that is launched there.

    Sends and receives of the host call nothing: what runs on their thread until they end runs beside them.
    """
    moments = host_moments(graph)[0]
    activity = graph.moments.activity[moments]
    is_start = graph.moments.point[moments] == Point.START
    calls = chosen & ~graph.activities.select(is_between_two()).to_series().to_numpy()
    opens = np.where(calls[activity], np.where(is_start, 1, -1), 0)
    # Events that cross a thread's end do not exist: the sum is 0 if a thread begins.
    depth = np.cumsum(opens)
    found: _Bools = chosen.copy()
    found[activity[is_start & (depth > 0)]] = True
    found |= launched(graph, found)
    return found


def launched_by(graph: DependencyGraph) -> _Ints:
    """The call that launched each activity; -1: none is known."""
    edges = graph.edges
    of_launch = np.flatnonzero(edges.kind == EdgeKind.LAUNCH)
    found = np.full(graph.activities.height, -1, dtype=np.int64)
    work = graph.moments.activity[graph.after[of_launch]]
    found[work] = graph.moments.activity[edges.before[of_launch]]
    return found


def asked_by(graph: DependencyGraph) -> _Ints:
    """The op of communication that asked for each activity of a device or a backend's thread; -1: unknown.

    Without such an op it is the call of the launch: another op around it does work of its own.
    """
    edges, moments = graph.edges, graph.moments
    asks = np.isin(edges.kind, (EdgeKind.THREAD, EdgeKind.LAUNCH)) & (
        moments.point[graph.after] == Point.START
    )
    taker, giver = moments.activity[graph.after[asks]], moments.activity[edges.before[asks]]
    # Of what a backend of the host does, the edge names the op that asked for it.
    asking = np.where(edges.activity[asks] != taker, edges.activity[asks], giver)
    ops = graph.ops_around(asking)
    named = graph.activities[ops].select(as_text("name"), pl.lit(Category.CPU_OP.value).alias("category"))
    calls = np.where(edges.kind[asks] == EdgeKind.LAUNCH, asking, -1)
    found = np.full(graph.activities.height, -1, dtype=np.int64)
    found[taker] = np.where(host_op_communicates(named).to_numpy(), ops, calls)
    return found


def launched(graph: DependencyGraph, calls: _Bools) -> _Bools:
    """The device work that was launched by some activities."""
    by = launched_by(graph)
    found: _Bools = (by >= 0) & calls[np.maximum(by, 0)]
    return found


def with_emptied(graph: DependencyGraph, gone: _Bools) -> _Bools:
    """The activities that are gone, and the ops with ops inside of which these and all calls are gone."""
    moments = host_moments(graph)[0]
    activity = graph.moments.activity[moments]
    kinds = graph.activities.get_column("kind").cast(pl.String)
    starts = graph.moments.point[moments] == Point.START
    is_op = (kinds == ActivityKind.OP.value).to_numpy()
    works = starts & kinds.is_in(_OPS).to_numpy()[activity]
    position = np.zeros(len(graph.moments), dtype=np.int64)
    position[moments] = np.arange(len(moments))
    op = np.flatnonzero(is_op & ~gone)
    start, end = (position[graph.moment_of[op, point]] for point in (Point.START, Point.END))
    inside, left = (
        counted[end] - counted[start]
        for counted in (np.cumsum(starts & is_op[activity]), np.cumsum(works & ~gone[activity]))
    )
    found: _Bools = gone.copy()
    found[op[(inside > 0) & (left == 0)]] = True
    return found


def without_callers(graph: DependencyGraph, gone: _Bools, work_ns: _Ints) -> _Ints:
    """The work of edges without that of the code that called host events which are gone.

    It is the time from the thread's moment before, outside of ops, up to what is usual before the ops of the thread:
    longer times hold work of their own.
    """
    edges, moments = graph.edges, graph.moments
    is_op = graph.activities.get_column("kind").cast(pl.String).is_in(_OPS).to_numpy()
    of_after = moments.activity[graph.after]
    calls = (edges.kind == EdgeKind.HOST) & (moments.point[graph.after] == Point.START)
    calls = np.flatnonzero(calls & is_op[of_after] & ~is_op[edges.activity] & (edges.work_ns > 0))
    thread = graph.activities.select(pl.struct("rank", "lane").rank("dense")).to_series()
    rows = pl.DataFrame({"thread": thread.gather(edges.activity[calls]), "work_ns": edges.work_ns[calls]})
    usual_ns = rows.select(pl.col("work_ns").median().over("thread")).to_series().to_numpy()
    own = gone[of_after[calls]] & ~gone[edges.activity[calls]]
    found: _Ints = work_ns.copy()
    found[calls[own]] -= np.minimum(found[calls[own]], np.rint(usual_ns[own]).astype(np.int64))
    return found


def with_work_for(graph: DependencyGraph, chosen: _Bools) -> _Bools:
    """`with_nested`, and what other threads do for the chosen events: from a hand-over on, until the event ends.

    Communication issued in an event belongs to it, even if it begins after the event.
    """
    moments, thread = host_moments(graph)
    activity = graph.moments.activity[moments]
    is_start = graph.moments.point[moments] == Point.START
    table = graph.activities.select(
        "end_ns",
        thread=pl.col("kind") == ActivityKind.THREAD.value,
        communicates=pl.col("kind") == ActivityKind.COMMUNICATION.value,
    )
    is_thread, communicates = (table.get_column(name).to_numpy() for name in ("thread", "communicates"))
    start_ns = graph.activities.get_column("start_ns").to_numpy()[activity]
    begins = is_start & ~is_thread[activity]
    hand_overs = _HandOvers.of(graph, moments, thread)
    # When the event ends that an activity belongs to.
    until_ns = np.where(chosen, table.get_column("end_ns").to_numpy(), _NEVER)
    while True:
        inside_ns = _inside(until_ns[activity], is_start)
        # An op may hand over with its last moment.
        from_ns = np.maximum(inside_ns, until_ns[activity])[hand_overs.giver]
        of_segment = np.full(len(hand_overs.starts) + 1, _NEVER)
        np.maximum.at(of_segment, hand_overs.segment, from_ns)
        given_ns = of_segment[hand_overs.of_position]
        is_first = _is_first(hand_overs.of_position, begins)
        taken = begins & (inside_ns == _NEVER) & (given_ns > _NEVER)
        taken &= (start_ns < given_ns) | (is_first & communicates[activity])
        if not taken.any():
            break
        until_ns[activity[taken]] = given_ns[taken]
    return with_nested(graph, until_ns > _NEVER)


class _HandOvers(Struct, frozen=True, eq=False):
    """Hand-overs between threads of a rank, over the positions of all threads' moments.

    Args:
        giver: the position of the moment that hands over.
        segment: the segment that the hand-over begins; a segment ends with the next one to its thread.
        starts: the first position of each segment.
        of_position: the segment of each position; as many as there are where it is in none.
    """

    giver: _Ints
    segment: _Ints
    starts: _Ints
    of_position: _Ints

    @classmethod
    def of(cls, graph: DependencyGraph, moments: _Ints, thread: _Ints) -> _HandOvers:
        position = np.full(len(graph.moments.activity), -1, dtype=np.int64)
        position[moments] = np.arange(len(moments))
        rows = np.flatnonzero(graph.edges.kind == EdgeKind.THREAD)
        giver, taker = position[graph.edges.before[rows]], position[graph.after[rows]]
        known = (giver >= 0) & (taker >= 0)
        giver, taker = giver[known], taker[known]
        apart = thread[giver] != thread[taker]
        giver, taker = giver[apart], taker[apart]
        starts, segment = np.unique(taker, return_inverse=True)
        of_position = np.searchsorted(starts, np.arange(len(moments)), side="right") - 1
        outside = of_position < 0
        outside[~outside] = thread[starts[of_position[~outside]]] != thread[~outside]
        of_position[outside] = len(starts)
        return cls(giver, segment, starts, of_position)


def _inside(until_ns: _Ints, is_start: _Bools) -> _Ints:
    """End of the outermost open event at each position; `_NEVER` if none is open."""
    opens = np.where(until_ns > _NEVER, np.where(is_start, 1, -1), 0)
    depth = np.cumsum(opens)
    outermost = np.where((depth == 1) & (opens == 1), np.arange(len(depth)), 0)
    found: _Ints = np.where(depth > 0, until_ns[np.maximum.accumulate(outermost)], _NEVER)
    return found


def _is_first(segment: _Ints, begins: _Bools) -> _Bools:
    """Return whether each position is the first in its segment at which an event begins."""
    found = np.zeros(len(segment), dtype=np.bool_)
    rows = np.flatnonzero(begins)
    found[rows[np.unique(segment[rows], return_index=True)[1]]] = True
    return found


_OVERLAPS = (EdgeKind.STREAM_OVERLAP, EdgeKind.STREAM_END)
_WAITS = (EdgeKind.SYNC, EdgeKind.EVENT_WAIT)


@verb("move", Value.STREAM, from_zero=True)
def moved(graph: DependencyGraph, chosen: _Bools, stream: float) -> DependencyGraph:
    """Queue device work on the stream of that number, new if there is none.

    Work queues behind what was issued before on that stream, at the usual gap. Old and new stream no longer wait for
    each other, so data needed without an event is not seen; what waited for moved work still does, and for what
    preceded it.
    """
    table = graph.activities.select("rank", "lane", "stream")
    number = table.get_column("stream").fill_null(-1).to_numpy()
    meant = chosen & (number >= 0) & (number != int(stream))
    if not meant.any():
        raise ArgumentError("no selected event is device work of another stream; offload moves host work")
    touched = _touched(graph, meant)
    if (touched & np.isin(graph.edges.kind, _OVERLAPS)).any():
        raise ArgumentError(
            "some of the selected work overlaps on its stream by programmatic launches: it cannot be moved separately"
        )
    queue = _queues(graph, meant, int(stream))
    work = np.flatnonzero(table.get_column("stream").is_not_null().to_numpy())
    old = table.select(pl.struct("rank", "lane").rank("dense")).to_series().to_numpy().astype(np.int64)
    by_start = work[np.lexsort((graph.moment_of[work, Point.START], old[work]))]
    before = _last_unmoved(by_start, old, meant)
    issued = _issued(graph)
    by_issue = work[np.lexsort((graph.moment_of[work, Point.START], issued[work], queue[work]))]
    first, second = by_issue[:-1], by_issue[1:]
    behind = (queue[first] == queue[second]) & (meant[first] | meant[second])
    added = EdgeList.joined(
        [
            _order(graph, first[behind], second[behind]),
            _closed(graph, by_start, before, meant),
            _remaining_dependencies(graph, before, meant),
        ]
    )
    late = np.zeros(len(graph.moments), dtype=np.bool_)
    starts = graph.moment_of[meant, Point.START]
    late[starts] = graph.moments.residual[starts] == Residual.STREAM
    dropped = touched & (graph.edges.kind == EdgeKind.STREAM_ORDER)
    found = with_edges(without_edges(drop_residuals(graph, late), dropped), added)
    return replace(found, activities=_with_stream(graph.activities, meant, int(stream)))


def _touched(graph: DependencyGraph, meant: _Bools) -> _Bools:
    """Return whether each edge comes from or goes to one of them."""
    of = graph.moments.activity
    found: _Bools = meant[of[graph.edges.before]] | meant[of[graph.after]]
    return found


def _queues(graph: DependencyGraph, meant: _Bools, stream: int) -> _Ints:
    """Return the stream number of each activity, with selected ones on the new stream."""
    there = (
        graph.activities.filter(pl.col("stream") == stream).group_by("rank").agg(pl.col("lane").n_unique())
    )
    if there.filter(pl.col("lane") > 1).height:
        raise ArgumentError(f"a rank has stream {stream} on several devices: select work of other ranks")
    table = _with_stream(graph.activities, meant, stream).select(
        pl.struct("rank", "lane", "stream").rank("dense")
    )
    queues: _Ints = table.to_series().to_numpy().astype(np.int64)
    return queues


def _with_stream(activities: pl.DataFrame, meant: _Bools, stream: int) -> pl.DataFrame:
    """The activities with the chosen on their new stream; of a new stream the lane is null."""
    lanes = (
        activities.filter(pl.col("stream") == stream)
        .group_by("rank")
        .agg(pl.col("lane").first().alias("new"))
    )
    chosen = pl.lit(pl.Series(meant))
    return (
        activities.join(lanes, on="rank", how="left", maintain_order="left", nulls_equal=True)
        .with_columns(
            pl.when(chosen).then(pl.lit(stream, dtype=pl.Int64)).otherwise("stream").alias("stream"),
            pl.when(chosen).then("new").otherwise("lane").alias("lane"),
        )
        .drop("new")
    )


def _issued(graph: DependencyGraph) -> _Ints:
    """Issue moment of each activity: the start of its call, or its own if that is unknown."""
    by = launched_by(graph)
    own = graph.moment_of[:, Point.START].astype(np.int64)
    found: _Ints = np.where(by >= 0, own[np.maximum(by, 0)], own)
    return found


def _last_unmoved(by_start: _Ints, old: _Ints, meant: _Bools) -> _Ints:
    """For each device work the last before it on its stream that is not moved; -1: none."""
    found = np.full(len(meant), -1, dtype=np.int64)
    stays = np.where(meant[by_start], -1, np.arange(len(by_start)))
    latest = np.maximum.accumulate(np.r_[-1, stays[:-1]])
    known = (latest >= 0) & (old[by_start[np.maximum(latest, 0)]] == old[by_start])
    found[by_start] = np.where(known, by_start[np.maximum(latest, 0)], -1)
    return found


def _closed(graph: DependencyGraph, by_start: _Ints, before: _Ints, meant: _Bools) -> EdgeList:
    """Close the gaps in old streams where work was moved away: the next work waits for the last remaining."""
    next_of = by_start[1:][meant[by_start[:-1]] & ~meant[by_start[1:]]]
    next_of = next_of[before[next_of] >= 0]
    return _order(graph, before[next_of], next_of)


def _order(graph: DependencyGraph, first: _Ints, second: _Ints) -> EdgeList:
    """The order of a stream, with the gap that is usual on the rank between such works."""
    kinds = graph.activities.select("rank", kind=as_text("kind"))
    pairs = kinds[pl.Series(first)].with_columns(
        key=pl.concat_str("kind", kinds.get_column("kind").gather(second), separator=" > ")
    )
    usual = graph.latencies.filter(as_text("kind") == EdgeKind.STREAM_ORDER.name.lower())
    gaps = pairs.join(
        usual.select("rank", "key", "typical_ns"), on=["rank", "key"], how="left", maintain_order="left"
    )
    work_ns = gaps.get_column("typical_ns").fill_null(0).cast(pl.Int64).to_numpy()
    ends = graph.moment_of[first, Point.END].astype(np.int64)
    return EdgeList.of(
        ends, graph.moment_of[second, Point.START].astype(np.int64), EdgeKind.STREAM_ORDER, second, work_ns
    )


def _remaining_dependencies(graph: DependencyGraph, before: _Ints, meant: _Bools) -> EdgeList:
    """Waits for moved work as waits for the last that stays before it, too: the old order stood for that."""
    edges = edge_list(graph)
    of, point = graph.moments.activity[edges.before], graph.moments.point[edges.before]
    waits = edges[np.isin(edges.kind, _WAITS) & meant[of] & (point == Point.END) & (before[of] >= 0)]
    waits.before[:] = graph.moment_of[before[graph.moments.activity[waits.before]], Point.END]
    return waits


_NUMBERS = ("rank", "stream")
_CODES: dict[str, type[Enum]] = {"kind": ActivityKind, "family": KernelFamily}
_RANGE = re.compile(r"(\d+)(?:-(\d+)?)?")
_STEP_NUMBER = r"#(\d+)$"
_COLUMNS = {"collective": "type", "bytes": "size_bytes", "within": "name"}
"""Columns of keys that have another name."""
_RECORDED_BY = {
    "module": "; tracebraid capture --stacks records modules",
    "shapes": "; tracebraid capture records shapes, the profiler with record_shapes=True",
}
"""What records a key that a trace lacks."""
_GROUP = re.compile(r"(\S+)(?: \((.*)\))?(?: (?:ranks|size) .*)?")
"""The text of a process group: its name, its description, and its ranks or its size."""
_SHOWN = 5
"""Names that an error lists at most."""
_LIKENESS = 0.4
"""Minimum similarity of a suggested name, from 0 to 1, by `difflib`."""


def selected(graph: DependencyGraph, where: Where) -> _Bools:
    """Return a boolean mask of selected activities; members of selected collectives are included."""
    found = np.ones(graph.activities.height, dtype=np.bool_)
    for key, text in where.given.items():
        of_key = _of_key(graph, key, text)
        if not of_key.any():
            raise ArgumentError(
                f"{key}={text} matches no event of this trace. {_known_values(graph, key, text)}"
            )
        found &= of_key
    if not found.any():
        raise ArgumentError(
            f"no event of this trace matches all of {' '.join(f'{k}={v}' for k, v in where.given.items())}, "
            "though each alone fits something"
        )
    return _with_members(graph, found)


def _of_key(graph: DependencyGraph, key: str, text: str) -> _Bools:
    if key in _NUMBERS:
        return _of_numbers(graph.activities.get_column(key), key, text)
    if key == "step":
        return _of_steps(graph.activities.get_column("step"), text)
    if key == "within":
        is_host = graph.activities.get_column("stream").is_null().to_numpy()
        return with_work_for(graph, _of_names(graph.activities.get_column("name"), text) & is_host)
    if key == "bytes":
        return _of_sizes(graph.activities.get_column("size_bytes"), text)
    if key == "group":
        return _of_names(graph.activities.get_column("group"), text, _GROUP)
    if key in _CODES:
        _check_codes(key, text)
    return _of_names(graph.activities.get_column(_COLUMNS.get(key, key)), text)


def _of_names(names: pl.Series, text: str, parts: re.Pattern[str] | None = None) -> _Bools:
    """Return whether each name fits, or one of its parts; each distinct name is looked at once."""
    distinct = names.unique().drop_nulls()
    fits = _fitting(text)
    found = []
    for name in distinct.cast(pl.String):
        match = parts.fullmatch(name) if parts is not None else None
        texts = (name, *(match.groups() if match else ()))
        found.append(name == text or any(fits(part) for part in texts if part))
    keep = distinct.filter(pl.Series(found, dtype=pl.Boolean))
    return names.is_in(keep.implode()).fill_null(value=False).to_numpy()


def _of_numbers(numbers: pl.Series, key: str, text: str) -> _Bools:
    found = np.zeros(len(numbers), dtype=np.bool_)
    for asked in number_ranges(text, f"numbers for {key}="):
        found |= numbers.is_between(asked.start, asked.stop - 1).fill_null(value=False).to_numpy()
    return found


def _of_sizes(sizes: pl.Series, text: str) -> _Bools:
    """Sizes in bytes, by a list of sizes and ranges, which may be open at an end."""
    found = np.zeros(len(sizes), dtype=np.bool_)
    for part in text.split(","):
        first, between, last = part.partition("-")
        if not (first.strip() or last.strip()):
            raise ArgumentError(
                f"bytes={text} is not a list of sizes; give sizes and ranges, such as 4kB,1MB-25MB or 1MB-"
            )
        least = bytes_of_text(first) if first.strip() else 0
        most = bytes_of_text(last) if last.strip() else None if between else least
        if most is not None and most < least:
            raise ArgumentError(f"bytes={text}: {part.strip()} ends before it begins")
        fits = sizes >= least if most is None else sizes.is_between(least, most)
        found |= fits.fill_null(value=False).to_numpy()
    return found


def _of_steps(steps: pl.Series, text: str) -> _Bools:
    """Steps by the number in their name, or by patterns of it."""
    if all(_RANGE.fullmatch(part.strip()) for part in text.split(",")):
        distinct = steps.unique().drop_nulls()
        number = distinct.cast(pl.String).str.extract(_STEP_NUMBER).cast(pl.Int64)
        keep = distinct.filter(pl.Series(_of_numbers(number, "step", text)))
        return steps.is_in(keep.implode()).fill_null(value=False).to_numpy()
    return _of_names(steps, text)


def _check_codes(key: str, text: str) -> None:
    known = [code.value for code in _CODES[key]]
    for part in _parts(text):
        fits = _fitting(part)
        if not any(fits(value) for value in known):
            raise ArgumentError(f"{key}={part}: there is no such {key}; there are {', '.join(known)}")


def _fitting(text: str) -> Callable[[str], bool]:
    """Return whether a name fits a list of patterns, or a regular expression between slashes."""
    if len(text) > 1 and text.startswith("/") and text.endswith("/"):
        try:
            return _searched(re.compile(text[1:-1]))
        except re.error as error:
            raise ArgumentError(f"{text} is not a regular expression: {error}") from error
    wild = {"*": ".*", "?": "."}
    parts = ["".join(wild.get(letter, re.escape(letter)) for letter in part) for part in _parts(text)]
    pattern = re.compile("|".join(f"(?:{part})" for part in parts), re.DOTALL)
    return lambda name: pattern.fullmatch(name) is not None


def _searched(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda name: pattern.search(name) is not None


def _parts(text: str) -> list[str]:
    """The parts of a list; commas within brackets belong to the name, such as those of a template."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<([") - (letter in ">)]")
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _with_members(graph: DependencyGraph, found: _Bools) -> _Bools:
    """Add the members of selected collectives."""
    kinds = graph.activities.get_column("kind").cast(pl.String)
    whole = found & (kinds == ActivityKind.COLLECTIVE.value).to_numpy()
    if not whole.any():
        return found
    number = graph.activities.get_column("collective")
    own = number.filter(pl.Series(whole)).unique().drop_nulls()
    of_own: _Bools = number.is_in(own.implode()).fill_null(value=False).to_numpy()
    return found | of_own


def _known_values(graph: DependencyGraph, key: str, text: str) -> str:
    """Possible values of a key, most similar first."""
    column = graph.activities.get_column(_COLUMNS.get(key, key)).drop_nulls()
    values = column.value_counts(sort=True).get_column(column.name)
    if values.is_empty():
        return f"Nothing in it has a {key}{_RECORDED_BY.get(key, '')}"
    names: Sequence[str] = values.cast(pl.String).to_list()
    bare = re.sub(r"[*?/]", "", text)
    inside = [name for name in names if bare.lower() in name.lower()] if bare else []
    near = [*inside, *get_close_matches(bare, names, _SHOWN, _LIKENESS)]
    shown = list(dict.fromkeys([*near, *names]))[:_SHOWN]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"There is {', '.join(shown)}{more}"
