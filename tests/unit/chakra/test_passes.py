"""What is done with nodes on their way to a file: costs, chosen steps, reduction, rounding, repetition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.chakra_nodes import communication_of
from tests.planted import Scene, device_scene, host_scene
from tests.planted.chakra_lists import Listed, names_of_pairs, rank_of
from tracebraid.analysis.efficiency.counted_ops import costs_of_ops
from tracebraid.chakra import ChakraRank, Detail
from tracebraid.chakra.exporting import reduction
from tracebraid.chakra.exporting.rank_nodes import rank_nodes, with_costs
from tracebraid.chakra.exporting.reduction import (
    OUTSIDE_STEPS,
    Reduction,
    beginning_of_steps,
    begun,
    in_chosen_steps,
    reduced,
    repeated,
)
from tracebraid.chakra.exporting.tasks import rounded_micros
from tracebraid.errors import ArgumentError
from tracebraid.graph.rank_graph import rank_graph

DIMS = [[200, 300], [300, 400]]
FLOPS, BYTES = 2 * 200 * 300 * 400, 4 * (200 * 300 + 300 * 400 + 200 * 400)


def scene_of_products() -> Scene:
    """A product in two kernels, one of which takes three times as long as the other; a kernel without shapes."""
    scene, host, stream = device_scene()
    with host.op("aten::mm", dims=DIMS, types=["float", "float"]):
        host.launch(stream, "gemm", 30_000)
        host.launch(stream, "splitk", 10_000)
    with host.op("aten::unheard_of"):
        host.launch(stream, "other", 5_000)
    return scene


@pytest.mark.parametrize("detail", list(Detail))
def test_the_kernels_of_an_op_share_its_costs_by_their_time(detail: Detail) -> None:
    linked = scene_of_products().linked()
    graph = rank_graph(linked)
    nodes = rank_nodes(graph, communication_of(graph), detail).nodes
    found = with_costs(nodes, graph, costs_of_ops(linked))
    assert found.schema == nodes.schema
    known = found.filter(pl.col("num_ops").is_not_null()).select(
        pl.col("name").cast(pl.String), "num_ops", "tensor_size"
    )
    assert known.rows() == [("gemm", FLOPS * 3 // 4, BYTES * 3 // 4), ("splitk", FLOPS // 4, BYTES // 4)]


def test_work_on_the_host_has_costs_where_nothing_was_launched() -> None:
    scene, host = host_scene()
    with host.op("aten::mm", dims=DIMS, types=["float", "float"]):
        host.spend(1_000)
        with host.op("aten::resolve_conj"):
            host.spend(500)
        host.spend(1_000)
    linked = scene.linked()
    graph = rank_graph(linked)
    nodes = rank_nodes(graph, communication_of(graph), Detail.FULL).nodes
    found = with_costs(nodes, graph, costs_of_ops(linked))
    assert found.select(pl.col("num_ops", "tensor_size").sum()).row(0) == (FLOPS, BYTES)


def test_without_shapes_nothing_is_known() -> None:
    scene, host = host_scene()
    with host.op("aten::mm"):
        host.spend(1_000)
    linked = scene.linked()
    graph = rank_graph(linked)
    nodes = rank_nodes(graph, communication_of(graph)).nodes
    assert with_costs(nodes, graph, costs_of_ops(linked)).equals(nodes)


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
    rank = in_chosen_steps(rank_of(NODES), ["S#1", "S#3"], ["S#2"])
    assert names_of_pairs(rank) == {
        ("host 1", "kernel 1"),
        ("host 1", "other 1"),
        ("host 1", "host 3"),  # Over `host 2` and `between`.
        ("kernel 1", "kernel 3"),  # Over `kernel 2`.
        ("other 1", "kernel 3"),
        ("host 3", "kernel 3"),
    }


def test_steps_that_follow_each_other_keep_what_lies_between_them() -> None:
    rank = in_chosen_steps(rank_of(NODES), ["S#2", "S#3"])
    assert names_of_pairs(rank) == {
        ("host 2", "kernel 2"),
        ("host 2", "between"),
        ("between", "host 3"),
        ("kernel 2", "kernel 3"),
        ("host 3", "kernel 3"),
    }


def test_work_of_a_later_step_between_nodes_of_a_step_is_a_delay() -> None:
    """On the one lane of a rank the host's next step comes between kernels; a step that is left out does not."""
    rank = rank_of(
        [
            Listed("a", step="S#1"),
            Listed("b", "a", step="S#2"),
            Listed("c", "b", step="S#1"),
            Listed("d", "c"),
        ]
    )
    for left_out, names in (((), ["a", "delay", "c"]), (["S#2"], ["a", "c"])):
        found = in_chosen_steps(rank, ["S#1"], left_out)
        assert found.nodes.get_column("name").to_list() == names
        assert found.data_deps.rows().tolist() == list(range(1, len(names)))
        assert found.nodes.get_column("duration_ns").to_list() == [10_000] * len(names)
        assert found.nodes.get_column("step").drop_nulls().to_list() == ["S#1"] * 2


