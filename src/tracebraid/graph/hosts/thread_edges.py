"""The time of each thread, from moment to moment: program order, with the innermost event as the owner of the time."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.graph.activities import RankActivities
from tracebraid.graph.hosts.backend_ranges import backend_ranges, issuing_ops
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import ActivityKind, EdgeKind, EdgeList, Point, moment
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.native.loops import native_loop

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]


def thread_edges(activities: RankActivities, times_ns: _Ints) -> EdgeList:
    """Edges from each moment of a thread to its next, with the time between as work.

    The work is that of the innermost event which is open meanwhile, and of the thread where none is. Of events that
    overlap without one lying in the other, as in damaged traces, the one that began last is the innermost.
    """
    host = activities.host
    of_host = times_ns[: 2 * len(host.event_id)].reshape(-1, 2)
    np.maximum(of_host[:, 0], of_host[:, 1], out=of_host[:, 1])
    order = np.lexsort((host.event_id, host.depth, host.start_ns, host.lane))
    thread = activities.first_thread + np.searchsorted(activities.lanes, host.lane)
    np.maximum.at(times_ns, 2 * thread + 1, of_host[:, 1])
    threads = np.unique(thread)
    moments = _nested(order, host.parent, thread, len(threads))
    of_moment = _thread_of_moments(moments, thread, activities.first_thread)
    moments = moments[np.lexsort((times_ns[moments], of_moment))]
    follows = np.ones(len(moments), dtype=np.bool_)
    follows[np.isin(moments, 2 * threads)] = False
    after = np.flatnonzero(follows)
    owner = _innermost(moments, activities.first_thread)[after]
    before = moments[after - 1]
    return EdgeList.of(
        before, moments[after], EdgeKind.HOST, owner, times_ns[moments[after]] - times_ns[before]
    )


def _thread_of_moments(moments: _Ints, thread: _Ints, first_thread: int) -> _Ints:
    """The activity of the thread that each moment is on."""
    activity = moments // 2
    found: _Ints = activity.copy()
    of_host = activity < first_thread
    found[of_host] = thread[activity[of_host]]
    return found


@native_loop
def _nested(order: _Ints, parent: _Ints, thread: _Ints, threads: int) -> _Ints:
    """All moments, thread by thread: events in the order of their starts, each around those that lie in it."""
    moments = np.empty(2 * len(order) + 2 * threads, dtype=np.int64)
    open_events = np.empty(len(order) + 1, dtype=np.int64)
    count, depth, current = 0, 0, -1
    for index in range(len(order) + 1):
        event = order[index] if index < len(order) else -1
        begins = event >= 0 and thread[event] != current
        # Close what the next event does not lie in.
        while depth > 0 and (event < 0 or begins or open_events[depth - 1] != parent[event]):
            depth -= 1
            moments[count] = 2 * open_events[depth] + 1
            count += 1
        if current >= 0 and (event < 0 or begins):
            moments[count] = 2 * current + 1
            count += 1
        if event < 0:
            break
        if begins:
            current = thread[event]
            moments[count] = 2 * current
            count += 1
        moments[count] = 2 * event
        open_events[depth] = event
        count, depth = count + 1, depth + 1
    return moments[:count]


@native_loop
def _innermost(moments: _Ints, first_thread: int) -> _Ints:
    """The activity that each moment ends the time of: of those that are open before it, the one that began last."""
    found = np.empty(len(moments), dtype=np.int64)
    open_activities = np.empty(len(moments) + 1, dtype=np.int64)
    ended = np.zeros(len(moments) // 2 + 1, dtype=np.bool_)
    depth = 0
    for index in range(len(moments)):
        activity = moments[index] // 2
        if activity >= first_thread and moments[index] % 2 == 0:
            depth = 0
        while depth > 0 and ended[open_activities[depth - 1]]:
            depth -= 1
        found[index] = open_activities[depth - 1] if depth > 0 else activity
        if moments[index] % 2 == 0:
            open_activities[depth] = activity
            depth += 1
        else:
            ended[activity] = True
    return found


NO_POSITION = -1
"""Stands for no moment of a thread."""


class ThreadChains(Struct, frozen=True, eq=False, dict=True):
    """Moments of all threads, concatenated; positions are rows of these arrays.

    Args:
        moments: the moment at each position.
        thread: its thread, counted from 0 in the order of the rank's lanes.
        times_ns: its time; rises along each thread.
        owner: activity to which the time from the position before belongs; -1 at the first of a thread.
        first: the first position of each thread, and one entry more.
        position: the position of each moment of the rank; -1: it is on no thread.
    """

    moments: _Ints
    thread: _Ints
    times_ns: _Ints
    owner: _Ints
    first: _Ints
    position: _Ints

    def last_until(self, thread: _Ints, times_ns: _Ints) -> _Ints:
        """The last position of each thread that is not later than a time; -1: its first is later."""
        found = np.searchsorted(self._keys, self._key(thread, times_ns), side="right") - 1
        return np.where(found >= self.first[thread], found, NO_POSITION)

    @cached_property
    def _distinct_ns(self) -> _Ints:
        ordered = np.sort(self.times_ns)
        # Faster than `np.unique`, which hashes: most times differ.
        distinct: _Ints = ordered[np.diff(ordered, prepend=ordered[:1] - 1) != 0]
        return distinct

    @cached_property
    def _keys(self) -> _Ints:
        return self._key(self.thread, self.times_ns)

    def _key(self, thread: _Ints, times_ns: _Ints) -> _Ints:
        """Numbers that rise with the thread, then with the time: ranks of times, which cannot overflow."""
        rank = np.searchsorted(self._distinct_ns, times_ns, side="right")
        return thread * (len(self._distinct_ns) + 1) + rank


def thread_chains(edges: EdgeList, activities: RankActivities, times_ns: _Ints) -> ThreadChains:
    """The chains that the edges of threads form."""
    count = len(activities.lanes)
    starts = 2 * (activities.first_thread + np.arange(count, dtype=np.int64))
    begins = np.flatnonzero(np.isin(edges.before, starts))
    moments = np.insert(edges.after, begins, edges.before[begins])
    owner = np.insert(edges.activity, begins, -1)
    is_first = owner < 0
    thread_of_start = moments[is_first] // 2 - activities.first_thread
    thread = thread_of_start[np.cumsum(is_first) - 1] if len(moments) else np.empty(0, dtype=np.int64)
    position = np.full(len(times_ns), NO_POSITION, dtype=np.int64)
    position[moments] = np.arange(len(moments))
    first = np.append(np.flatnonzero(is_first), len(moments))
    return ThreadChains(moments, thread, times_ns[moments], owner, first, position)


LATE_SHARE = 0.1
"""Maximum delay of a thread's resumption after its dependency, as a share of its silence."""
PROMPT_NS = 100_000
"""A thread that resumes within this resumed because of the hand-over, however short its silence was before."""

