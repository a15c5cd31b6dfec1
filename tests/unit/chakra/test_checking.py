"""What is found in `.et` files that a simulator cannot run, and what is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import pytest

from tests.cases import cases
from tests.chakra_ranks import collective, compute, rank_of, receive, send
from tracebraid.chakra import (
    ChakraCheck,
    ChakraRun,
    CollectiveSettings,
    Lanes,
    LintCode,
    LintFinding,
    RankNode,
    Simulator,
)
from tracebraid.chakra.checking.check_job import JobFacts, check_job
from tracebraid.chakra.checking.lint import LINT_RULES
from tracebraid.chakra.checking.rank_facts import rank_facts
from tracebraid.chakra.reporting import chakra_verdict, lint_lines
from tracebraid.chakra.running.meetings import Groups as RunGroups
from tracebraid.chakra.running.network import network_of_text
from tracebraid.chakra.running.run_ranks import run_ranks

Nodes = Sequence[Mapping[str, Any]]
_BOTH = {"1": [0, 1], "2": [0, 1]}


def checked(
    *ranks: Nodes, groups: Mapping[str, Sequence[int]] | None = None, simulator: Simulator | None = None
) -> ChakraCheck:
    facts = [
        rank_facts(rank_of(number, own), f"a.{number}.et", simulator) for number, own in enumerate(ranks)
    ]
    return check_job(JobFacts("job", facts, range(len(ranks)), groups, "groups.json"), simulator)


def codes(check: ChakraCheck) -> set[LintCode]:
    return {finding.code for finding in check.findings}


def only(check: ChakraCheck, code: LintCode) -> LintFinding:
    """The finding with that code, of which there is one; its sentence can be made."""
    (found,) = [finding for finding in check.findings if finding.code is code]
    assert str(found)
    return found


def nodes_of(finding: LintFinding) -> list[tuple[int, int]]:
    return [(node.rank, node.node_id) for node in finding.nodes]


C = LintCode
_U64 = '{"comm_size":{"type":"uint64_val"}}'
_STEP = [compute(0, us=100), collective(1, 0), compute(2, 1, us=50)]
_RING = {"1": [0, 1], "2": [1, 2], "3": [2, 0]}


def grouped(*groups: str, first: int = 0, **more: Any) -> list[Mapping[str, Any]]:
    """Collectives one after another, each in a group."""
    return [
        collective(first + i, *([first + i - 1] if i else []), group=group, **more)
        for i, group in enumerate(groups)
    ]


_ONCE = [collective(0)]
_TWICE = [*_ONCE, collective(1, 0)]


def test_equal_ranks_have_nothing_wrong() -> None:
    check = checked(_STEP, _STEP, _STEP, _STEP, simulator=Simulator.ASTRA_SIM)
    assert check.findings == ()
    assert check.runs
    assert [(rank.nodes, rank.dependencies, rank.collectives) for rank in check.ranks] == [(3, 2, 1)] * 4


@pytest.mark.slow
@cases(
    "ranks, groups, expected",
    {
        "no communication": ([[compute(0), compute(1, 0)], [compute(7)]], None, {}),
        "a barrier needs no size": ([[collective(0, comm_type="BARRIER", size=None)]] * 2, None, {}),
        "groups: one that no file has": (
            [grouped("3"), grouped("3", first=4)],
            _BOTH,
            {C.GROUP_UNKNOWN: [(0, 0), (1, 4)]},
        ),
        "groups: no name and 0 are all ranks": ([grouped("0"), [collective(0)], grouped("")], None, {}),
        "groups: their users without a file": (
            [grouped("1"), grouped("1"), [compute(0)]],
            None,
            {C.GROUPS_NOT_GIVEN: None},
        ),
        "groups: ranks that are not there": (
            [[compute(0)]],
            {"1": [0, 7, 7]},
            {C.GROUP_RANK_ABSENT: [], C.GROUP_RANK_TWICE: []},
        ),
        "groups: a rank in one of others": (
            [grouped("1"), grouped("1"), grouped("1", first=8)],
            {"1": [0, 1]},
            {C.NOT_IN_GROUP: [(2, 8)]},
        ),
        "groups: one without ranks is that of all": ([grouped("1")] * 2, {"1": []}, {}),
        "other sizes": (
            [[collective(3, size=8)], [collective(4, size=16)]],
            None,
            {C.SIZES_DIFFER: [(0, 3), (1, 4)]},
        ),
        "one collective less": (
            [[collective(0), collective(1, 0)], [collective(0)]],
            None,
            {C.COLLECTIVES_MISSING: [(0, 1)], C.DEADLOCK: [(0, 1)]},
        ),
        "two of four ranks go on": (
            [_ONCE, _ONCE, _TWICE, _TWICE],
            None,
            {C.COLLECTIVES_MISSING: [(2, 1), (3, 1)], C.DEADLOCK: [(2, 1), (3, 1)]},
        ),
        "a circle, and ranks that wait for it": (
            [grouped("1", "2"), grouped("2", "1"), grouped("3", first=7), grouped("2", "3")],
            {"1": [0, 1], "2": [0, 1, 3], "3": [2, 3]},
            {C.DEADLOCK: [(0, 0), (1, 0), (2, 7), (3, 0)]},
        ),
        "no collective at all": (
            [grouped("1"), [compute(0)]],
            _BOTH,
            {C.COLLECTIVES_MISSING: [(0, 0)], C.DEADLOCK: [(0, 0)]},
        ),
        "a second message without a receive": (
            [[send(0, to=1), send(1, 0, to=1)], [receive(0, source=0)]],
            None,
            {C.SEND_WITHOUT_RECEIVE: [(0, 1)]},
        ),
        "a peer without a file": ([[send(0, to=5)]], None, {C.PEER_ABSENT: [(0, 0)]}),
        "groups in another order": (
            [grouped("1", "2"), grouped("2", "1")],
            _BOTH,
            {C.DEADLOCK: [(0, 0), (1, 0)]},
        ),
        "a circle of three ranks": (
            [grouped("1", "3"), grouped("2", "1"), grouped("3", "2")],
            _RING,
            {C.DEADLOCK: [(0, 0), (1, 0), (2, 0)]},
        ),
        "an order of groups that works": (
            [grouped("1", "3"), grouped("1", "2"), grouped("2", "3")],
            _RING,
            {},
        ),
        "receives before the sends that they wait for": (
            [[receive(0, source=1), send(1, 0, to=1)], [receive(0, source=0), send(1, 0, to=0)]],
            None,
            {C.DEADLOCK: None},
        ),
        # A receive needs no lane, and a send does not wait for it.
        "receives and sends at once": (
            [[receive(0, source=1), send(1, to=1)], [receive(0, source=0), send(1, to=0)]],
            None,
            {},
        ),
        "sends before receives: only where sends wait for their receive": (
            [[send(0, to=1), receive(1, 0, source=1)], [send(0, to=0), receive(1, 0, source=0)]],
            None,
            {C.RENDEZVOUS: [(0, 0), (1, 0)]},
        ),
        "one of two receives first": (
            [[send(0, to=1), receive(1, 0, source=1)], [receive(0, source=0), send(1, 0, to=0)]],
            None,
            {},
        ),
        "a send that has the lane, before a collective": (
            [[send(0, to=1), collective(1, 0)], [collective(0), receive(1, 0, source=0)]],
            None,
            {C.RENDEZVOUS: [(0, 0), (1, 0)]},
        ),
        # One communication lane: the send is ready, but the collective with a smaller id has the lane.
        "a send behind a collective in the lane": (
            [[collective(0), send(1, to=1)], [receive(0, source=0), collective(1, 0)]],
            None,
            {C.DEADLOCK: None},
        ),
        "a send before it": (
            [[send(0, to=1), collective(1)], [receive(0, source=0), collective(1, 0)]],
            None,
            {},
        ),
    },
)
def test_what_is_found_across_ranks(
    ranks: list[Nodes],
    groups: Mapping[str, Sequence[int]] | None,
    expected: dict[LintCode, list[tuple[int, int]] | None],
) -> None:
    check = checked(*ranks, groups=groups)
    assert codes(check) == set(expected)
    assert all(str(finding) for finding in check.findings)
    for code, located in expected.items():
        found = [node for finding in check.findings if finding.code is code for node in nodes_of(finding)]
        assert located is None or found == located


def test_findings_have_details() -> None:
    absent = checked([compute(0)], groups={"1": [0, 7, 7]})
    found = only(absent, C.GROUP_RANK_ABSENT)
    assert (found.path, found.details["absent"]) == ("groups.json", "7")
    assert only(checked([compute(0)], groups={"1": [0, 0]}), C.GROUP_RANK_TWICE).details["rank"] == 0
    sizes = only(checked([collective(3, size=8)], [collective(4, size=16)]), C.SIZES_DIFFER)
    assert (sizes.details["first"], sizes.details["other"]) == (8, 16)
    deadlock = only(checked(grouped("1", "2"), grouped("2", "1"), groups=_BOTH), C.DEADLOCK)
    assert (deadlock.details["nodes"], deadlock.details["ranks"]) == (4, 2)
    first = [collective(0), collective(1, 0), collective(2, 1, comm_type="ALL_GATHER")]
    other = [collective(0), collective(5, 0, comm_type="ALL_GATHER"), collective(6, 5)]
    differ = only(checked(first, first, other), C.COLLECTIVES_DIFFER)
    assert nodes_of(differ) == [(0, 1), (2, 5)]
    assert (differ.details["position"], differ.count) == (1, 2)


def test_every_code_has_a_rule() -> None:
    assert set(LINT_RULES) == set(LintCode)
    assert all(rule.advice and rule.meaning.endswith(".") for rule in LINT_RULES.values())


@pytest.mark.parametrize(
    ("nodes", "code", "located"),
    [
        ([], C.NO_NODES, []),
        ([compute(0), compute(0)], C.ID_DUPLICATE, [(0, 0)]),
        ([compute(0), compute(-4)], C.ID_NEGATIVE, [(0, -4)]),
        ([compute(0), compute(3, 0, 9)], C.DEPENDENCY_DANGLING, [(0, 3)]),
        ([compute(0), compute(3, 3)], C.DEPENDENCY_SELF, [(0, 3)]),
        ([compute(0), compute(1, type="INVALID_NODE")], C.TYPE_UNKNOWN, [(0, 1)]),
        ([compute(0), compute(1, type="99")], C.TYPE_UNKNOWN, [(0, 1)]),
        ([compute(0), compute(1, us=-5)], C.DURATION_NEGATIVE, [(0, 1)]),
        ([compute(5, 5)], C.NO_START_NODE, []),
        ([collective(0, is_cpu_op=True)], C.COMMUNICATION_ON_HOST, [(0, 0)]),
        ([collective(0, comm_type=None)], C.COLLECTIVE_TYPE_MISSING, [(0, 0)]),
        ([collective(0, comm_type="SHOUT")], C.COLLECTIVE_TYPE_UNKNOWN, [(0, 0)]),
        ([collective(0, size=None)], C.SIZE_MISSING, [(0, 0)]),
        ([collective(0, size=-1)], C.SIZE_NEGATIVE, [(0, 0)]),
        ([collective(0, group="default_pg")], C.GROUP_NOT_A_NUMBER, [(0, 0)]),
        ([collective(0, group="140733193388032")], C.GROUP_NOT_A_NUMBER, [(0, 0)]),
        ([collective(0, group="-1")], C.GROUP_NOT_A_NUMBER, [(0, 0)]),
        ([send(0, to=None)], C.PEER_MISSING, [(0, 0)]),
        ([receive(0, source=None)], C.PEER_MISSING, [(0, 0)]),
        ([send(0, to=0)], C.PEER_IS_SELF, [(0, 0)]),
        ([{**send(0, to=1), "comm_src": 3}], C.ISSUED_FOR_ANOTHER, [(0, 0)]),
        ([compute(0), compute(1, us=0, num_ops=10**9, tensor_size=10**6)], C.DURATION_MISSING, [(0, 1)]),
        ([collective(4, attributes=_U64), collective(5, 4)], C.ATTRIBUTE_TYPE, [(0, 4)]),
        ([collective(0, attributes='{"pg_name": 3}')], C.ATTRIBUTE_TYPE, [(0, 0)]),
    ],
)
def test_a_fault_of_one_rank_is_found_and_located(
    nodes: Nodes, code: LintCode, located: list[tuple[int, int]]
) -> None:
    facts = rank_facts(rank_of(0, nodes), "a.0.et")
    (found,) = [finding for finding in facts.findings if finding.code is code]
    assert nodes_of(found) == located
    assert found.path == "a.0.et"
    assert str(found)
    assert found.advice


@cases(
    "nodes",
    {
        "a type whose 0 is the same": [
            send(0, to=1, tag=0) | {"attributes": '{"comm_tag":{"type":"int64_val"}}'}
        ],
        "an all-reduce, whose code is 0": [collective(0, attributes='{"comm_type":{"type":"int32_val"}}')],
        "the usual type with documentation": [
            collective(0, attributes='{"comm_size":{"type":"int64_val","doc_string":"bytes"}}')
        ],
        "another attribute": [collective(0, attributes='{"size":{"type":"uint64_val"}}')],
        "times of nanoseconds": [compute(0, us=0, duration_ns=0, num_ops=10**9)],
        "the host": [compute(0, us=0, num_ops=10**9, is_cpu_op=True)],
    },
)
def test_what_a_feeder_reads_rightly_is_no_fault(nodes: Nodes) -> None:
    assert rank_facts(rank_of(0, nodes), "a.0.et").findings == ()


def test_the_types_of_an_attribute_are_named() -> None:
    found = only(checked([collective(0, attributes=_U64)]), C.ATTRIBUTE_TYPE)
    assert found.details == {"attribute": "comm_size", "type": "uint64_val", "expected": "int64_val"}


def test_what_concerns_eight_ranks_is_printed_once() -> None:
    twice = [collective(0, attributes=_U64), collective(1, 0, size=-1), collective(2, 1, size=-2)]
    check = checked(*[twice] * 8)
    assert len(check.findings) == 8 * 3
    lines = lint_lines(check)
    assert len(lines) == 3
    assert all("ranks 1-7" in line for line in lines)
    assert chakra_verdict(check).endswith("2 errors; 1 warning")
    apart = checked(*[[compute(0, us=-us)] for us in (1, 2)])
    (line,) = lint_lines(apart)
    assert "--json" in line


@pytest.mark.parametrize("first", ["".join(order) for order in permutations("SsR")])
def test_a_check_says_which_sends_hang_in_a_run(first: str) -> None:
    """Two ranks exchange three messages, each rank in any order."""
    for second in permutations("RrS"):
        ranks = exchanged(first, peer=1), exchanged(second, peer=0)
        found = {finding.code: finding for finding in checked(*ranks).findings}
        assert (C.DEADLOCK in found) != run_of(*ranks, rendezvous_bytes=None).is_finished
        if C.DEADLOCK not in found:
            assert (C.RENDEZVOUS in found) != run_of(*ranks, rendezvous_bytes=0).is_finished
        if C.RENDEZVOUS in found:
            size = found[C.RENDEZVOUS].details["size"]
            assert isinstance(size, int)
            assert not run_of(*ranks, rendezvous_bytes=size).is_finished
            assert run_of(*ranks, rendezvous_bytes=size + 1).is_finished


def exchanged(order: Sequence[str], peer: int) -> Nodes:
    """Sends (S) and receives (R) one after another; those of small letters are of another size."""
    size = {"S": 64, "R": 64, "s": 128, "r": 128}
    return [
        send(at, *range(at)[-1:], to=peer, size=size[letter])
        if letter in "Ss"
        else receive(at, *range(at)[-1:], source=peer, size=size[letter])
        for at, letter in enumerate(order)
    ]


def run_of(*ranks: Nodes, rendezvous_bytes: int | None) -> ChakraRun:
    made = [(f"job.{number}.et", rank_of(number, nodes)) for number, nodes in enumerate(ranks)]
    ring = network_of_text("ring")
    return run_ranks(made, RunGroups("", {}), [ring], CollectiveSettings(), Lanes.ASTRA_SIM, rendezvous_bytes)


def test_a_circle_is_named_node_by_node_and_what_waits_for_it_is_counted() -> None:
    nodes = [compute(0), compute(1, 0, 3), compute(2, 1), compute(3, 2), compute(4, 3), compute(5, 0)]
    found = only(checked(nodes), LintCode.DEPENDENCY_CYCLE)
    assert sorted(nodes_of(found)) == [(0, 1), (0, 2), (0, 3)]
    assert found.details["nodes"] == 4


def test_control_dependencies_count_as_those_of_data() -> None:
    facts = rank_facts(rank_of(0, [compute(0, 1), compute(1, 0)], ctrl=True), "a.0.et")
    assert LintCode.DEPENDENCY_CYCLE in {finding.code for finding in facts.findings}


# --- across ranks -------------------------------------------------------------------------------------
def test_ranks_with_a_gap_are_found() -> None:
    facts = [rank_facts(rank_of(number, _STEP), "x") for number in (0, 2)]
    found = only(check_job(JobFacts("job", facts, [0, 2])), LintCode.RANKS_MISSING)
    assert found.details["missing"] == "1"


@pytest.mark.parametrize("changed", [{"size": 65}, {"tag": 1}, {"to": 2}])
def test_both_ends_of_a_message_have_to_agree(changed: Mapping[str, int]) -> None:
    sent = send(0, **{"to": 1, "size": 64, "tag": 0, **changed})
    check = checked([sent], [receive(3, source=0)], [compute(0)])
    assert codes(check) == {LintCode.SEND_WITHOUT_RECEIVE, LintCode.RECEIVE_WITHOUT_SEND, LintCode.DEADLOCK}
    assert nodes_of(only(check, LintCode.DEADLOCK)) == [(1, 3)]


def test_what_is_ready_is_issued_while_something_before_it_waits_for_a_message() -> None:
    first = [receive(0, source=1), collective(1, 0, group="1"), collective(2, group="2")]
    other = [collective(0, group="2"), send(1, 0, to=0), collective(2, 1, group="1")]
    assert LintCode.DEADLOCK not in codes(checked(first, other, groups=_BOTH))


def test_an_order_that_only_time_makes_is_warned_of() -> None:
    nodes = [compute(0, us=5), collective(1, 0, group="1"), compute(2, us=3), collective(3, 2, group="2")]
    check = checked(nodes, nodes, groups=_BOTH)
    assert codes(check) == {LintCode.ORDER_BY_TIME}
    assert nodes_of(check.findings[0]) == [(0, 3), (0, 1)]
    assert check.runs


def test_times_decide_what_is_issued_first() -> None:
    def nodes(first_us: int) -> Nodes:
        return [
            compute(0, us=first_us),
            collective(1, 0, group="1"),
            compute(2, us=3),
            collective(3, 2, group="2"),
        ]

    assert LintCode.DEADLOCK in codes(checked(nodes(5), nodes(2), groups=_BOTH))


def test_work_between_collectives_hands_on_what_it_waits_for() -> None:
    """Two paths meet before the collective of group 2: it waits for both messages."""
    first = [
        receive(0, source=1, tag=1),
        receive(1, source=1, tag=2),
        compute(2, 0),
        compute(3, 1),
        compute(4, 2, 3),
        compute(5, 4, 0),
        send(6, 5, to=1, tag=3),
    ]
    works = [send(0, to=0, tag=1), send(1, to=0, tag=2), receive(2, source=0, tag=3)]
    hangs = [send(0, to=0, tag=1), receive(2, source=0, tag=3), send(3, 2, to=0, tag=2)]
    assert checked(first, works).findings == ()
    assert nodes_of(only(checked(first, hangs), LintCode.DEADLOCK)) == [(0, 1), (1, 2)]


# --- ASTRA-sim's own limits ---------------------------------------------------------------------------
_FOR_ASTRA_SIM: list[tuple[Nodes, LintCode]] = [
    ([collective(0, comm_type="REDUCE")], LintCode.ASTRA_COLLECTIVE),
    ([collective(0, comm_type="BARRIER", size=None)], LintCode.ASTRA_COLLECTIVE),
    ([collective(0, size=0)], LintCode.ASTRA_SIZE_ZERO),
    ([compute(0, type="METADATA_NODE")], LintCode.ASTRA_METADATA),
    ([compute(0, is_cpu_op=True)], LintCode.ASTRA_HOST_WORK),
]


@pytest.mark.parametrize(("nodes", "code"), _FOR_ASTRA_SIM)
def test_what_astra_sim_does_not_run_is_said_where_it_is_asked_for(nodes: Nodes, code: LintCode) -> None:
    assert checked(nodes, nodes).findings == ()
    check = checked(nodes, nodes, simulator=Simulator.ASTRA_SIM)
    assert codes(check) == {code}
    assert check.runs


def test_a_world_of_one_rank_and_a_message_without_tag_are_warned_of() -> None:
    assert codes(checked(_STEP, simulator=Simulator.ASTRA_SIM)) == {LintCode.ASTRA_SINGLE_RANK}
    pair = [send(0, to=1, tag=None)], [receive(0, source=0, tag=None)]
    assert codes(checked(*pair, simulator=Simulator.ASTRA_SIM)) == {LintCode.ASTRA_TAG_MISSING}


def test_broadcasts_of_astra_sim_meet_nobody() -> None:
    crossed = [grouped(*order, comm_type="BROADCAST") for order in ("12", "21")]
    assert codes(checked(*crossed, groups=_BOTH)) == {C.DEADLOCK}
    assert checked(*crossed, groups=_BOTH, simulator=Simulator.ASTRA_SIM).findings == ()


def test_the_group_without_a_name_after_groups_of_some_ranks_hangs_astra_sim() -> None:
    """So does ASTRA-sim with these files: all four ranks wait in their last node."""
    some = [collective(0, group="1"), collective(1, 0)]
    check = checked(some, some, [collective(4)], groups={"1": [0, 1]})
    assert check.findings == ()
    check = checked(some, some, [collective(4)], groups={"1": [0, 1]}, simulator=Simulator.ASTRA_SIM)
    assert codes(check) == {LintCode.ASTRA_WORLD_GROUP}
    assert nodes_of(check.findings[0]) == [(0, 1), (2, 4)]
    named = [collective(0, group="1"), collective(1, 0, group="2")], [collective(4, group="2")]
    groups = {"1": [0, 1], "2": [0, 1, 2]}
    assert checked(named[0], *named, groups=groups, simulator=Simulator.ASTRA_SIM).findings == ()


def test_a_finding_names_a_rank_and_a_node() -> None:
    assert str(RankNode(3, 17)) == "rank 3 node 17"