BEGUN = [
    Listed("early", stream=7, step="S#1"),
    Listed("goes on", step="S#1"),
    Listed("long ago", stream=8, step="S#1"),
    Listed("host", step="S#2"),
    Listed("kernel", "host, early", stream=7, step="S#2"),
    Listed("other", "host, long ago", stream=8, step="S#2"),
    Listed("third", "kernel, goes on", stream=7, step="S#2"),
]
"""What step 2 waits for ends at 40, 60 and 15 us; it begins at 20, when `host` has run for 6."""
ENDS_NS = 1000 * np.array([40, 60, 15, 24, 50, 34, 70])


def test_what_goes_on_when_steps_begin_is_a_delay_on_the_lane_that_waits() -> None:
    whole = replace(rank_of(BEGUN), spans_ns=(ENDS_NS - 10_000, ENDS_NS))
    beginning = beginning_of_steps(whole, ["S#2"], 20_000)
    rank = begun(repeated(in_chosen_steps(whole, ["S#2"]), 2), beginning)
    assert rank.nodes.select("name", "stream", "duration_ns", "duration_micros").rows() == [
        *[("delay", 7, 20_000, 20)] * 2,
        ("host", None, 4_000, 4),
        *[("kernel", 7, 10_000, 10), ("other", 8, 10_000, 10), ("third", 7, 10_000, 10)],
        ("host", None, 10_000, 10),
        *[("kernel", 7, 10_000, 10), ("other", 8, 10_000, 10), ("third", 7, 10_000, 10)],
    ]
    assert rank.nodes.get_column("step").to_list() == ["S#2"] * 6 + ["S#2 (2)"] * 4
    deps = rank.data_deps
    first_time = deps.rows() < 6
    pairs = list(zip(deps.node_id[first_time].tolist(), deps.rows()[first_time].tolist(), strict=True))
    assert pairs == [(0, 1), (0, 3), (2, 3), (2, 4), (1, 5), (3, 5)]


def test_a_step_that_is_not_there_has_no_nodes() -> None:
    rank = in_chosen_steps(rank_of(NODES), ["S#9"])
    assert (rank.nodes.height, len(rank.data_deps), dict(rank.attributes)[OUTSIDE_STEPS]) == (0, 0, 0)


if TYPE_CHECKING:
    from collections.abc import Callable


Pairs = list[tuple[int, int]]


