"""Discrete events over all ranks: when each node starts and ends, and what let it start."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracebraid.chakra.running.algorithms import ROUNDS_PARTS, Rounds, member_ends
from tracebraid.compiled import compiled_with

_Ints = NDArray[np.int64]

WORK, COLLECTIVE, SEND, RECEIVE = 0, 1, 2, 3
"""Roles of nodes."""

NEVER = -1
"""Value of a missing time, row, lane or slot."""


class Program(NamedTuple):
    """Nodes of all ranks, by rank and id, in flat arrays; each has an entry for each node but `first` and `after`.

    Args:
        role: `WORK`, `COLLECTIVE`, `SEND` or `RECEIVE`.
        lane: the lane it occupies from start to end; `NEVER`: none.
        duration_ns: of work and sends their time; of a collective its time where all members come at once, of a
            receive that behind the arrival of the message.
        delivery_ns: for a send, delay from its start to the arrival of its message.
        waits: how many nodes it waits for.
        first: where the nodes that wait for it begin in `after`; one entry more than there are nodes.
        after: the nodes that wait.
        slot: of communication the first slot of its group, or of its pair of ranks and tag.
        counter: for communication, the counter of consumed slots: one for each member of a group, or for each
            end of a pair.
        expected: of a collective the members of its group.
        signature: of a collective its kind and size: members have to agree.
        position: of a collective the position of its rank in the group.
        plan: for a collective its number in `rounds`; `NEVER`: none starts before the last arrival.
        rendezvous: of a send whether it waits for its receive.
        rounds: programs of collectives whose members arrive at different times.
    """

    role: NDArray[np.int8]
    lane: _Ints
    duration_ns: _Ints
    delivery_ns: _Ints
    waits: _Ints
    first: _Ints
    after: _Ints
    slot: _Ints
    counter: _Ints
    expected: _Ints
    signature: _Ints
    position: _Ints
    plan: _Ints
    rendezvous: NDArray[np.bool_]
    rounds: Rounds


class Played(NamedTuple):
    """Result of a run; the first four have an entry for each node, the others for each slot.

    Args:
        start_ns: when it was issued; `NEVER`: it was not.
        end_ns: when it ended; `NEVER`: it did not.
        cause: the node whose end triggered its issue; `NEVER`: none, it was issued at 0.
        slot: where it met its partners; `NEVER`: it has none, or was not issued.
        come: how many have come.
        last: the node that came last; of a pair the send.
        receive: of a pair the receive; `NEVER`: it has not come.
        latest_ns: when; of a pair when the message arrives.
        differs: a node whose signature differs from the first's; `NEVER`: none.
    """

    start_ns: _Ints
    end_ns: _Ints
    cause: _Ints
    slot: _Ints
    come: _Ints
    last: _Ints
    receive: _Ints
    latest_ns: _Ints
    differs: _Ints


class _Events(NamedTuple):
    """Heap of ends by time, then by the order of insertion.

    Args:
        time_ns: of each event.
        order: likewise.
        row: the node that ends.
        counts: events in the heap, and events that ever were.
    """

    time_ns: _Ints
    order: _Ints
    row: _Ints
    counts: _Ints


class _Ready(NamedTuple):
    """Nodes that wait for nothing but their lane.

    Args:
        base: where the heap of each lane begins in `rows`.
        rows: heaps by row.
        size: of each heap.
        is_busy: whether a node is on the lane.
        touched: lanes whose heap or state changed since nodes were last issued.
        is_touched: whether a lane is among them.
        free: nodes that take no lane.
        counts: touched lanes, free nodes, and free nodes that were issued.
    """

    base: _Ints
    rows: _Ints
    size: _Ints
    is_busy: NDArray[np.bool_]
    touched: _Ints
    is_touched: NDArray[np.bool_]
    free: _Ints
    counts: _Ints


class _Meeting(NamedTuple):
    """Members that came to each slot, as a list of nodes linked by `following`; and the consumed counters."""

    head: _Ints
    following: _Ints
    taken: _Ints


def _push(events: _Events, time: int, row: int) -> None:
    at = events.counts[0]
    while at > 0 and events.time_ns[(at - 1) // 2] > time:
        above = (at - 1) // 2
        _move(events, above, at)
        at = above
    events.time_ns[at], events.order[at], events.row[at] = time, events.counts[1], row
    events.counts[0] += 1
    events.counts[1] += 1


def _move(events: _Events, source: int, target: int) -> None:
    events.time_ns[target] = events.time_ns[source]
    events.order[target] = events.order[source]
    events.row[target] = events.row[source]


def _is_before(events: _Events, first: int, second: int) -> bool:
    if events.time_ns[first] != events.time_ns[second]:
        return bool(events.time_ns[first] < events.time_ns[second])
    return bool(events.order[first] < events.order[second])


def _drop_first(events: _Events) -> None:
    """Pop the first event; entries after the last may be overwritten."""
    events.counts[0] -= 1
    count = events.counts[0]
    at, child = 0, 1
    while child < count:
        if child + 1 < count and _is_before(events, child + 1, child):
            child += 1
        if _is_before(events, count, child):
            break
        _move(events, child, at)
        at, child = child, 2 * child + 1
    _move(events, count, at)


def _touch(ready: _Ready, lane: int) -> None:
    if not ready.is_touched[lane]:
        ready.is_touched[lane] = True
        ready.touched[ready.counts[0]] = lane
        ready.counts[0] += 1


def _add(ready: _Ready, lane: int, row: int) -> None:
    """A node waits for its lane alone."""
    if lane < 0:
        ready.free[ready.counts[1]] = row
        ready.counts[1] += 1
        return
    base, at = ready.base[lane], ready.size[lane]
    ready.size[lane] += 1
    while at > 0 and ready.rows[base + (at - 1) // 2] > row:
        ready.rows[base + at] = ready.rows[base + (at - 1) // 2]
        at = (at - 1) // 2
    ready.rows[base + at] = row
    _touch(ready, lane)


def _drop_lowest(ready: _Ready, lane: int) -> None:
    base = ready.base[lane]
    ready.size[lane] -= 1
    count = ready.size[lane]
    moved = ready.rows[base + count]
    at, child = 0, 1
    while child < count:
        if child + 1 < count and ready.rows[base + child + 1] < ready.rows[base + child]:
            child += 1
        if ready.rows[base + child] >= moved:
            break
        ready.rows[base + at] = ready.rows[base + child]
        at, child = child, 2 * child + 1
    ready.rows[base + at] = moved


def _take(ready: _Ready) -> int:
    """The next node that can be issued; -1: none, and nothing is touched any more."""
    if ready.counts[2] < ready.counts[1]:
        ready.counts[2] += 1
        return int(ready.free[ready.counts[2] - 1])
    row, best = -1, -1
    for index in range(ready.counts[0]):
        lane = ready.touched[index]
        if ready.is_busy[lane] or ready.size[lane] == 0:
            continue
        lowest = ready.rows[ready.base[lane]]
        if row < 0 or lowest < row:
            row, best = lowest, lane
    if row >= 0:
        ready.is_busy[best] = True
        _drop_lowest(ready, best)
        return int(row)
    for index in range(ready.counts[0]):
        ready.is_touched[ready.touched[index]] = False
    ready.counts[:] = 0
    return -1


def _start_message(program: Program, played: Played, events: _Events, slot: int, now: int) -> None:
    """The message of a send is under way: it is known when both ends end, if the receive has come."""
    send, receive = played.last[slot], played.receive[slot]
    _push(events, now + program.duration_ns[send], send)
    played.latest_ns[slot] = now + program.delivery_ns[send]
    if receive >= 0:
        _push(events, played.latest_ns[slot] + program.duration_ns[receive], receive)


def _meet_pair(program: Program, played: Played, events: _Events, row: int) -> None:
    """A send or receive comes to its slot."""
    slot, now = played.slot[row], played.start_ns[row]
    played.come[slot] += 1
    if program.role[row] == 2:
        played.last[slot] = row
        if not program.rendezvous[row] or played.receive[slot] >= 0:
            _start_message(program, played, events, slot, now)
        return
    played.receive[slot] = row
    send = played.last[slot]
    if send >= 0 and program.rendezvous[send]:
        _start_message(program, played, events, slot, now)
    elif send >= 0:
        _push(events, max(now, played.latest_ns[slot]) + program.duration_ns[row], row)


def _start_group(program: Program, played: Played, meeting: _Meeting, events: _Events, row: int) -> None:
    """All members of a collective have come: it is known when each ends."""
    now, member, is_even = played.start_ns[row], row, True
    start = np.empty(program.expected[row], dtype=np.int64)
    while member >= 0:
        start[program.position[member]] = played.start_ns[member]
        is_even = is_even and played.start_ns[member] == now
        member = meeting.following[member]
    if is_even or program.plan[row] < 0:
        member = row
        while member >= 0:
            _push(events, now + program.duration_ns[member], member)
            member = meeting.following[member]
        return
    ends = member_ends(program.rounds, program.plan[row], start)
    member = row
    while member >= 0:
        _push(events, ends[program.position[member]], member)
        member = meeting.following[member]


def _meet_group(program: Program, played: Played, meeting: _Meeting, events: _Events, row: int) -> None:
    """A collective comes to its slot; with the last member it is known when each ends."""
    slot, now = played.slot[row], played.start_ns[row]
    first = meeting.head[slot]
    if first >= 0 and played.differs[slot] < 0 and program.signature[first] != program.signature[row]:
        played.differs[slot] = row
    meeting.following[row] = first
    meeting.head[slot] = row
    played.come[slot] += 1
    played.last[slot] = row
    played.latest_ns[slot] = now
    if played.come[slot] == program.expected[row] and played.differs[slot] < 0:
        _start_group(program, played, meeting, events, row)


def _issue(program: Program, played: Played, meeting: _Meeting, events: _Events, row: int) -> None:
    """A node starts."""
    role = program.role[row]
    if role == 0:
        _push(events, played.start_ns[row] + program.duration_ns[row], row)
        return
    counter = program.counter[row]
    played.slot[row] = program.slot[row] + meeting.taken[counter]
    meeting.taken[counter] += 1
    if role == 1:
        _meet_group(program, played, meeting, events, row)
    else:
        _meet_pair(program, played, events, row)


def _deadlock(lane: _Ints, lanes: int) -> _Ready:
    base = np.zeros(lanes + 1, dtype=np.int64)
    for row in range(len(lane)):
        if lane[row] >= 0:
            base[lane[row] + 1] += 1
    for number in range(lanes):
        base[number + 1] += base[number]
    rows, free = np.empty(len(lane), dtype=np.int64), np.empty(len(lane), dtype=np.int64)
    size, touched = np.zeros(lanes, dtype=np.int64), np.empty(lanes, dtype=np.int64)
    is_busy, is_touched = np.zeros(lanes, dtype=np.bool_), np.zeros(lanes, dtype=np.bool_)
    return _Ready(base, rows, size, is_busy, touched, is_touched, free, np.zeros(3, dtype=np.int64))


def _none(count: int) -> _Ints:
    return np.full(count, -1, dtype=np.int64)


@compiled_with(
    *(_move, _push, _is_before, _drop_first, _touch, _add, _drop_lowest, _take),
    *ROUNDS_PARTS,
    *(_start_message, _meet_pair, _start_group, _meet_group, _issue, _deadlock, _none),
)
def play(program: Program, lanes: int, counters: int, slots: int) -> Played:
    """Run all nodes: a lane takes the ready node with the lowest row, as ASTRA-sim issues by ascending id.

    Nodes that end at the same time are seen in the order in which their ends became known. A collective that members
    disagree about never ends.
    """
    count = len(program.role)
    waits = program.waits.copy()
    come = np.zeros(slots, dtype=np.int64)
    played = Played(
        *(_none(count), _none(count), _none(count), _none(count)),
        *(come, _none(slots), _none(slots), _none(slots), _none(slots)),
    )
    meeting = _Meeting(_none(slots), _none(count), np.zeros(counters, dtype=np.int64))
    ready = _deadlock(program.lane, lanes)
    events = _Events(_none(count + 1), _none(count + 1), _none(count + 1), np.zeros(2, dtype=np.int64))
    for row in range(count):
        if waits[row] == 0:
            _add(ready, program.lane[row], row)
    now, ended = 0, -1
    while True:
        row = _take(ready)
        while row >= 0:
            played.start_ns[row] = now
            played.cause[row] = ended
            _issue(program, played, meeting, events, row)
            row = _take(ready)
        if events.counts[0] == 0:
            return played
        now, ended = events.time_ns[0], events.row[0]
        _drop_first(events)
        played.end_ns[ended] = now
        lane = program.lane[ended]
        if lane >= 0:
            ready.is_busy[lane] = False
            _touch(ready, lane)
        for index in range(program.first[ended], program.first[ended + 1]):
            after = program.after[index]
            waits[after] -= 1
            if waits[after] == 0:
                _add(ready, program.lane[after], after)