_BETWEEN_THREADS = (EdgeKind.THREAD, EdgeKind.FORWARD_BACKWARD)


def nearest_hand_overs(edges: EdgeList, chains: ThreadChains) -> EdgeList:
    """The edges, of which those of `EdgeKind.THREAD` join moments as close to each other as they can be.

    Linking finds hand-overs between ops, annotations and calls. A thread's Python functions say more exactly when it
    resumed: at the end of its longest silence between the two; and what it waited for: the last moment of the
    other thread until then. A thread that stays silent for longer behind that than it was before did not wait for it:
    these are left out.
    """
    rows = np.flatnonzero(edges.kind == EdgeKind.THREAD)
    rows = rows[(chains.position[edges.before[rows]] >= 0) & (chains.position[edges.after[rows]] >= 0)]
    giver, taker = chains.position[edges.before[rows]], chains.position[edges.after[rows]]
    since = np.maximum(
        chains.last_until(chains.thread[taker], chains.times_ns[giver]), chains.first[chains.thread[taker]]
    )
    resumed = longest_silence(since, taker, chains.times_ns)
    handed = np.maximum(chains.last_until(chains.thread[giver], chains.times_ns[resumed]), giver)
    before, after = edges.before.copy(), edges.after.copy()
    before[rows], after[rows] = chains.moments[handed], chains.moments[resumed]
    kept = np.ones(len(edges), dtype=np.bool_)
    kept[rows] = _prompt(chains, handed, resumed)
    return EdgeList(before, after, edges.work_ns, edges.kind, edges.activity)[kept]


