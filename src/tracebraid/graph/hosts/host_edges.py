"""Edges for the waits of host threads, beside their own program order."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.graph.activities import RankActivities
from tracebraid.graph.hosts.thread_edges import (
    LATE_SHARE,
    NO_POSITION,
    PROMPT_NS,
    ThreadChains,
    at_thread_starts,
    communication_edges,
    nearest_hand_overs,
    thread_chains,
)
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import ActivityKind, EdgeKind, EdgeList, Point, moment
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import by_name, flags_by_name
from tracebraid.model.rows import distinct_rows

_CALL = r"^<built-in method (\w+) of (\S+) object at 0x[0-9a-fA-F]+>$"
"""A method and the class of its object; the address does not tell objects apart: the profiler names each method once,
by the first object that it was called on."""
_WAITS = {"acquire": "release", "get": "put"}
"""A method that waits, and the method of the same class for which it does: of locks, and of queues."""

RESUMED_WITHIN_NS = 1_000_000
"""A thread that resumes later than this waited for something else, unless it had to wait for the interpreter."""


def lock_waits(activities: RankActivities, chains: ThreadChains) -> EdgeList:
    """Edges from the start of a call that frees a lock or fills a queue to the end of the waiting call.

    It waited for the last such call of another thread, if it returned soon behind that. Where the other keeps
    Python's interpreter lock until it waits itself, it returned no sooner: an edge from the start of that wait, too.
    """
    calls = _calls(activities, chains)
    frees = calls.filter(pl.col("method").is_in(list(_WAITS.values()))).select(
        "class", "method", free="activity", free_thread="thread", freed_ns="start_ns"
    )
    waits = calls.filter(pl.col("method").is_in(list(_WAITS))).with_columns(pl.col("method").replace(_WAITS))
    pairs = waits.sort("end_ns").join_asof(
        frees.sort("freed_ns"),
        left_on="end_ns",
        right_on="freed_ns",
        by=["class", "method"],
        strategy="backward",
        check_sortedness=False,
    )
    pairs = pairs.filter(
        (pl.col("freed_ns") >= pl.col("start_ns")) & (pl.col("thread") != pl.col("free_thread"))
    ).sort("activity")
    blocked = _until_blocked(pairs, waits)
    soon = pl.col("end_ns") - pl.col("freed_ns") <= RESUMED_WITHIN_NS
    kept = pairs.filter(soon | pl.col("activity").is_in(blocked.get_column("activity").implode()))
    found = pl.concat([kept.select("activity", before="free"), blocked])
    wait, before = (found.get_column(name).to_numpy() for name in ("activity", "before"))
    return EdgeList.of(moment(before, Point.START), moment(wait, Point.END), EdgeKind.THREAD, wait)


def _until_blocked(pairs: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """The waits that ended promptly when the thread that ended them began to wait for something itself."""
    blocked = waits.select(free_thread="thread", before="activity", blocked_ns="start_ns").sort("blocked_ns")
    late = pairs.filter(pl.col("end_ns") - pl.col("freed_ns") > PROMPT_NS).sort("end_ns")
    return (
        late.join_asof(
            blocked,
            left_on="end_ns",
            right_on="blocked_ns",
            by="free_thread",
            strategy="backward",
            tolerance=PROMPT_NS,
            check_sortedness=False,
        )
        .filter(pl.col("blocked_ns") > pl.col("freed_ns"))
        .select("activity", "before")
    )


def _calls(activities: RankActivities, chains: ThreadChains) -> pl.DataFrame:
    """Calls of built-in methods of objects."""
    table = activities.table.select(
        pl.int_range(pl.len()).cast(pl.Int64).alias("activity"),
        as_text("kind", "name"),
        "start_ns",
        "end_ns",
    )
    calls = table.filter(pl.col("kind") == ActivityKind.PYTHON.value).with_columns(
        pl.col("name").str.extract(_CALL, 1).alias("method"),
        pl.col("name").str.extract(_CALL, 2).alias("class"),
    )
    calls = calls.filter(pl.col("class").is_not_null())
    position = chains.position[moment(calls.get_column("activity").to_numpy(), Point.START)]
    return calls.with_columns(pl.Series("thread", chains.thread[position]))


_Ints = NDArray[np.int64]

_STARTS = r"(?:^|[/\\])threading\.py\(\d+\): start$"
_JOINS = r"(?:^|[/\\])threading\.py\(\d+\): join$"
"""Frames of Python's `Thread.start` and `Thread.join`."""

