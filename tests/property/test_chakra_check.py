"""Jobs that are made to run have nothing wrong; what is made wrong in them is found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.chakra_ranks import collective, compute, rank_of, receive, send
from tracebraid.chakra.checking.check_job import JobFacts, check_job
from tracebraid.chakra.checking.rank_facts import rank_facts
from tracebraid.model.chakra.lint_code import LintCode

_RANKS = 4
_GROUPS = {"1": [0, 1], "2": [2, 3], "3": [0, 2], "4": [1, 3], "5": [0, 1, 2], "6": [0, 1, 2, 3]}

Event = tuple[str, Any, int]
Item = tuple[str, Event, int]

_EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("collective"), st.sampled_from(sorted(_GROUPS)), st.sampled_from([1024, 4096])),
        st.tuples(
            st.just("message"),
            st.permutations(range(_RANKS)).map(lambda ranks: tuple(ranks[:2])),
            st.just(64),
        ),
    ),
    min_size=1,
    max_size=12,
)


def items_of(rank: int, events: Sequence[Event]) -> list[Item]:
    """What a rank takes part in, in the order of all events: so the job runs to its end."""
    items = []
    for number, event in enumerate(events):
        kind, who, _ = event
        if kind == "collective" and rank in _GROUPS[who]:
            items.append(("collective", event, number))
        elif kind == "message" and rank in who:
            items.append(("send" if rank == who[0] else "receive", event, number))
    return items


def nodes_of(items: Sequence[Item], works: Sequence[int]) -> list[dict[str, Any]]:
    """A chain of the items, with work between them."""
    nodes: list[dict[str, Any]] = []
    for number, (kind, (_, who, size), tag) in enumerate(items):
        for _ in range(works[number % len(works)]):
            nodes.append(compute(len(nodes), *_last(nodes)))
        node, last = len(nodes), _last(nodes)
        if kind == "collective":
            nodes.append(collective(node, *last, size=size, group=who))
        elif kind == "send":
            nodes.append(send(node, *last, to=who[1], size=size, tag=tag))
        else:
            nodes.append(receive(node, *last, source=who[0], size=size, tag=tag))
    return nodes or [compute(0)]


def _last(nodes: Sequence[object]) -> tuple[int, ...]:
    return (len(nodes) - 1,) if nodes else ()


def codes(items: Sequence[Sequence[Item]], works: Sequence[int]) -> set[LintCode]:
    facts = [rank_facts(rank_of(rank, nodes_of(own, works)), "x") for rank, own in enumerate(items)]
    return {finding.code for finding in check_job(JobFacts("x", facts, range(_RANKS), _GROUPS)).findings}


def runs(items: Sequence[Sequence[Item]]) -> bool:
    """Whether ranks that do one thing after the other come to their ends: tried out, event by event."""
    at, sent = [0] * len(items), set()
    while True:
        moved = False
        for rank, own in enumerate(items):
            if at[rank] == len(own):
                continue
            kind, (_, who, _), number = own[at[rank]]
            if kind == "send":
                sent.add(number)
            elif kind == "receive" and number not in sent:
                continue
            elif kind == "collective":
                fronts = [
                    items[other][at[other]] if at[other] < len(items[other]) else None
                    for other in _GROUPS[who]
                ]
                if any(front is None or front[:2] != ("collective", own[at[rank]][1]) for front in fronts):
                    continue
                for other in _GROUPS[who]:
                    at[other] += other != rank
            at[rank] += 1
            moved = True
        if not moved:
            return all(at[rank] == len(own) for rank, own in enumerate(items))


@settings(max_examples=40, deadline=None)
@given(_EVENTS, st.lists(st.integers(0, 3), min_size=1, max_size=5))
def test_a_job_in_a_common_order_has_nothing_wrong(events: list[Event], works: list[int]) -> None:
    assert codes([items_of(rank, events) for rank in range(_RANKS)], works) == set()


@settings(max_examples=60, deadline=None)
@given(_EVENTS, st.data())
def test_a_swap_on_a_rank_is_found_where_it_is_a_fault_and_only_there(
    events: list[Event], data: st.DataObject
) -> None:
    items = [items_of(rank, events) for rank in range(_RANKS)]
    rank = data.draw(st.sampled_from(range(_RANKS)))
    assume(len(items[rank]) > 1)
    first = data.draw(st.integers(0, len(items[rank]) - 2))
    own = items[rank]
    own[first], own[first + 1] = own[first + 1], own[first]
    # Of one group, another size or type at a position is said as such.
    differs = {LintCode.COLLECTIVES_DIFFER, LintCode.SIZES_DIFFER}
    assert bool(codes(items, [1]) & {LintCode.DEADLOCK, *differs}) == (not runs(items))


@settings(max_examples=30, deadline=None)
@given(_EVENTS, st.data())
def test_an_event_that_a_rank_lacks_is_found(events: list[Event], data: st.DataObject) -> None:
    items = [items_of(rank, events) for rank in range(_RANKS)]
    rank = data.draw(st.sampled_from([rank for rank in range(_RANKS) if items[rank]]))
    kind, _, _ = items[rank].pop(data.draw(st.integers(0, len(items[rank]) - 1)))
    expected = {
        "collective": {LintCode.COLLECTIVES_MISSING, LintCode.DEADLOCK},
        "send": {LintCode.RECEIVE_WITHOUT_SEND, LintCode.DEADLOCK},
        "receive": {LintCode.SEND_WITHOUT_RECEIVE},
    }
    assert expected[kind] <= codes(items, [1])