def _prompt(chains: ThreadChains, handed: _Ints, resumed: _Ints) -> NDArray[np.bool_]:
    """Return whether threads resumed soon after hand-overs relative to their silence; a first moment may."""
    handed_over_ns, resumed_ns = chains.times_ns[handed], chains.times_ns[resumed]
    silent_ns = chains.times_ns[np.maximum(resumed - 1, 0)]
    is_first = resumed - 1 <= chains.first[chains.thread[resumed]]
    late = np.maximum(handed_over_ns - silent_ns, PROMPT_NS)
    prompt: NDArray[np.bool_] = is_first | (resumed_ns - handed_over_ns <= late)
    return prompt


def at_thread_starts(edges: EdgeList, chains: ThreadChains) -> EdgeList:
    """The edges, of which those from other threads to a thread's first event end at the start of the thread itself."""
    starts = chains.first[:-1]
    start_of = np.full(len(chains.position), -1, dtype=np.int64)
    start_of[chains.moments[starts + 1]] = chains.moments[starts]
    moved = np.isin(edges.kind, _BETWEEN_THREADS) & (start_of[edges.after] >= 0)
    moved &= chains.position[edges.before] >= 0
    after = np.where(moved, start_of[edges.after], edges.after)
    return EdgeList(edges.before, after, edges.work_ns, edges.kind, edges.activity)


def longest_silence(since: _Ints, until: _Ints, times_ns: _Ints) -> _Ints:
    """The position that ends the longest time without a moment, between two positions; the last of equals."""
    found: _Ints = until.copy()
    silences = np.diff(times_ns)
    for index in np.flatnonzero(since < until):
        backwards = silences[since[index] : until[index]][::-1]
        found[index] -= np.argmax(backwards)
    return found


_Flags = NDArray[np.bool_]

SHORTEST_WAIT_NS = 10_000
"""Minimum silence of a wait without a name: a thread without events for less may have computed."""

_WAITS = r"(?i)\bwait(?:\b|_tensor)|barrier|synchronize"
"""Names of functions and ops in which a thread waits for communication; functional collectives have `wait_tensor`."""
_MAY_WAIT = (ActivityKind.THREAD.value, ActivityKind.ANNOTATION.value, ActivityKind.PYTHON.value)
"""Kinds of activities that may wait in code that nothing records."""
_WAITED_SHARE = 0.5
"""Where a thread waits, it resumes right behind what it has asked for in this share of steps, or more."""


class _Asked(Struct, frozen=True, eq=False):
    """Ranges of backends whose op is known and on another thread, in issue order.

    Args:
        op: the activity of the op.
        range: that of the range.
        thread: the thread of the op.
        end_ns: when the range ended.
    """

    op: _Ints
    range: _Ints
    thread: _Ints
    end_ns: _Ints


def communication_edges(
    linked: LinkedTrace, activities: RankActivities, chains: ThreadChains, times_ns: _Ints
) -> EdgeList:
    """Edges from the issuing op to the start of the backend's range, and from its end to the waiting thread."""
    asked = _asked(linked, activities, chains, times_ns)
    return EdgeList.joined([_issues(asked, chains, times_ns), _waits(asked, activities, chains, times_ns)])