_JOINED_WITHIN_NS = 5_000_000
"""Maximum time from the joined thread's last moment to the end of the join: Python's switch interval."""


def autograd_starts(edges: EdgeList, chains: ThreadChains) -> EdgeList:
    """Edges to the start of threads that run backward ops of another, from that thread's last moment before."""
    pairs = edges[edges.kind == EdgeKind.FORWARD_BACKWARD]
    before, after = chains.position[pairs.before], chains.position[pairs.after]
    known = (before >= 0) & (after >= 0)
    forward, backward = chains.thread[before[known]], chains.thread[after[known]]
    differ = forward != backward
    threads, _ = distinct_rows(forward[differ], backward[differ])
    return _started(chains, *threads)


def awaited_starts(edges: EdgeList, chains: ThreadChains) -> EdgeList:
    """Edges to the start of threads that another waits for later, from that thread's last moment before.

    Who waits for a thread gave it the work; of several the first to wait counts.
    """
    waits = edges[edges.kind == EdgeKind.THREAD]
    before, after = chains.position[waits.before], chains.position[waits.after]
    known = np.flatnonzero((before >= 0) & (after >= 0))
    known = known[np.argsort(chains.times_ns[after[known]], kind="stable")]
    waited_for, waiter = chains.thread[before[known]], chains.thread[after[known]]
    started, first = np.unique(waited_for[waited_for != waiter], return_index=True)
    return _started(chains, waiter[waited_for != waiter][first], started)


def python_starts(activities: RankActivities, chains: ThreadChains, times_ns: _Ints) -> EdgeList:
    """Edges to the start of threads from inside the last call of Python's `Thread.start` on another thread.

    Each call starts one thread, in the order of calls.
    """
    calls = _frames(activities, _STARTS)
    begun_ns = times_ns[moment(calls, Point.START)]
    calls = calls[np.argsort(begun_ns, kind="stable")]
    starter, started = [], []
    free = len(calls)
    for thread in np.argsort(chains.times_ns[chains.first[:-1]], kind="stable")[::-1].tolist():
        if not free:
            break
        start_ns = chains.times_ns[chains.first[thread]]
        ended_ns = times_ns[moment(calls[:free], Point.END)]
        may = (times_ns[moment(calls[:free], Point.START)] <= start_ns) & (ended_ns >= start_ns)
        may &= _threads_of(calls[:free], chains) != thread
        if may.any():
            free = int(np.flatnonzero(may)[-1])
            starter.append(int(_threads_of(calls[free : free + 1], chains)[0]))
            started.append(thread)
    return _started(chains, np.array(starter, dtype=np.int64), np.array(started, dtype=np.int64))


def python_joins(activities: RankActivities, chains: ThreadChains, times_ns: _Ints) -> EdgeList:
    """Edges to the end of calls of Python's `Thread.join`, from the thread that ended last inside them."""
    calls = _frames(activities, _JOINS)
    ends = chains.moments[chains.first[1:] - 1]
    ended_ns, joined_ns = times_ns[ends], times_ns[moment(calls, Point.END)][:, None]
    inside = (ended_ns >= times_ns[moment(calls, Point.START)][:, None]) & (ended_ns <= joined_ns)
    inside &= (joined_ns - ended_ns <= _JOINED_WITHIN_NS) & (
        np.arange(len(ends)) != _threads_of(calls, chains)[:, None]
    )
    last = np.where(inside, ended_ns, np.iinfo(np.int64).min).argmax(axis=1)
    joined = inside.any(axis=1)
    last = last[joined]
    return _edges(ends[last], _first_after(calls[joined], ended_ns[last], chains))


def _first_after(calls: _Ints, times_ns: _Ints, chains: ThreadChains) -> _Ints:
    """The first moment, later than a time, of the thread of each call: functions inside it end before it does."""
    position = chains.last_until(_threads_of(calls, chains), times_ns) + 1
    return chains.moments[np.minimum(position, chains.position[moment(calls, Point.END)])]


def _frames(activities: RankActivities, name: str) -> _Ints:
    """The calls of Python functions with a name that matches, rising."""
    calls = np.flatnonzero(_is(activities.table, ActivityKind.PYTHON))
    matches = flags_by_name(
        activities.table.get_column("name")[calls], lambda names: names.str.contains(name)
    )
    return calls[matches]


