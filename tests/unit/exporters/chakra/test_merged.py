"""A rank as one compute lane: overlapping work counts once, waits for communication stay waits, order holds."""

from __future__ import annotations

import polars as pl

from tests.chakra_lanes import check_lane, without_lanes
from tests.chakra_nodes import communication_of, names_of_deps
from tests.planted import Scene
from tests.unit.exporters.chakra.made_graphs import Made
from tracebraid.exporters.chakra.merged.rank_as_lane import rank_as_lane
from tracebraid.graph.rank_graph import rank_graph
from tracebraid.model.chakra.chakra_rank import ChakraRank
from tracebraid.model.graph.codes import EdgeKind


def rows_of(rank: ChakraRank, *columns: str) -> list[tuple[object, ...]]:
    return rank.nodes.select(pl.col("name").cast(pl.String), *columns).rows()


def two_streams() -> Made:
    """Kernels of two streams that overlap, one inside another; the host launches all at once."""
    made = Made()
    made.host("launch", 0, 10)
    for name, start, end, stream in [
        ("a", 20, 60, 7),
        ("b", 50, 90, 8),
        ("inside", 65, 80, 9),
        ("c", 100, 120, 7),
    ]:
        made.work(name, start, end, stream)
        made.edge(EdgeKind.LAUNCH, "launch", name, 10)
    return made


def test_overlapping_kernels_are_one_sequence_as_long_as_their_union() -> None:
    graph = two_streams().graph()
    rank = rank_as_lane(graph, communication_of(graph))
    assert rows_of(rank, "duration_ns") == [
        ("delay", 20), ("a", 40), ("b", 30), ("inside", 0), ("delay", 10), ("c", 20)
    ]  # fmt: skip
    assert rank.nodes.get_column("attributes").to_list()[2:4] == ['{"covered_ns": 10}', '{"covered_ns": 15}']
    counts = dict(rank.attributes)
    assert (counts["merged_covered_nodes"], counts["merged_covered_ns"], counts["merged_delays"]) == (
        2,
        25,
        2,
    )
    assert rank.nodes.get_column("stream").null_count() == rank.nodes.height
    assert not rank.nodes.get_column("is_cpu_op").any()


def exchange(waits: bool) -> Made:
    """A kernel, communication beside the next, and a last kernel that waits for it, or is launched late."""
    made = Made()
    made.host("launch", 0, 10)
    made.work("first", 20, 60)
    made.work("reduce", 60, 150, stream=8, kind="communication")
    made.work("beside", 60, 100)
    made.work("last", 160, 200)
    made.edge(EdgeKind.LAUNCH, "launch", "first", 10)
    made.edge(EdgeKind.EVENT_WAIT, "first", "reduce")
    made.edge(EdgeKind.STREAM_ORDER, "first", "beside")
    if waits:
        made.edge(EdgeKind.EVENT_WAIT, "reduce", "last", 5)
    else:
        made.edge(EdgeKind.STREAM_ORDER, "beside", "last")
    return made


def test_the_lane_waits_for_communication_and_only_the_rest_is_a_delay() -> None:
    graph = exchange(waits=True).graph()
    rank = rank_as_lane(graph, communication_of(graph))
    assert rows_of(rank, "duration_ns") == [
        ("delay", 20), ("first", 40), ("reduce", 90), ("beside", 40), ("delay", 10), ("last", 40)
    ]  # fmt: skip
    names = [name for name, *_ in rows_of(rank)]
    assert names_of_deps(rank, "reduce") == ["first"]
    assert names_of_deps(rank, "beside") == ["first"]
    last_delay = len(names) - 2
    first = rank.data_deps.first
    assert [names[node] for node in rank.data_deps.node_id[first[last_delay] : first[last_delay + 1]]] == [
        "reduce",
        "beside",
    ]
    check_lane(rank, graph)


def test_a_delay_that_no_communication_explains_stays_whole() -> None:
    graph = exchange(waits=False).graph()
    rank = rank_as_lane(graph, communication_of(graph))
    assert ("delay", 60) in rows_of(rank, "duration_ns")
    check_lane(rank, graph)


def test_a_kernel_that_runs_when_communication_is_issued_is_cut_and_counted_once() -> None:
    made = Made()
    made.host("launch", 0, 10)
    made.work("long", 20, 100)
    made.work("reduce", 50, 90, stream=8, kind="communication")
    made.edge(EdgeKind.LAUNCH, "launch", "long", 10)
    made.edge(EdgeKind.LAUNCH, "launch", "reduce", 10)
    graph = made.graph()
    rank = rank_as_lane(graph, communication_of(graph))
    assert rows_of(rank, "duration_ns", "attributes") == [
        ("delay", 20, None),
        ("long", 30, '{"part": 0}'),
        ("reduce", 40, None),
        ("long", 50, '{"part": 1}'),
    ]
    assert names_of_deps(rank, "reduce") == ["long"]
    check_lane(rank, graph)