def late_ends(
    linked: LinkedTrace, activities: RankActivities, chains: ThreadChains, times_ns: _Ints
) -> tuple[_Ints, _Ints]:
    """Ends of ranges that are noted after the thread that waited for them resumed, and when that was.

    Work is done before its thread gets to note it: on a busy machine another thread runs first. A thread waited for
    such a range if its longest silence behind the op that asked ends inside the range and takes up most of the range
    until then, and meanwhile a function or op is open in which threads wait, or no op is and the thread went silent as
    it asked, or does not sleep there (`_sleeps`). The end is noted later by no more than that silence, and by more than
    `PROMPT_NS`; and no other range ended right before the thread resumed.
    """
    asked = _asked(linked, activities, chains, times_ns)
    start_ns = times_ns[moment(asked.range, Point.START)]
    since = chains.position[moment(asked.op, Point.END)]
    until = np.maximum(chains.last_until(asked.thread, asked.end_ns - 1), since)
    resumed = longest_silence(since, until, chains.times_ns)
    resumed_ns = chains.times_ns[resumed]
    silent_ns = resumed_ns - chains.times_ns[np.maximum(resumed - 1, 0)]
    named, unnamed = _may_wait(activities, chains.owner[resumed])
    unnamed &= (resumed - 1 == since) | ~_sleeps(asked, activities, chains, times_ns)[resumed]
    inside = (resumed > since) & (resumed_ns > start_ns) & (resumed_ns < asked.end_ns)
    mostly = (2 * silent_ns >= resumed_ns - start_ns) & (silent_ns >= asked.end_ns - resumed_ns)
    late = inside & mostly & (asked.end_ns - resumed_ns >= PROMPT_NS) & (named | unnamed)
    late &= resumed_ns - _last_end(asked, resumed_ns) > _prompt_ns(silent_ns)
    ends = moment(asked.range[late], Point.END)
    # What the range's own thread has noted in it ended before.
    last_ns = chains.times_ns[np.maximum(chains.position[ends] - 1, 0)]
    possible = last_ns <= resumed_ns[late]
    return ends[possible], resumed_ns[late][possible]


def _last_end(asked: _Asked, until_ns: _Ints) -> _Ints:
    """For each range a moment: when the last range of its thread ended until then; 0 where none has."""
    found = np.zeros(len(until_ns), dtype=np.int64)
    for thread in np.unique(asked.thread).tolist():
        own = np.flatnonzero(asked.thread == thread)
        ends = np.sort(asked.end_ns[own])
        last = np.searchsorted(ends, until_ns[own], side="right") - 1
        found[own] = np.where(last >= 0, ends[np.maximum(last, 0)], 0)
    return found


def _asked(linked: LinkedTrace, activities: RankActivities, chains: ThreadChains, times_ns: _Ints) -> _Asked:
    ranges, ops = (
        activities.of_event[frame.get_column("event_id").fill_null(-1).to_numpy()]
        if len(activities.of_event)
        else np.empty(0, dtype=np.int64)
        for frame in (backend_ranges(linked), issuing_ops(linked))
    )
    known = issuing_ops(linked).get_column("event_id").is_not_null().to_numpy()[: len(ops)]
    known &= (ranges >= 0) & (ops >= 0)
    ranges, ops = ranges[known], ops[known]
    thread, other = (chains.thread[chains.position[moment(part, Point.START)]] for part in (ops, ranges))
    apart = np.flatnonzero(thread != other)
    order = apart[np.argsort(times_ns[moment(ops[apart], Point.START)], kind="stable")]
    end_ns = times_ns[moment(ranges[order], Point.END)]
    return _Asked(ops[order], ranges[order], thread[order], end_ns)


