"""Some steps of a rank's nodes: what lies before falls away, order between chosen steps stays."""

from __future__ import annotations

from tests.unit.exporters.chakra.node_lists import Listed, names_of_pairs, rank_of
from tracebraid.exporters.chakra.chosen_steps import OUTSIDE_STEPS, in_chosen_steps

NODES = [
    Listed("before"),
    Listed("host 1", "before", step="S#1"),
    Listed("kernel 1", "host 1", stream=7, step="S#1"),
    Listed("other 1", "host 1", stream=8, step="S#1"),
    Listed("host 2", "host 1", step="S#2"),
    Listed("kernel 2", "host 2, kernel 1", stream=7, step="S#2"),
    Listed("between", "host 2"),
    Listed("host 3", "between", step="S#3"),
    Listed("kernel 3", "host 3, kernel 2, other 1", stream=7, step="S#3"),
]


def test_a_step_has_its_nodes_and_what_they_wait_for_among_them() -> None:
    rank = in_chosen_steps(rank_of(NODES), ["S#2"])
    assert rank.nodes.get_column("name").to_list() == ["host 2", "kernel 2"]
    assert rank.nodes.get_column("node_id").to_list() == [0, 1]
    assert names_of_pairs(rank) == {("host 2", "kernel 2")}
    assert dict(rank.attributes) == {"steps": "S#2", OUTSIDE_STEPS: 2}
    assert len(rank.ctrl_deps.first) == 3


def test_steps_that_do_not_follow_each_other_stay_in_order() -> None:
    rank = in_chosen_steps(rank_of(NODES), ["S#1", "S#3"])
    assert names_of_pairs(rank) == {
        ("host 1", "kernel 1"),
        ("host 1", "other 1"),
        ("host 1", "host 3"),  # Over `host 2` and `between`.
        ("kernel 1", "kernel 3"),  # Over `kernel 2`.
        ("other 1", "kernel 3"),
        ("host 3", "kernel 3"),
    }


def test_a_step_that_is_not_there_has_no_nodes() -> None:
    rank = in_chosen_steps(rank_of(NODES), ["S#9"])
    assert (rank.nodes.height, len(rank.data_deps), dict(rank.attributes)[OUTSIDE_STEPS]) == (0, 0, 0)
