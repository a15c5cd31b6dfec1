"""All ranks issue their communication as a simulator does, without times, until nothing can go on.

The rules are ASTRA-sim's (astra-sim/workload/Workload.cc and HardwareResource.cc): a rank has one lane for
communication, which holds one collective or send at a time; receives need no lane. Of what is ready the lane takes what
begins first. A send ends whether or not it is received, unless it is so large that it waits for its receive; a receive
ends once it is sent; a collective ends when all members have issued as many collectives of its group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

import numpy as np
import polars as pl
from msgspec import Struct, field

from tracebraid.chakra.checking.rank_facts import COMMUNICATION_TYPES, RankFacts

_COLLECTIVE, _SEND, _RECEIVE = COMMUNICATION_TYPES
_JUNCTION = -1
_Key = tuple[int, int, int, int]
_COLUMNS = (
    *("entry", "position", "lane_order", "type", "group", "comm_type"),
    *("src", "dst", "comm_tag", "comm_size"),
)


class Waiting(Struct, frozen=True):
    """A communication that was issued and does not end.

    Args:
        rank: that issued it.
        position: its row in the rank's communication.
        group: the process group of a collective; None: a send or receive.
        ranks: those that it waits for.
    """

    rank: int
    position: int
    group: str | None
    ranks: tuple[int, ...]


class Standstill(Struct, frozen=True):
    """State when no entry can proceed.

    Args:
        waiting: of each rank what waits for other ranks.
        never: how many communications of each rank do not end.
    """

    waiting: tuple[Waiting, ...]
    never: Mapping[int, int]


class _Rank(Struct, eq=False):
    """State of a rank during issue. Entries are those of its skeleton."""

    number: int
    waits: list[int]
    first_child: list[int]
    child: list[int]
    open: int
    position: list[int]
    """Row of each entry's communication; -1: a junction."""
    lane_order: list[int]
    kind: list[str]
    group: list[str | None]
    key: list[_Key]
    """Key that both ends of a message share."""
    meets: list[bool]
    ready: list[tuple[int, int]] = field(default_factory=list)
    in_lane: int = -1
    receives: dict[int, int] = field(default_factory=dict)
    """Receives that wait: entry and the rank that has to send."""


class _Meeting(Struct, eq=False):
    missing: set[int]
    arrived: list[tuple[int, int]] = field(default_factory=list)


class _Job(Struct, eq=False):
    ranks: dict[int, _Rank]
    members: Mapping[str, tuple[int, ...]]
    rendezvous_bytes: int | None
    agenda: list[int] = field(default_factory=list)
    issued: dict[tuple[int, str], int] = field(default_factory=dict)
    meetings: dict[tuple[str, int], _Meeting] = field(default_factory=dict)
    sent: dict[_Key, int] = field(default_factory=dict)
    expecting: dict[_Key, deque[tuple[int, int]]] = field(default_factory=dict)
    offered: dict[_Key, deque[int]] = field(default_factory=dict)
    """Ranks whose lane holds a send that waits for its receive."""
    received: set[int] = field(default_factory=set)
    """Of these, ranks whose receive has come."""


def issue_all(
    ranks: Sequence[RankFacts],
    members: Mapping[str, tuple[int, ...]],
    has_no_partner: frozenset[str] = frozenset(),
    rendezvous_bytes: int | None = None,
) -> Standstill:
    """Issue all communication of a job; what does not end is returned. Sends from a size on wait for their receive."""
    there = {facts.checked.rank for facts in ranks}
    job = _Job(
        {facts.checked.rank: _rank(facts, there, has_no_partner) for facts in ranks},
        members,
        rendezvous_bytes,
    )
    for number, rank in job.ranks.items():
        for entry in [entry for entry, waits in enumerate(rank.waits) if waits == 0]:
            _begin(job, rank, entry)
        job.agenda.append(number)
    while job.agenda:
        _fill_lane(job, job.ranks[job.agenda.pop()])
    never = {number: rank.open for number, rank in job.ranks.items() if rank.open}
    return Standstill(tuple(_waiting(job)), never)


def _rank(facts: RankFacts, there: set[int], has_no_partner: frozenset[str]) -> _Rank:
    skeleton, entries = facts.skeleton, len(facts.skeleton.row)
    runs = facts.communication.with_row_index("position").filter(pl.col("entry").is_not_null())
    rank = _Rank(
        facts.checked.rank,
        *_children(skeleton.first, skeleton.before),
        runs.height,
        position=[_JUNCTION] * entries,
        lane_order=[0] * entries,
        kind=[""] * entries,
        group=[None] * entries,
        key=[(0, 0, 0, 0)] * entries,
        meets=[True] * entries,
    )
    for row in runs.select(_COLUMNS).iter_rows():
        entry, position, order, kind, group, comm_type, src, dst, tag, size = row
        rank.position[entry], rank.lane_order[entry] = position, order
        rank.kind[entry], rank.group[entry] = kind, group
        rank.key[entry] = (src, dst, tag or 0, -1 if size is None else size)
        # What cannot be matched is said elsewhere; here it ends by itself, so that all else can be seen.
        rank.meets[entry] = comm_type not in has_no_partner if kind == _COLLECTIVE else {src, dst} <= there
    return rank