def _issues(asked: _Asked, chains: ThreadChains, times_ns: _Ints) -> EdgeList:
    """Edges from the op's last moment before the range to its start; inside the op, the time between is its work."""
    starts = moment(asked.range, Point.START)
    last = chains.last_until(asked.thread, times_ns[starts])
    position = np.minimum(np.maximum(last, 0), chains.position[moment(asked.op, Point.END)])
    before = chains.moments[position]
    inside = position < chains.position[moment(asked.op, Point.END)]
    possible = last >= chains.position[moment(asked.op, Point.START)]
    work = np.where(inside, times_ns[starts] - times_ns[before], 0)
    return EdgeList.of(before, starts, EdgeKind.THREAD, asked.op, work)[possible]


def _waits(asked: _Asked, activities: RankActivities, chains: ThreadChains, times_ns: _Ints) -> EdgeList:
    """Edges from the ends of ranges to the moment at which the issuing thread resumes.

    It waited for a range that ended while the thread showed nothing, if nothing that it asked for before still ran
    then, and: a function or op in which threads wait is open meanwhile; or no op is, the range took up most of the
    silence, and either the thread went silent as it asked, or it resumed promptly: one that sleeps meanwhile does
    neither, or seldom (`_sleeps`); or all of that holds in ops of one name, such as autograd's that call hooks, mostly
    where they ask for communication. Then it has waited for all that it asked for before, too.
    """
    position = chains.last_until(asked.thread, asked.end_ns - 1) + 1
    inside = (position > 0) & (position < chains.first[asked.thread + 1])
    position = np.where(inside, position, 0)
    resumed_ns, silent_ns = chains.times_ns[position], chains.times_ns[np.maximum(position - 1, 0)]
    named, unnamed = _may_wait(activities, chains.owner[position])
    mostly = 2 * (asked.end_ns - silent_ns) >= resumed_ns - silent_ns
    long = resumed_ns - silent_ns >= SHORTEST_WAIT_NS
    at_once = np.isin(chains.moments[np.maximum(position - 1, 0)], moment(asked.op, Point.END))
    prompt = resumed_ns - asked.end_ns <= _prompt_ns(resumed_ns - silent_ns)
    meant = at_once | (prompt & ~_sleeps(asked, activities, chains, times_ns)[position])
    behind_its_op = inside & (position > chains.position[moment(asked.op, Point.END)])
    silent = behind_its_op & mostly & long
    in_hooks = _mostly_in(asked, activities, chains, silent & at_once & prompt & ~unnamed)
    waited = (behind_its_op & named) | (silent & ((unnamed & meant) | in_hooks))
    range_of_edge, position_of_edge = _with_earlier(asked, waited, position, resumed_ns)
    before = moment(asked.range[range_of_edge], Point.END)
    after = chains.moments[position_of_edge]
    return EdgeList.of(before, after, EdgeKind.COMMUNICATION_WAIT, asked.range[range_of_edge])


def _mostly_in(asked: _Asked, activities: RankActivities, chains: ThreadChains, waits: _Flags) -> _Flags:
    """The waits in whatever is around the ops that asked, where most that ask in such of its name wait there."""
    around = chains.owner[chains.position[moment(asked.op, Point.START)]]
    inside = chains.owner[np.minimum(chains.position[moment(asked.op, Point.END)] + 1, len(chains.owner) - 1)]
    names = activities.table[around].select(as_text("name"))
    share = names.with_columns(pl.Series("waits", waits & (around == inside))).select(
        pl.col("waits") & (pl.col("waits").mean().over("name") >= _WAITED_SHARE)
    )
    found: _Flags = share.to_series().to_numpy()
    return found


def _prompt_ns(silent_ns: _Ints) -> _Floats:
    """How late a thread may resume behind the end of what it waited for."""
    found: _Floats = np.maximum(LATE_SHARE * silent_ns, PROMPT_NS)
    return found