def ints(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def reduce(pairs: Pairs, lane: list[int]) -> Reduction:
    return reduced(ints([pair[0] for pair in pairs]), ints([pair[1] for pair in pairs]), ints(lane))


def pairs_of(found: Reduction) -> Pairs:
    return list(zip(found.before.tolist(), found.after.tolist(), strict=True))


def by_brute_force(pairs: Pairs, nodes: int) -> Pairs:
    """What remains where no other dependency of the same node has waited for it."""
    ancestors: list[set[int]] = []
    for row in range(nodes):
        own = {before for before, after in pairs if after == row}
        ancestors.append(own.union(*(ancestors[other] for other in own)))
    return sorted(
        (
            (before, after)
            for before, after in set(pairs)
            if not any(before in ancestors[other] for other, waits in pairs if waits == after)
        ),
        key=lambda pair: (pair[1], pair[0]),
    )


@st.composite
def graphs(draw: Callable[..., int]) -> tuple[Pairs, list[int]]:
    nodes = draw(st.integers(1, 30))
    lane = [draw(st.integers(0, 3)) for _ in range(nodes)]
    pairs = []
    for row in range(1, nodes):
        former = [other for other in range(row) if lane[other] == lane[row]]
        if former and draw(st.integers(0, 5)):
            pairs.append((former[-1], row))
        pairs += [(draw(st.integers(0, row - 1)), row) for _ in range(draw(st.integers(0, 4)))]
    return pairs, lane


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(graphs())
def test_it_is_the_one_reduction_of_the_graph(graph: tuple[Pairs, list[int]]) -> None:
    pairs, lane = graph
    found = reduce(pairs, lane)
    assert pairs_of(found) == by_brute_force(pairs, len(lane))
    assert (found.implied, found.untested) == (len(pairs) - len(found.before), 0)


@settings(max_examples=30, deadline=None)
@given(graphs(), st.integers(1, 3))
def test_it_is_the_same_in_several_passes(graph: tuple[Pairs, list[int]], at_once: int) -> None:
    pairs, lane = graph
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reduction, "_CLOCK_ENTRIES", at_once * len(lane))
        assert pairs_of(reduce(pairs, lane)) == by_brute_force(pairs, len(lane))


def test_a_graph_that_is_too_wide_keeps_what_was_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    # All of the first ten rows go into row 10; row 11 waits for all of these again.
    pairs = [(row, 10) for row in range(10)] + [(row, 11) for row in range(11)]
    assert pairs_of(reduce(pairs, [0] * 12)) == by_brute_force(pairs, 12)
    monkeypatch.setattr(reduction, "_CLOCK_ENTRIES", 12)
    monkeypatch.setattr(reduction, "_MOST_PASSES", 3)
    found = reduce(pairs, [0] * 12)
    assert found.implied < 10
    assert found.untested > 0
    assert set(by_brute_force(pairs, 12)) <= set(pairs_of(found)) <= set(pairs)


def test_threads_and_streams_share_few_entries() -> None:
    """A call launches a kernel that waits for the stream as well; the host waits for each hundredth."""
    calls, kernels = np.arange(0, 20_000, 2), np.arange(1, 20_000, 2)
    before = np.r_[calls[:-1], calls, kernels[:-1], kernels[::100][:-1]]
    after = np.r_[calls[1:], kernels, kernels[1:], calls[1::100][: len(kernels[::100]) - 1]]
    lane = np.arange(20_000) % 2
    order = np.lexsort((-before, after))
    first = np.searchsorted(after[order], np.arange(20_001))
    assert len(np.unique(reduction._chains(first, before[order], lane))) == 2
    assert reduced(before, after, lane).untested == 0


def test_no_node_has_no_dependency() -> None:
    assert len(reduce([], []).before) == 0
    assert pairs_of(reduce([(0, 1), (0, 1)], [0, 0])) == [(0, 1)]


def ints_of(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10**12) | st.integers(0, 1_500)), max_size=60))
def test_sums_along_each_lane_stay_within_half_a_microsecond(nodes: list[tuple[int, int]]) -> None:
    lane, duration_ns = ints_of(*(node[0] for node in nodes)), ints_of(*(node[1] for node in nodes))
    micros = rounded_micros(duration_ns, lane)
    assert micros.dtype == np.int64
    assert np.all(micros >= 0)
    for number in range(4):
        on_lane = lane == number
        assert np.all(np.abs(np.cumsum(micros[on_lane]) * 1_000 - np.cumsum(duration_ns[on_lane])) <= 500)


