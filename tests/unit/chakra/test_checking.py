"""What is found in `.et` files that a simulator cannot run, and what is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.chakra_ranks import collective, compute, rank_of, receive, send
from tracebraid.chakra.checking.check_job import JobFacts, check_job
from tracebraid.chakra.checking.rank_facts import rank_facts
from tracebraid.model.chakra.lint import ChakraCheck, LintFinding, RankNode
from tracebraid.model.chakra.lint_code import LintCode, Simulator
from tracebraid.model.chakra.lint_rules import LINT_RULES

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


_STEP = [compute(0, us=100), collective(1, 0), compute(2, 1, us=50)]


def test_equal_ranks_have_nothing_wrong() -> None:
    check = checked(_STEP, _STEP, _STEP, _STEP, simulator=Simulator.ASTRA_SIM)
    assert check.findings == ()
    assert check.runs
    assert [(rank.nodes, rank.dependencies, rank.collectives) for rank in check.ranks] == [(3, 2, 1)] * 4


def test_a_job_without_communication_has_nothing_wrong() -> None:
    assert checked([compute(0), compute(1, 0)], [compute(7)]).findings == ()


def test_every_code_has_a_rule() -> None:
    assert set(LINT_RULES) == set(LintCode)
    assert all(rule.advice and rule.meaning.endswith(".") for rule in LINT_RULES.values())


# --- one rank -----------------------------------------------------------------------------------------

_ALONE: list[tuple[Nodes, LintCode, list[tuple[int, int]]]] = [
    ([], LintCode.NO_NODES, []),
    ([compute(0), compute(0)], LintCode.ID_DUPLICATE, [(0, 0)]),
    ([compute(0), compute(-4)], LintCode.ID_NEGATIVE, [(0, -4)]),
    ([compute(0), compute(3, 0, 9)], LintCode.DEPENDENCY_DANGLING, [(0, 3)]),
    ([compute(0), compute(3, 3)], LintCode.DEPENDENCY_SELF, [(0, 3)]),
    ([compute(0), compute(1, type="INVALID_NODE")], LintCode.TYPE_UNKNOWN, [(0, 1)]),
    ([compute(0), compute(1, type="99")], LintCode.TYPE_UNKNOWN, [(0, 1)]),
    ([compute(0), compute(1, us=-5)], LintCode.DURATION_NEGATIVE, [(0, 1)]),
    ([compute(5, 5)], LintCode.NO_START_NODE, []),
    ([collective(0, is_cpu_op=True)], LintCode.COMMUNICATION_ON_HOST, [(0, 0)]),
    ([collective(0, comm_type=None)], LintCode.COLLECTIVE_TYPE_MISSING, [(0, 0)]),
    ([collective(0, comm_type="SHOUT")], LintCode.COLLECTIVE_TYPE_UNKNOWN, [(0, 0)]),
    ([collective(0, size=None)], LintCode.SIZE_MISSING, [(0, 0)]),
    ([collective(0, size=-1)], LintCode.SIZE_NEGATIVE, [(0, 0)]),
    ([collective(0, group="default_pg")], LintCode.GROUP_NOT_A_NUMBER, [(0, 0)]),
    ([collective(0, group="140733193388032")], LintCode.GROUP_NOT_A_NUMBER, [(0, 0)]),
    ([collective(0, group="-1")], LintCode.GROUP_NOT_A_NUMBER, [(0, 0)]),
    ([send(0, to=None)], LintCode.PEER_MISSING, [(0, 0)]),
    ([receive(0, source=None)], LintCode.PEER_MISSING, [(0, 0)]),
    ([send(0, to=0)], LintCode.PEER_IS_SELF, [(0, 0)]),
    ([{**send(0, to=1), "comm_src": 3}], LintCode.ISSUED_FOR_ANOTHER, [(0, 0)]),
]


@pytest.mark.parametrize(("nodes", "code", "located"), _ALONE)
def test_a_fault_of_one_rank_is_found_and_located(
    nodes: Nodes, code: LintCode, located: list[tuple[int, int]]
) -> None:
    facts = rank_facts(rank_of(0, nodes), "a.0.et")
    (found,) = [finding for finding in facts.findings if finding.code is code]
    assert nodes_of(found) == located
    assert found.path == "a.0.et"
    assert str(found)
    assert found.advice


def test_a_circle_is_named_node_by_node_and_what_waits_for_it_is_counted() -> None:
    nodes = [compute(0), compute(1, 0, 3), compute(2, 1), compute(3, 2), compute(4, 3), compute(5, 0)]
    found = only(checked(nodes), LintCode.DEPENDENCY_CYCLE)
    assert sorted(nodes_of(found)) == [(0, 1), (0, 2), (0, 3)]
    assert found.details["nodes"] == 4


def test_control_dependencies_count_as_those_of_data() -> None:
    facts = rank_facts(rank_of(0, [compute(0, 1), compute(1, 0)], ctrl=True), "a.0.et")
    assert LintCode.DEPENDENCY_CYCLE in {finding.code for finding in facts.findings}


def test_a_barrier_needs_no_size() -> None:
    nodes = [collective(0, comm_type="BARRIER", size=None)]
    assert checked(nodes, nodes).findings == ()


# --- groups -------------------------------------------------------------------------------------------


def test_a_group_that_no_file_has_is_found_on_each_rank() -> None:
    check = checked([collective(0, group="3")], [collective(4, group="3")], groups=_BOTH)
    found = [finding for finding in check.findings if finding.code is LintCode.GROUP_UNKNOWN]
    assert [nodes_of(finding) for finding in found] == [[(0, 0)], [(1, 4)]]


def test_no_name_and_zero_are_the_same_group_of_all_ranks() -> None:
    assert checked([collective(0, group="0")], [collective(0)], [collective(0, group="")]).findings == ()


def test_without_a_file_the_users_of_a_group_are_its_members() -> None:
    used = [collective(0, group="1")]
    assert codes(checked(used, used, [compute(0)])) == {LintCode.GROUPS_NOT_GIVEN}


def test_a_group_of_ranks_that_are_not_there_is_found() -> None:
    found = only(checked([compute(0)], groups={"1": [0, 7, 7]}), LintCode.GROUP_RANK_ABSENT)
    assert (found.path, found.details["absent"]) == ("groups.json", "7")
    assert only(checked([compute(0)], groups={"1": [0, 0]}), LintCode.GROUP_RANK_TWICE).details["rank"] == 0


def test_a_rank_that_communicates_in_a_group_of_others_is_found() -> None:
    own = [collective(0, group="1")]
    check = checked(own, own, [collective(8, group="1")], groups={"1": [0, 1]})
    assert nodes_of(only(check, LintCode.NOT_IN_GROUP)) == [(2, 8)]


def test_a_group_in_the_file_without_ranks_is_that_of_all() -> None:
    own = [collective(0, group="1")]
    assert checked(own, own, groups={"1": []}).findings == ()


# --- across ranks -------------------------------------------------------------------------------------


def test_ranks_with_a_gap_are_found() -> None:
    facts = [rank_facts(rank_of(number, _STEP), "x") for number in (0, 2)]
    found = only(check_job(JobFacts("job", facts, [0, 2])), LintCode.RANKS_MISSING)
    assert found.details["missing"] == "1"


def test_collectives_of_other_types_are_located_on_both_ranks() -> None:
    first = [collective(0), collective(1, 0), collective(2, 1, comm_type="ALL_GATHER")]
    other = [collective(0), collective(5, 0, comm_type="ALL_GATHER"), collective(6, 5)]
    found = only(checked(first, first, other), LintCode.COLLECTIVES_DIFFER)
    assert nodes_of(found) == [(0, 1), (2, 5)]
    assert (found.details["position"], found.count) == (1, 2)


def test_collectives_of_other_sizes_are_located_on_both_ranks() -> None:
    found = only(checked([collective(3, size=8)], [collective(4, size=16)]), LintCode.SIZES_DIFFER)
    assert nodes_of(found) == [(0, 3), (1, 4)]
    assert (found.details["first"], found.details["other"]) == (8, 16)


def test_a_collective_that_a_rank_lacks_is_found_and_hangs() -> None:
    check = checked([collective(0), collective(1, 0)], [collective(0)])
    assert codes(check) == {LintCode.COLLECTIVES_MISSING, LintCode.DEADLOCK}
    assert nodes_of(only(check, LintCode.COLLECTIVES_MISSING)) == [(0, 1)]
    assert nodes_of(only(check, LintCode.DEADLOCK)) == [(0, 1)]


def test_a_member_that_issues_nothing_is_waited_for() -> None:
    check = checked([collective(0, group="1")], [compute(0)], groups=_BOTH)
    assert codes(check) == {LintCode.COLLECTIVES_MISSING, LintCode.DEADLOCK}


@pytest.mark.parametrize("changed", [{"size": 65}, {"tag": 1}, {"to": 2}])
def test_both_ends_of_a_message_have_to_agree(changed: Mapping[str, int]) -> None:
    sent = send(0, **{"to": 1, "size": 64, "tag": 0, **changed})
    check = checked([sent], [receive(3, source=0)], [compute(0)])
    assert codes(check) == {LintCode.SEND_WITHOUT_RECEIVE, LintCode.RECEIVE_WITHOUT_SEND, LintCode.DEADLOCK}
    assert nodes_of(only(check, LintCode.DEADLOCK)) == [(1, 3)]


def test_a_second_message_with_the_same_tag_needs_a_second_receive() -> None:
    check = checked([send(0, to=1), send(1, 0, to=1)], [receive(0, source=0)])
    assert codes(check) == {LintCode.SEND_WITHOUT_RECEIVE}
    assert nodes_of(only(check, LintCode.SEND_WITHOUT_RECEIVE)) == [(0, 1)]


def test_a_peer_without_a_file_is_found() -> None:
    assert codes(checked([send(0, to=5)])) == {LintCode.PEER_ABSENT}


# --- deadlocks ----------------------------------------------------------------------------------------


def test_groups_in_another_order_are_a_deadlock_that_names_who_waits_for_whom() -> None:
    first = [collective(0, group="1"), collective(1, 0, group="2")]
    other = [collective(0, group="2"), collective(1, 0, group="1")]
    check = checked(first, other, groups=_BOTH)
    assert codes(check) == {LintCode.DEADLOCK}
    found = only(check, LintCode.DEADLOCK)
    assert nodes_of(found) == [(0, 0), (1, 0)]
    assert (found.details["nodes"], found.details["ranks"]) == (4, 2)


def test_a_circle_of_three_ranks_is_named_as_such() -> None:
    groups = {"1": [0, 1], "2": [1, 2], "3": [2, 0]}
    ranks = [
        [collective(0, group=mine), collective(1, 0, group=other)]
        for mine, other in (("1", "3"), ("2", "1"), ("3", "2"))
    ]
    assert nodes_of(only(checked(*ranks, groups=groups), LintCode.DEADLOCK)) == [(0, 0), (1, 0), (2, 0)]


def test_the_same_groups_in_an_order_that_works_are_none() -> None:
    groups = {"1": [0, 1], "2": [1, 2], "3": [2, 0]}
    ranks = [
        [collective(0, group=mine), collective(1, 0, group=other)]
        for mine, other in (("1", "3"), ("1", "2"), ("2", "3"))
    ]
    assert checked(*ranks, groups=groups).findings == ()


def test_receives_before_the_sends_that_they_wait_for_are_a_deadlock() -> None:
    crossed = [[receive(0, source=1), send(1, 0, to=1)], [receive(0, source=0), send(1, 0, to=0)]]
    assert codes(checked(*crossed)) == {LintCode.DEADLOCK}


def test_receives_and_sends_at_once_are_none() -> None:
    """A receive needs no lane, and a send does not wait for it."""
    assert (
        checked([receive(0, source=1), send(1, to=1)], [receive(0, source=0), send(1, to=0)]).findings == ()
    )
    assert (
        checked([send(0, to=1), receive(1, 0, source=1)], [send(0, to=0), receive(1, 0, source=0)]).findings
        == ()
    )


def test_a_collective_in_the_lane_holds_up_a_send_behind_it() -> None:
    """One communication lane: rank 0's send is ready, but the collective with a smaller id has the lane."""
    first = [collective(0), send(1, to=1)]
    other = [receive(0, source=0), collective(1, 0)]
    assert codes(checked(first, other)) == {LintCode.DEADLOCK}
    assert checked([send(0, to=1), collective(1)], other).findings == ()


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
    first = [
        collective(0, group="1", comm_type="BROADCAST"),
        collective(1, 0, group="2", comm_type="BROADCAST"),
    ]
    other = [
        collective(0, group="2", comm_type="BROADCAST"),
        collective(1, 0, group="1", comm_type="BROADCAST"),
    ]
    assert codes(checked(first, other, groups=_BOTH)) == {LintCode.DEADLOCK}
    assert checked(first, other, groups=_BOTH, simulator=Simulator.ASTRA_SIM).findings == ()


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
