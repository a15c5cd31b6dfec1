"""Discrete events over all ranks: when each node starts and ends, and what let it start."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled

__all__ = ["COLLECTIVE", "NEVER", "RECEIVE", "SEND", "WORK", "Played", "Program", "play"]

_Ints = NDArray[np.int64]

WORK, COLLECTIVE, SEND, RECEIVE = 0, 1, 2, 3
"""Roles of nodes."""

NEVER = -1
"""The time, row, lane or slot of what there is none of."""


class Program(NamedTuple):
    """Nodes of all ranks, by rank and id, in flat arrays; each has an entry for each node but `first` and `after`.

    Args:
        role: `WORK`, `COLLECTIVE`, `SEND` or `RECEIVE`.
        lane: what it occupies from its start to its end; `NEVER`: nothing.
        duration_ns: of work and sends their time; of a collective its time behind the last arrival, of a receive that
            behind the arrival of the message.
        delivery_ns: of a send, when its message arrives behind its start.
        waits: how many nodes it waits for.
        first: where the nodes that wait for it begin in `after`; one entry more than there are nodes.
        after: the nodes that wait.
        slot: of communication the first slot of its group, or of its pair of ranks and tag.
        counter: of communication, what counts the slots that are taken: one for each member of a group, or for each
            end of a pair.
        expected: of a collective the members of its group.
        signature: of a collective its kind and size: members have to agree.
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


class Played(NamedTuple):
    """What happened; the first four have an entry for each node, the others for each slot.

    Args:
        start_ns: when it was issued; `NEVER`: it was not.
        end_ns: when it ended; `NEVER`: it did not.
        cause: the node whose end let it be issued; `NEVER`: none, it was issued at 0.
        slot: where it met its partners; `NEVER`: it has none, or was not issued.
        come: how many have come.
        last: the node that came last; of a pair the send.
        latest_ns: when; of a pair when the message arrives.
        odd: the node whose signature is another's than that of the first; `NEVER`: there is none.
    """

    start_ns: _Ints
    end_ns: _Ints
    cause: _Ints
    slot: _Ints
    come: _Ints
    last: _Ints
    latest_ns: _Ints
    odd: _Ints


