"""Discrete events over all ranks: when each node starts and ends, and what let it start."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracebraid.chakra.running.algorithms import Rounds, member_ends
from tracebraid.native.loops import native_loop

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


class _Ready:
    """Nodes that wait for nothing but their lane, and lanes that changed since nodes were last issued."""

    def __init__(self, lanes: int) -> None:
        self._waiting: list[list[int]] = [[] for _ in range(lanes)]
        self._is_busy = [False] * lanes
        self._touched: dict[int, None] = {}
        self._free: list[int] = []

    def add(self, lane: int, row: int) -> None:
        """A node waits for its lane alone."""
        if lane < 0:
            self._free.append(row)
            return
        heappush(self._waiting[lane], row)
        self._touched[lane] = None

    def free(self, lane: int) -> None:
        """The node of a lane has ended."""
        if lane >= 0:
            self._is_busy[lane] = False
            self._touched[lane] = None

    def taken(self) -> list[int]:
        """The nodes that are issued now, in their order."""
        found, self._free = self._free, []
        lanes = [lane for lane in self._touched if not self._is_busy[lane] and self._waiting[lane]]
        self._touched = {}
        for _, lane in sorted((self._waiting[lane][0], lane) for lane in lanes):
            self._is_busy[lane] = True
            found.append(heappop(self._waiting[lane]))
        return found


class _Play:
    """All ranks, from the first node to the last that ever ends."""

    def __init__(self, program: Program, lanes: int, counters: int, slots: int) -> None:
        count = len(program.role)
        self._program = program
        self.played = Played(
            *(_none(count), _none(count), _none(count), _none(count)),
            *(np.zeros(slots, dtype=np.int64), _none(slots), _none(slots), _none(slots), _none(slots)),
        )
        self._ready = _Ready(lanes)
        self._ends: list[tuple[int, int, int]] = []
        self._pushed = 0
        self._members: list[list[int]] = [[] for _ in range(slots)]
        self._taken = [0] * counters

    def run(self) -> None:
        """Until no node ends any more."""
        program, played, ready = self._program, self.played, self._ready
        waits = program.waits.copy()
        for row in np.flatnonzero(waits == 0).tolist():
            ready.add(int(program.lane[row]), row)
        now, ended = 0, -1
        while True:
            for row in ready.taken():
                played.start_ns[row] = now
                played.cause[row] = ended
                self._issue(row)
            if not self._ends:
                return
            now, _, ended = heappop(self._ends)
            played.end_ns[ended] = now
            ready.free(int(program.lane[ended]))
            for after in program.after[program.first[ended] : program.first[ended + 1]].tolist():
                waits[after] -= 1
                if waits[after] == 0:
                    ready.add(int(program.lane[after]), after)

    def _push(self, time_ns: int, row: int) -> None:
        heappush(self._ends, (int(time_ns), self._pushed, int(row)))
        self._pushed += 1

    def _issue(self, row: int) -> None:
        """A node starts."""
        program, played = self._program, self.played
        if program.role[row] == WORK:
            self._push(played.start_ns[row] + program.duration_ns[row], row)
            return
        counter = program.counter[row]
        played.slot[row] = program.slot[row] + self._taken[counter]
        self._taken[counter] += 1
        played.come[played.slot[row]] += 1
        if program.role[row] == COLLECTIVE:
            self._meet_group(row)
        else:
            self._meet_pair(row)

    def _start_message(self, slot: int, now: int) -> None:
        """The message of a send is under way: it is known when both ends end, if the receive has come."""
        program, played = self._program, self.played
        send, receive = played.last[slot], played.receive[slot]
        self._push(now + program.duration_ns[send], send)
        played.latest_ns[slot] = now + program.delivery_ns[send]
        if receive >= 0:
            self._push(played.latest_ns[slot] + program.duration_ns[receive], receive)

    def _meet_pair(self, row: int) -> None:
        """A send or receive comes to its slot."""
        program, played = self._program, self.played
        slot, now = played.slot[row], played.start_ns[row]
        if program.role[row] == SEND:
            played.last[slot] = row
            if not program.rendezvous[row] or played.receive[slot] >= 0:
                self._start_message(slot, now)
            return
        played.receive[slot] = row
        send = played.last[slot]
        if send >= 0 and program.rendezvous[send]:
            self._start_message(slot, now)
        elif send >= 0:
            self._push(max(now, played.latest_ns[slot]) + program.duration_ns[row], row)

    def _meet_group(self, row: int) -> None:
        """A collective comes to its slot; with the last member it is known when each ends."""
        program, played = self._program, self.played
        slot = played.slot[row]
        members = self._members[slot]
        if members and played.differs[slot] < 0 and program.signature[members[-1]] != program.signature[row]:
            played.differs[slot] = row
        members.append(row)
        played.last[slot] = row
        played.latest_ns[slot] = played.start_ns[row]
        if played.come[slot] != program.expected[row] or played.differs[slot] >= 0:
            return
        start = np.empty(program.expected[row], dtype=np.int64)
        start[program.position[members]] = played.start_ns[members]
        together = bool((start == start[0]).all()) or program.plan[row] < 0
        ends = None if together else member_ends(program.rounds, int(program.plan[row]), start)
        for member in reversed(members):
            if ends is None:
                self._push(played.start_ns[row] + program.duration_ns[member], member)
            else:
                self._push(int(ends[program.position[member]]), member)


def _none(count: int) -> _Ints:
    return np.full(count, NEVER, dtype=np.int64)


def play(program: Program, lanes: int, counters: int, slots: int) -> Played:
    """Run all nodes: a lane takes the ready node with the lowest row, as ASTRA-sim issues by ascending id.

    Nodes that end at the same time are seen in the order in which their ends became known. A collective that members
    disagree about never ends.
    """
    return Played(*_played(program, lanes, counters, slots))


@native_loop
def _played(program: Program, lanes: int, counters: int, slots: int) -> tuple[_Ints, ...]:
    play = _Play(program, lanes, counters, slots)
    play.run()
    return tuple(play.played)