def test_communication_behind_communication_depends_on_where_it_was_launched() -> None:
    """With a faster network the second starts earlier: it does not wait for the kernel that ran when it began."""
    made = Made()
    made.host("launch", 0, 10)
    made.host("second", 30, 32, kind="call")
    made.work("long", 20, 200)
    made.work("reduce 1", 50, 90, stream=8, kind="communication")
    made.work("reduce 2", 92, 120, stream=8, kind="communication")
    made.edge(EdgeKind.LAUNCH, "launch", "long", 10)
    made.edge(EdgeKind.LAUNCH, "launch", "reduce 1", 10)
    made.edge(EdgeKind.LAUNCH, "second", "reduce 2", 5)
    made.edge(EdgeKind.STREAM_ORDER, "reduce 1", "reduce 2", 2)
    graph = made.graph()
    rank = rank_as_lane(graph, communication_of(graph))
    assert names_of_deps(rank, "reduce 2") == ["reduce 1"]
    row = rank.nodes.filter(pl.col("name").cast(pl.String) == "reduce 2")
    assert row.select("duration_ns", "attributes").row(0) == (30, '{"lead_ns": 2}')
    parts = [lasts for name, lasts in rows_of(rank, "duration_ns") if name == "long"]
    assert parts == [30, 150]


def test_communication_that_overlaps_counts_once() -> None:
    made = Made()
    made.host("launch", 0, 10)
    made.work("kernel", 10, 20)
    made.work("reduce 1", 20, 60, stream=8, kind="communication")
    made.work("reduce 2", 40, 80, stream=9, kind="communication")
    for name in ("kernel", "reduce 1", "reduce 2"):
        made.edge(EdgeKind.LAUNCH, "launch", name, 5)
    graph = made.graph()
    rank = rank_as_lane(graph, communication_of(graph))
    found = {name: (lasts, more) for name, lasts, more in rows_of(rank, "duration_ns", "attributes")}
    assert found["reduce 1"] == (40, None)
    assert found["reduce 2"] == (20, '{"covered_ns": 20}')
    assert int(without_lanes(rank)[1].max()) == 80


def test_without_devices_the_lane_is_the_hosts_work() -> None:
    scene = Scene()
    host = scene.thread()
    with host.step(1):
        with host.op("aten::mm"):
            host.spend(1_000)
        host.spend(500)
        with host.op("aten::add"):
            host.spend(300)
    graph = rank_graph(scene.linked())
    rank = rank_as_lane(graph, communication_of(graph))
    times = {name: lasts for name, lasts in rows_of(rank, "duration_ns") if str(name).startswith("aten")}
    assert times == {"aten::mm": 1_000, "aten::add": 300}
    assert set(rank.nodes.get_column("type").cast(pl.String)) == {"COMP_NODE"}
    assert rank.nodes.get_column("duration_ns").sum() == graph.times_ns.max() - graph.times_ns.min()


def test_a_rank_that_began_later_than_the_job_begins_with_a_delay() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    host.launch(stream, "gemm", 5_000)
    graph = rank_graph(scene.linked())
    begins_ns = int(graph.times_ns.min()) - 7_000
    rank = rank_as_lane(graph, communication_of(graph), begins_ns)
    kernel = graph.activities.filter(pl.col("stream").is_not_null())
    assert rank.nodes.get_column("duration_ns")[0] == kernel.get_column("start_ns")[0] - begins_ns
    assert rank.nodes.get_column("start_time_micros")[0] == 0


def test_steps_are_those_of_issue_and_gaps_belong_to_what_follows() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    for number in (1, 2):
        with host.step(number):
            host.spend(1_000)
            host.launch(stream, f"kernel {number}", 50_000)
            host.synchronize(stream)
        host.spend(2_000)
    graph = rank_graph(scene.linked())
    rank = rank_as_lane(graph, communication_of(graph))
    steps = rank.nodes.select("name", "step", "duration_ns").cast({"name": pl.String, "step": pl.String})
    of_kernels = steps.filter(pl.col("name").str.starts_with("kernel")).select("name", "step").rows()
    assert of_kernels == [("kernel 1", "ProfilerStep#1"), ("kernel 2", "ProfilerStep#2")]
    named = steps.get_column("step").to_list()
    assert named == sorted(named, key=lambda step: step or "")