def _sleeps(asked: _Asked, activities: RankActivities, chains: ThreadChains, times_ns: _Ints) -> _Flags:
    """For each position: whether the thread was silent before it for its own sake, as it sleeps or reads a file.

    The same place of a program is silent in many steps: between events of the same names. A thread that waits there
    resumes promptly behind the last that it had asked for, but for what it does next; one that sleeps, by chance.
    Silences in which the last of it ended decide: what ends later may be noted late.
    """
    found = np.zeros(len(chains.moments), dtype=np.bool_)
    silences = [_silences(asked, chains, times_ns, thread) for thread in np.unique(asked.thread).tolist()]
    if not silences:
        return found
    position, decides, prompt = (np.concatenate(parts) for parts in zip(*silences, strict=True))
    names = activities.table.select("name")
    before, after = (
        names[chains.moments[position + offset] // 2].select(as_text("name").str.replace(r"#\d+$", ""))
        for offset in (-1, 0)
    )
    places = pl.DataFrame(
        {"thread": chains.thread[position], "before": before["name"], "after": after["name"]}
    )
    places = places.with_columns(pl.Series("decides", decides), pl.Series("prompt", prompt))
    share = pl.col("prompt").filter("decides").mean().over("thread", "before", "after")
    found[position] = places.select((share < _WAITED_SHARE).fill_null(False)).to_series().to_numpy()
    return found


def _silences(
    asked: _Asked, chains: ThreadChains, times_ns: _Ints, thread: int
) -> tuple[_Ints, _Flags, _Flags]:
    """Positions of a thread behind silences in which something that it had asked for ended, or still ran.

    And whether the last ended of all that it had asked for, and whether the thread resumed promptly behind it.
    """
    own = asked.thread == thread
    ends_ns, asks_ns = np.sort(asked.end_ns[own]), np.sort(times_ns[moment(asked.op[own], Point.START)])
    resumed = np.arange(chains.first[thread] + 1, chains.first[thread + 1])
    resumed_ns, silent_ns = chains.times_ns[resumed], chains.times_ns[resumed - 1]
    ended = np.searchsorted(ends_ns, resumed_ns, side="right")
    runs = ended < np.searchsorted(asks_ns, resumed_ns, side="right")
    some_ended = ended > np.searchsorted(ends_ns, silent_ns, side="right")
    kept = (some_ended | runs) & (resumed_ns - silent_ns >= SHORTEST_WAIT_NS)
    prompt: _Flags = resumed_ns - ends_ns[np.maximum(ended - 1, 0)] <= _prompt_ns(resumed_ns - silent_ns)
    return resumed[kept], (some_ended & ~runs)[kept], prompt[kept]


def _may_wait(activities: RankActivities, owner: _Ints) -> tuple[_Flags, _Flags]:
    """Return whether the name of an activity says that it waits, and whether it may wait without saying so."""
    rows = activities.table[owner].select(as_text("name", "kind"))
    named = rows.select(pl.col("name").str.contains(_WAITS).fill_null(False)).to_series().to_numpy()
    unnamed = rows.select(pl.col("kind").is_in(_MAY_WAIT).fill_null(False)).to_series().to_numpy()
    return named, unnamed


def _with_earlier(asked: _Asked, waited: _Flags, position: _Ints, resumed_ns: _Ints) -> tuple[_Ints, _Ints]:
    """Return the waits, and the ranges that the thread issued since its previous wait."""
    ranges, positions = [], []
    for thread in np.unique(asked.thread).tolist():
        own = np.flatnonzero(asked.thread == thread)
        latest_ns = np.maximum.accumulate(asked.end_ns[own])
        first = 0
        for index in np.flatnonzero(waited[own] & (latest_ns <= resumed_ns[own])).tolist():
            members = own[first : index + 1]
            ranges.append(members)
            positions.append(np.full(len(members), position[own[index]]))
            first = index + 1
    nothing = np.empty(0, dtype=np.int64)
    return np.concatenate([nothing, *ranges]), np.concatenate([nothing, *positions])