def test_short_kernels_do_not_vanish() -> None:
    assert rounded_micros(np.full(1_000, 300), np.zeros(1_000, dtype=np.int64)).sum() == 300


def test_kernels_and_delays_of_a_chain_are_both_right() -> None:
    duration_ns, lane = np.tile(ints_of(400, 600), 500), np.tile(ints_of(0, 1), 500)
    micros = rounded_micros(duration_ns, lane)
    assert (micros[lane == 0].sum(), micros[lane == 1].sum()) == (200, 300)
    assert np.all(np.abs(np.cumsum(micros) * 1_000 - np.cumsum(duration_ns)) <= 1_000)


def test_no_node_has_no_duration() -> None:
    assert len(rounded_micros(ints_of(), ints_of())) == 0


REPEATED = [
    Listed("host", step="S#1"),
    Listed("first", "host", stream=7, step="S#1"),
    Listed("second", "first", stream=7, step="S#1"),
    Listed("other", "host", stream=8, step="S#1"),
    Listed("send", "second", kind="COMM_SEND_NODE", tag=3),
    Listed("receive", "second", kind="COMM_RECV_NODE", tag=4),
]


def with_times(rank: ChakraRank, count: int) -> ChakraRank:
    """Names that say the time: `host 0`, `host 1`, ..."""
    names = [f"{name} {row // count}" for row, name in enumerate(rank.nodes.get_column("name").to_list())]
    return replace(rank, nodes=rank.nodes.with_columns(pl.Series("name", names)))


def test_each_lane_begins_again_behind_what_it_did_before() -> None:
    rank = repeated(rank_of(REPEATED), 3)
    pairs = names_of_pairs(with_times(rank, len(REPEATED)))
    own = {
        ("host", "first"),
        ("first", "second"),
        ("host", "other"),
        ("second", "send"),
        ("second", "receive"),
    }
    again = {
        ("host", "host"),
        ("second", "first"),
        ("other", "other"),
        *((before, after) for before in ("send", "receive") for after in ("send", "receive")),
    }
    expected = {(f"{before} {time}", f"{after} {time}") for before, after in own for time in range(3)}
    expected |= {(f"{before} {time}", f"{after} {time + 1}") for before, after in again for time in range(2)}
    assert pairs == expected


def test_steps_tags_and_starts_are_told_apart() -> None:
    rank = repeated(rank_of(REPEATED), 2)
    nodes = rank.nodes
    assert nodes.get_column("node_id").to_list() == list(range(12))
    assert nodes.get_column("step").drop_nulls().unique(maintain_order=True).to_list() == ["S#1", "S#1 (2)"]
    assert nodes.get_column("comm_tag").drop_nulls().to_list() == [6, 8, 7, 9]
    assert nodes.get_column("start_time_micros").to_list() == [10 * row for row in range(12)]
    assert dict(rank.attributes) == {"repeat": 2}
    assert nodes.schema == rank_of(REPEATED).nodes.schema


def test_it_is_the_same_however_often() -> None:
    long, short = repeated(rank_of(REPEATED), 5), repeated(rank_of(REPEATED), 4)
    assert long.nodes.height == 5 * len(REPEATED)
    end = int(short.data_deps.first[-1])
    assert np.array_equal(long.data_deps.node_id[:end], short.data_deps.node_id)


def test_once_is_what_was_given() -> None:
    rank = rank_of(REPEATED)
    assert repeated(rank, 1) is rank


def test_no_time_and_too_many_tags_are_refused() -> None:
    with pytest.raises(ArgumentError, match="give 1 or more"):
        repeated(rank_of(REPEATED), 0)
    with pytest.raises(ArgumentError, match="repeat it less often"):
        repeated(rank_of([Listed("send", kind="COMM_SEND_NODE", tag=2**30)]), 2)