@compiled
def play(program: Program, lanes: int, counters: int, slots: int) -> Played:
    """Run all nodes: a lane takes the ready node with the lowest row, as ASTRA-sim issues by ascending id.

    Nodes that end at the same time are seen in the order in which their ends became known. A collective that members
    disagree about never ends.

    Args:
        program: the nodes.
        lanes: how many lanes there are.
        counters: how many counters there are.
        slots: how many slots there are.
    """
    role, lane, duration = program.role, program.lane, program.duration_ns
    count = len(role)
    waits = program.waits.copy()
    start = np.full(count, -1, dtype=np.int64)
    end = np.full(count, -1, dtype=np.int64)
    cause = np.full(count, -1, dtype=np.int64)
    slot_of = np.full(count, -1, dtype=np.int64)
    come = np.zeros(slots, dtype=np.int64)
    last = np.full(slots, -1, dtype=np.int64)
    latest = np.full(slots, -1, dtype=np.int64)
    odd = np.full(slots, -1, dtype=np.int64)
    head = np.full(slots, -1, dtype=np.int64)
    following = np.full(count, -1, dtype=np.int64)
    taken = np.zeros(counters, dtype=np.int64)

    # Ready nodes of each lane are a heap of rows in its own part of one array.
    base = np.zeros(lanes + 1, dtype=np.int64)
    for row in range(count):
        if lane[row] >= 0:
            base[lane[row] + 1] += 1
    for number in range(lanes):
        base[number + 1] += base[number]
    ready = np.empty(count, dtype=np.int64)
    size = np.zeros(lanes, dtype=np.int64)
    busy = np.zeros(lanes, dtype=np.bool_)
    touched = np.empty(lanes, dtype=np.int64)
    is_touched = np.zeros(lanes, dtype=np.bool_)
    touches = 0
    # Nodes that take no lane.
    free = np.empty(count, dtype=np.int64)
    frees = 0

    # What ends when: a heap by time, then by order.
    when = np.empty(count + 1, dtype=np.int64)
    order = np.empty(count + 1, dtype=np.int64)
    what = np.empty(count + 1, dtype=np.int64)
    events, orders = 0, 0
    known = np.empty(count, dtype=np.int64)
    known_at = np.empty(count, dtype=np.int64)

    became = np.empty(count, dtype=np.int64)
    becoming = 0
    for row in range(count):
        if waits[row] == 0:
            became[becoming] = row
            becoming += 1
    now, finished = 0, -1

    while True:
        for index in range(becoming):
            row = became[index]
            number = lane[row]
            if number < 0:
                free[frees] = row
                frees += 1
                continue
            at = size[number]
            size[number] += 1
            while at > 0 and ready[base[number] + (at - 1) // 2] > row:
                ready[base[number] + at] = ready[base[number] + (at - 1) // 2]
                at = (at - 1) // 2
            ready[base[number] + at] = row
            if not is_touched[number]:
                is_touched[number] = True
                touched[touches] = number
                touches += 1
        becoming = 0

        taking = 0
        while True:
            row = -1
            if taking < frees:
                row = free[taking]
                taking += 1
            else:
                best = -1
                for index in range(touches):
                    number = touched[index]
                    is_free = not busy[number] and size[number] > 0
                    if is_free and (row < 0 or ready[base[number]] < row):
                        row = ready[base[number]]
                        best = number
                if row < 0:
                    break
                busy[best] = True
                size[best] -= 1
                moved = ready[base[best] + size[best]]
                at, child = 0, 1
                while child < size[best]:
                    if child + 1 < size[best] and ready[base[best] + child + 1] < ready[base[best] + child]:
                        child += 1
                    if ready[base[best] + child] >= moved:
                        break
                    ready[base[best] + at] = ready[base[best] + child]
                    at, child = child, 2 * child + 1
                ready[base[best] + at] = moved

            start[row] = now
            cause[row] = finished
            ends = 0
            if role[row] == 0:
                known[0], known_at[0], ends = row, now + duration[row], 1
            else:
                slot = program.slot[row] + taken[program.counter[row]]
                taken[program.counter[row]] += 1
                slot_of[row] = slot
                if role[row] == 2:
                    known[0], known_at[0], ends = row, now + duration[row], 1
                    come[slot] += 1
                    last[slot] = row
                    latest[slot] = now + program.delivery_ns[row]
                    if head[slot] >= 0:
                        known[1], known_at[1], ends = head[slot], latest[slot] + duration[head[slot]], 2
                elif role[row] == 3:
                    come[slot] += 1
                    head[slot] = row
                    if last[slot] >= 0:
                        known[0], known_at[0], ends = row, max(now, latest[slot]) + duration[row], 1
                else:
                    is_second = head[slot] >= 0 and odd[slot] < 0
                    if is_second and program.signature[head[slot]] != program.signature[row]:
                        odd[slot] = row
                    following[row] = head[slot]
                    head[slot] = row
                    come[slot] += 1
                    last[slot] = row
                    latest[slot] = now
                    if come[slot] == program.expected[row] and odd[slot] < 0:
                        member = row
                        while member >= 0:
                            known[ends], known_at[ends] = member, now + duration[member]
                            ends += 1
                            member = following[member]

            for index in range(ends):
                at = events
                events += 1
                time = known_at[index]
                # Orders only grow: behind all of the same time.
                while at > 0 and when[(at - 1) // 2] > time:
                    above = (at - 1) // 2
                    when[at], order[at], what[at] = when[above], order[above], what[above]
                    at = above
                when[at], order[at], what[at] = time, orders, known[index]
                orders += 1
        frees = 0
        for index in range(touches):
            is_touched[touched[index]] = False
        touches = 0

        if events == 0:
            break
        now, finished = when[0], what[0]
        events -= 1
        if events > 0:
            time, nth, moved = when[events], order[events], what[events]
            at, child = 0, 1
            while child < events:
                right = child + 1
                if right < events and (
                    when[right] < when[child] or (when[right] == when[child] and order[right] < order[child])
                ):
                    child = right
                if when[child] > time or (when[child] == time and order[child] > nth):
                    break
                when[at], order[at], what[at] = when[child], order[child], what[child]
                at, child = child, 2 * child + 1
            when[at], order[at], what[at] = time, nth, moved

        end[finished] = now
        if lane[finished] >= 0:
            busy[lane[finished]] = False
            is_touched[lane[finished]] = True
            touched[0] = lane[finished]
            touches = 1
        for index in range(program.first[finished], program.first[finished + 1]):
            row = program.after[index]
            waits[row] -= 1
            if waits[row] == 0:
                became[becoming] = row
                becoming += 1

    return Played(start, end, cause, slot_of, come, last, latest, odd)