def _children(first: np.ndarray, before: np.ndarray) -> tuple[list[int], list[int], list[int]]:
    """Return how many entries each waits for, and those that wait for it."""
    entries = len(first) - 1
    order = np.argsort(before, kind="stable")
    first_child = np.zeros(entries + 1, dtype=np.int64)
    np.cumsum(np.bincount(before, minlength=entries), out=first_child[1:])
    after = np.repeat(np.arange(entries), np.diff(first))
    return np.diff(first).tolist(), first_child.tolist(), after[order].tolist()


def _begin(job: _Job, rank: _Rank, entry: int) -> None:
    """An entry has all that it waited for: it is put before the lane, or ends if it needs none."""
    ended = [entry]
    while ended:
        entry = ended.pop()
        if rank.position[entry] != _JUNCTION:
            if rank.kind[entry] != _RECEIVE:
                heappush(rank.ready, (rank.lane_order[entry], entry))
                continue
            if not _received(job, rank, entry):
                continue
            rank.open -= 1
        ended += _wake(rank, entry)


def _wake(rank: _Rank, entry: int) -> list[int]:
    """Entries whose last dependency has ended."""
    woken = []
    for child in rank.child[rank.first_child[entry] : rank.first_child[entry + 1]]:
        rank.waits[child] -= 1
        if rank.waits[child] == 0:
            woken.append(child)
    return woken


def _end(job: _Job, rank: _Rank, entry: int) -> None:
    rank.open -= 1
    for child in _wake(rank, entry):
        _begin(job, rank, child)


def _received(job: _Job, rank: _Rank, entry: int) -> bool:
    """Return whether a receive ends at once; else it waits."""
    key = rank.key[entry]
    if not rank.meets[entry]:
        return True
    if job.sent.get(key, 0):
        job.sent[key] -= 1
        return True
    if job.offered.get(key):
        sender = job.offered[key].popleft()
        job.received.add(sender)
        job.agenda.append(sender)
        return True
    job.expecting.setdefault(key, deque()).append((rank.number, entry))
    rank.receives[entry] = key[0]
    return False


def _fill_lane(job: _Job, rank: _Rank) -> None:
    """Issue what is ready, until something stays in the lane."""
    if rank.number in job.received:
        job.received.remove(rank.number)
        entry, rank.in_lane = rank.in_lane, -1
        _end(job, rank, entry)
    while rank.in_lane < 0 and rank.ready:
        _, entry = heappop(rank.ready)
        if _waits_for_receive(job, rank, entry):
            rank.in_lane = entry
            job.offered.setdefault(rank.key[entry], deque()).append(rank.number)
            continue
        if rank.kind[entry] == _SEND:
            _end(job, rank, entry)
            if rank.meets[entry]:
                _deliver(job, rank.key[entry])
            continue
        group = rank.group[entry] or ""
        members = job.members.get(group, ())
        if not rank.meets[entry] or rank.number not in members:
            _end(job, rank, entry)
            continue
        rank.in_lane = entry
        number = job.issued.get((rank.number, group), 0)
        job.issued[rank.number, group] = number + 1
        meeting = job.meetings.setdefault((group, number), _Meeting(set(members)))
        meeting.missing.discard(rank.number)
        meeting.arrived.append((rank.number, entry))
        if not meeting.missing:
            del job.meetings[group, number]
            _part(job, meeting)


def _waits_for_receive(job: _Job, rank: _Rank, entry: int) -> bool:
    """Return whether it is a send of such a size, whose receive has not come."""
    if job.rendezvous_bytes is None or rank.kind[entry] != _SEND or not rank.meets[entry]:
        return False
    key = rank.key[entry]
    return key[-1] >= job.rendezvous_bytes and not job.expecting.get(key)


def _part(job: _Job, meeting: _Meeting) -> None:
    """All members of a collective are there: it ends on each."""
    for number, entry in meeting.arrived:
        rank = job.ranks[number]
        rank.in_lane = -1
        _end(job, rank, entry)
        job.agenda.append(number)


def _deliver(job: _Job, key: _Key) -> None:
    """A message is sent: the receive that waits for it ends, or the next that comes will."""
    waiting = job.expecting.get(key)
    if not waiting:
        job.sent[key] = job.sent.get(key, 0) + 1
        return
    number, entry = waiting.popleft()
    rank = job.ranks[number]
    del rank.receives[entry]
    _end(job, rank, entry)
    job.agenda.append(number)


def _waiting(job: _Job) -> list[Waiting]:
    missing = {
        arrived: (group, tuple(sorted(meeting.missing)))
        for (group, _), meeting in job.meetings.items()
        for arrived in meeting.arrived
    }
    waiting = []
    for number, rank in job.ranks.items():
        if rank.in_lane >= 0:
            receiver = (rank.key[rank.in_lane][1],)
            group, ranks = missing.get((number, rank.in_lane), (None, receiver))
            waiting.append(Waiting(number, rank.position[rank.in_lane], group, ranks))
        waiting += [
            Waiting(number, rank.position[entry], None, (sender,)) for entry, sender in rank.receives.items()
        ]
    return waiting