def _threads_of(activities: _Ints, chains: ThreadChains) -> _Ints:
    return chains.thread[chains.position[moment(activities, Point.START)]]


def _started(chains: ThreadChains, starter: _Ints, started: _Ints) -> EdgeList:
    """Edges from the last moment of each starting thread to the start of the new thread."""
    first = chains.first[started]
    position = chains.last_until(starter, chains.times_ns[first])
    known = position >= 0
    return _edges(chains.moments[position[known]], chains.moments[first[known]])


def _edges(before: _Ints, after: _Ints) -> EdgeList:
    return EdgeList.of(before, after, EdgeKind.THREAD, after // 2)


WAITS = (EdgeKind.SYNC, EdgeKind.THREAD, EdgeKind.COMMUNICATION_WAIT, EdgeKind.QUEUE)
"""Edges whose moment a thread waits for."""


def without_waiting(of_threads: EdgeList, others: EdgeList, times_ns: NDArray[np.int64]) -> EdgeList:
    """Set the work of thread edges that end with a wait to 0.

    Return whether a thread waited: its dependency came after its own previous moment.
    """
    waits = others[np.isin(others.kind, WAITS)]
    until = np.full(len(times_ns), np.iinfo(np.int64).min, dtype=np.int64)
    np.maximum.at(until, waits.after, times_ns[waits.before])
    waited = until[of_threads.after] > times_ns[of_threads.before]
    return replace(of_threads, work_ns=np.where(waited, 0, of_threads.work_ns))


_Flags = NDArray[np.bool_]

SILENT_NS = 100_000
"""A thread that shows nothing for this long may have waited; linking counts threads as silent from the same time on."""
FEWEST = 3
"""Minimum occurrences, which must also be the majority: by chance, three of five are less likely than 1 in 100."""

_WAIT_NAME = r"(?i)\bwait|acquire|\bjoin\b|\bget\b|result"
_SLEEP_NAME = r"(?i)sleep"
_NUMBERS = r"\d+"
_SILENCE = ["thread", "fell", "resumed"]
_GIVER = ["giver", "given"]


def repeated_waits(activities: RankActivities, chains: ThreadChains, known: EdgeList) -> EdgeList:
    """Edges from the last moment of the other thread to the moment at which the silent thread resumes.

    A silence is alike another if it lies between moments of the same names on the same thread; numbers in names do not
    count. Ranges of communication are left to the ops that ask for them, and silences that a known edge explains
    count, but get no other edge.
    """
    rows = activities.table.select("kind", "name")
    silent = _silences(rows, chains)
    giver = _givers(rows, chains, silent)
    alike = by_name(
        rows.get_column("name"),
        lambda names: names.str.replace_all(_NUMBERS, "#").rank("dense").fill_null(0).cast(pl.Int64),
    )
    key = 2 * alike.to_numpy()[chains.moments // 2]
    key += chains.moments % 2
    fits = giver != NO_POSITION
    found = pl.DataFrame(
        {
            "thread": chains.thread[silent],
            "fell": key[silent - 1],
            "resumed": key[silent],
            "giver": np.where(fits, chains.thread[giver], -1),
            "given": np.where(fits, key[giver], -1),
        }
    ).with_columns(total=pl.len().over(_SILENCE), times=pl.len().over(_SILENCE + _GIVER))
    often = (pl.col("times") >= FEWEST) & (2 * pl.col("times") > pl.col("total")) & (pl.col("giver") >= 0)
    kept = found.select(often).to_series().to_numpy() & ~_explained(chains, silent, known)
    after = chains.moments[silent[kept]]
    return EdgeList.of(chains.moments[giver[kept]], after, EdgeKind.THREAD, after // 2)


def _silences(rows: pl.DataFrame, chains: ThreadChains) -> _Ints:
    """The positions that end silences in which a thread may have waited: in no op, call or annotation of its own."""
    position = np.flatnonzero(chains.owner >= 0)
    position = position[chains.times_ns[position] - chains.times_ns[position - 1] >= SILENT_NS]
    is_thread = _is(rows, ActivityKind.THREAD)
    own = (
        rows[chains.owner[position]]
        .select(as_text("kind", "name"))
        .select(
            thread=pl.col("kind") == ActivityKind.THREAD.value,
            outer=pl.col("kind").is_in([ActivityKind.ANNOTATION.value, ActivityKind.PYTHON.value]),
            waits=pl.col("name").str.contains(_WAIT_NAME).fill_null(False),
            sleeps=pl.col("name").str.contains(_SLEEP_NAME).fill_null(False),
        )
    )
    thread, outer, waits, sleeps = (own.get_column(name).to_numpy() for name in own.columns)
    # An annotation with nothing in it says what the thread did.
    whole = chains.moments[position] // 2 == chains.moments[position - 1] // 2
    ends_thread = is_thread[chains.moments[position] // 2]
    begins_thread = is_thread[chains.moments[position - 1] // 2]
    may = (thread | (outer & (waits | ~whole))) & ~sleeps & ~ends_thread & ~begins_thread
    found: _Ints = position[may]
    return found


def _givers(rows: pl.DataFrame, chains: ThreadChains, silent: _Ints) -> _Ints:
    """For each silence the last moment of another thread in its last tenth, behind which that falls silent; else -1.

    Where the silent thread is in no event at all it waited for something to do: then the other may go on.
    """
    idle = _is(rows, ActivityKind.THREAD)[chains.owner[silent]]
    no_giver = _is(rows, ActivityKind.COMMUNICATION) | _is(rows, ActivityKind.THREAD)
    resumed_ns, since_ns = chains.times_ns[silent], chains.times_ns[silent - 1]
    within_ns = np.maximum(PROMPT_NS, ((resumed_ns - since_ns) * LATE_SHARE).astype(np.int64))
    earliest_ns = np.maximum(since_ns, resumed_ns - within_ns)
    found = np.full(len(silent), NO_POSITION, dtype=np.int64)
    for thread in range(len(chains.first) - 1):
        end = chains.first[thread + 1] - 1
        last = np.minimum(chains.last_until(np.full(len(silent), thread), resumed_ns - 1), end - 1)
        there = np.maximum(last, 0)
        rests = (there + 1 == end) | (chains.times_ns[there + 1] - chains.times_ns[there] >= SILENT_NS)
        fits = (last >= 0) & (chains.thread[silent] != thread) & (chains.times_ns[there] > earliest_ns)
        fits &= (rests | idle) & ~no_giver[chains.moments[there] // 2]
        later = fits & ((found < 0) | (chains.times_ns[there] > chains.times_ns[found]))
        found[later] = there[later]
    return found


def _is(rows: pl.DataFrame, kind: ActivityKind) -> _Flags:
    return rows.select((pl.col("kind") == kind.value).fill_null(False)).to_series().to_numpy()


def _explained(chains: ThreadChains, silent: _Ints, known: EdgeList) -> _Flags:
    """Return whether a known edge explains the end of each silence."""
    edges = known[np.isin(known.kind, WAITS)]
    on_thread = chains.position[edges.before] >= 0
    before, after = edges.before[on_thread], edges.after[on_thread]
    latest_ns = np.full(len(chains.position), np.iinfo(np.int64).min, dtype=np.int64)
    np.maximum.at(latest_ns, after, chains.times_ns[chains.position[before]])
    explained: _Flags = latest_ns[chains.moments[silent]] > chains.times_ns[silent - 1]
    return explained


def host_edges(
    linked: LinkedTrace, activities: RankActivities, threads: EdgeList, others: EdgeList, times_ns: _Ints
) -> EdgeList:
    """The other edges of a rank, with those that threads have to each other."""
    if not len(threads):
        return others
    chains = thread_chains(threads, activities, times_ns)
    communication = communication_edges(linked, activities, chains, times_ns)
    joins = python_joins(activities, chains, times_ns)
    found = EdgeList.joined(
        [nearest_hand_overs(others, chains), communication, joins, lock_waits(activities, chains)]
    )
    found = EdgeList.joined([found, repeated_waits(activities, chains, found)])
    evidence = (python_starts(activities, chains, times_ns), autograd_starts(others, chains))
    for starts in (*evidence, awaited_starts(found, chains)):
        found = at_thread_starts(found, chains)
        found = EdgeList.joined([found, starts[_without_cause(starts, found)]])
    return found


def _without_cause(starts: EdgeList, found: EdgeList) -> NDArray[np.bool_]:
    """Return whether what started a thread is not among the edges yet."""
    caused = found.after[found.kind == EdgeKind.THREAD]
    return ~np.isin(starts.after, caused)
