"""Nodes of a rank from its graph: threads, streams and communication, each by itself or merged into a lane."""

from __future__ import annotations

import polars as pl
import pytest

from tests.chakra_lanes import check_lane, without_lanes
from tests.chakra_nodes import check_nodes, communication_of, names_of_deps
from tests.planted import device_scene, host_scene
from tests.planted.chakra_graphs import END, Made
from tracebraid.chakra import ChakraRank, Detail
from tracebraid.chakra.exporting.merged import rank_as_lane
from tracebraid.chakra.exporting.rank_nodes import rank_nodes
from tracebraid.chakra.schema import CHAKRA_COMMUNICATION
from tracebraid.graph.rank_graph import rank_graph
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph import EdgeKind


def nodes_of(made: Made, detail: Detail = Detail.FULL) -> ChakraRank:
    graph = made.graph()
    rank = rank_nodes(graph, communication_of(graph), detail)
    check_nodes(rank, graph)
    return rank


def spans(rank: ChakraRank) -> list[tuple[str, int]]:
    """The name and duration of each node."""
    return rank.nodes.select(pl.col("name").cast(pl.String), "duration_ns").rows()


def test_a_thread_is_a_chain_of_its_ops() -> None:
    made = Made()
    made.host("a", 0, 10)
    made.host("b", 15, 30)
    rank = nodes_of(made)
    assert spans(rank) == [("a", 10), ("thread 0", 5), ("b", 15)]
    assert names_of_deps(rank, "b") == ["thread 0"]
    assert rank.nodes.get_column("is_cpu_op").all()


def test_without_detail_a_thread_that_meets_nothing_is_one_delay() -> None:
    made = Made()
    made.host("a", 0, 10)
    made.host("b", 15, 30)
    assert spans(nodes_of(made, Detail.DEVICE)) == [("delay", 30)]


def test_work_waits_for_the_part_of_the_thread_that_ends_with_its_launch_latency() -> None:
    made = Made()
    made.host("a", 0, 100)
    made.work("k", 30, 50)
    made.edge(EdgeKind.LAUNCH, "a", "k", 30)
    rank = nodes_of(made)
    assert spans(rank) == [("a", 30), ("a", 70), ("k", 20)]
    assert names_of_deps(rank, "k") == ["a"]


def test_launch_latency_beyond_what_is_usual_is_a_delay_before_the_work() -> None:
    made = Made()
    made.host("a", 0, 100)
    made.work("k", 45, 50)
    made.edge(EdgeKind.LAUNCH, "a", "k", 30)
    rank = nodes_of(made)
    assert names_of_deps(rank, "k") == ["delay"]
    delay = rank.nodes.filter(pl.col("name").cast(pl.String) == "delay").row(0, named=True)
    assert (delay["duration_ns"], delay["stream"], delay["is_cpu_op"]) == (15, 7, False)


def test_a_thread_that_waits_for_what_it_launched_lends_it_no_time_of_the_wait() -> None:
    made = Made()
    made.host("launch", 0, 10)
    made.host("sync", 10, 60, kind="call", waits=True)
    made.work("k", 30, 50)
    made.edge(EdgeKind.LAUNCH, "launch", "k", 30)
    made.edge(EdgeKind.SYNC, "k", "sync", 10)
    rank = nodes_of(made)
    assert spans(rank) == [("launch", 10), ("delay", 20), ("k", 20), ("delay", 10)]
    assert rank.nodes.get_column("is_cpu_op").to_list() == [True, False, False, True]


def test_a_sync_that_did_not_wait_keeps_its_time_and_orders_what_follows() -> None:
    made = Made()
    made.host("launch", 0, 10)
    made.host("sync", 50, 60, kind="call")
    made.host("after", 60, 70)
    made.work("k", 10, 40)
    made.edge(EdgeKind.LAUNCH, "launch", "k", 10)
    made.edge(EdgeKind.SYNC, "k", "sync", 5)
    rank = nodes_of(made)
    assert sorted(names_of_deps(rank, "after")) == ["k", "sync"]


def test_a_stream_is_a_chain_with_its_gaps() -> None:
    made = Made()
    made.host("a", 0, 10)
    made.work("k1", 0, 20)
    made.work("k2", 23, 30)
    made.edge(EdgeKind.STREAM_ORDER, "k1", "k2", 2)
    rank = nodes_of(made)
    assert spans(rank) == [("a", 10), ("k1", 20), ("delay", 3), ("k2", 7)]
    assert names_of_deps(rank, "k2") == ["delay"]


def test_works_that_overlap_on_a_stream_wait_for_what_the_first_waits_for() -> None:
    made = Made()
    made.host("a", 0, 10)
    made.work("k1", 10, 30)
    made.work("k2", 25, 40)
    made.edge(EdgeKind.LAUNCH, "a", "k1", 10)
    made.edge(EdgeKind.STREAM_OVERLAP, "k1", "k2", 15)
    made.edge(EdgeKind.STREAM_END, "k1", "k2", 10)
    rank = nodes_of(made)
    assert names_of_deps(rank, "k1") == ["a"]
    assert names_of_deps(rank, "k2") == ["delay"]
    assert names_of_deps(rank, "delay") == ["a"]


def test_a_stream_waits_for_an_event_of_another() -> None:
    made = Made()
    made.host("a", 0, 10)
    made.work("k1", 0, 20)
    made.work("k2", 20, 30, stream=8)
    made.edge(EdgeKind.EVENT_WAIT, "k1", "k2")
    assert names_of_deps(nodes_of(made), "k2") == ["k1"]


def test_work_that_is_a_wait_takes_no_time_of_its_own() -> None:
    made = Made()
    made.host("a", 0, 10)
    made.work("k", 0, 50)
    made.work("wait", 5, 52, stream=8, own_ns=0)
    made.work("next", 52, 60, stream=8)
    made.edge(EdgeKind.LAUNCH, "a", "wait", 5)
    made.edge(EdgeKind.EVENT_WAIT, "k", "wait", 0, (END, END))
    made.edge(EdgeKind.STREAM_ORDER, "wait", "next")
    rank = nodes_of(made)
    assert dict(spans(rank))["wait"] == 0
    assert names_of_deps(rank, "next") == ["delay"]
    assert sorted(names_of_deps(rank, "delay")) == ["k", "wait"]


def test_a_thread_starts_when_another_hands_over() -> None:
    made = Made()
    made.host("a", 0, 40)
    made.host("b", 40, 80)
    made.host("c", 55, 70, thread=1)
    made.edge(EdgeKind.THREAD, "a", "thread 1", 10)
    rank = nodes_of(made)
    # The thread that hands over works on in the latency; what is beyond it is a delay of the other thread.
    assert names_of_deps(rank, "c") == ["delay"]
    assert names_of_deps(rank, "delay") == ["b"]
    assert spans(rank) == [("a", 40), ("b", 10), ("b", 30), ("delay", 5), ("c", 15)]


def test_backward_waits_for_forward_of_another_thread() -> None:
    made = Made()
    made.host("forward", 0, 40)
    made.host("before", 0, 50, thread=1)
    made.host("backward", 50, 60, thread=1)
    made.edge(EdgeKind.FORWARD_BACKWARD, "forward", "backward")
    assert sorted(names_of_deps(nodes_of(made), "backward")) == ["before", "forward"]


def test_a_full_queue_holds_the_thread_until_work_starts() -> None:
    made = Made()
    made.host("a", 0, 10)
    made.host("launch", 10, 55, kind="call", waits=True)
    made.host("b", 55, 60)
    made.work("k1", 5, 50)
    made.work("k2", 50, 70)
    made.edge(EdgeKind.STREAM_ORDER, "k1", "k2")
    made.edge(EdgeKind.QUEUE, "k2", "launch", 5)
    rank = nodes_of(made)
    assert names_of_deps(rank, "b") == ["delay"]
    delays = rank.nodes.with_row_index("row").filter(pl.col("duration_ns") == 5, pl.col("is_cpu_op"))
    assert "k1" in [name for name, _ in spans(rank)]
    assert delays.filter(pl.col("name").cast(pl.String) == "delay").height == 1


def test_a_thread_waits_for_communication_of_the_host() -> None:
    made = Made()
    made.host("ask", 0, 10)
    made.host("wait", 10, 65, waits=True)
    made.host("gloo:all_reduce", 12, 60, thread=1, kind="communication")
    made.edge(EdgeKind.THREAD, "ask", "gloo:all_reduce", 0)
    made.edge(EdgeKind.COMMUNICATION_WAIT, "gloo:all_reduce", "wait", 5)
    rank = nodes_of(made)
    row = rank.nodes.filter(pl.col("type").cast(pl.String) == "COMM_COLL_NODE").row(0, named=True)
    assert (row["is_cpu_op"], row["duration_ns"], row["collective"]) == (False, 48, "gloo:all_reduce")


def test_what_waits_for_nothing_known_is_anchored_to_the_thread_that_works_then() -> None:
    made = Made()
    made.host("a", 0, 100)
    made.work("k", 60, 70)
    rank = nodes_of(made)
    assert spans(rank) == [("a", 60), ("a", 40), ("k", 10)]


def test_steps_cut_the_time_of_threads() -> None:
    made = Made()
    made.host("a", 0, 10, step="S#1")
    made.host("S#1", 10, 10, kind="annotation", step="S#1")
    made.host("other", 0, 30, thread=1)
    rank = nodes_of(made)
    assert [lasts for name, lasts in spans(rank) if name == "other"] == [10, 20]


def test_no_work_is_dropped_and_zero_length_work_of_devices_stays() -> None:
    made = Made()
    made.host("a", 0, 10)
    made.host("nothing", 10, 10)
    made.work("k", 5, 5)
    made.edge(EdgeKind.LAUNCH, "a", "k", 5)
    assert spans(nodes_of(made)) == [("a", 5), ("a", 5), ("k", 0)]


def test_communication_is_issued_in_the_order_of_all_ranks() -> None:
    made = Made()
    made.host("a", 0, 10)
    made.work("c1", 5, 40, kind="communication")
    made.work("c2", 8, 30, stream=8, kind="communication")
    made.edge(EdgeKind.LAUNCH, "a", "c1", 5)
    made.edge(EdgeKind.LAUNCH, "a", "c2", 8)
    graph = made.graph()
    communication = communication_of(graph)
    swapped = communication.with_columns(order=1 - pl.col("order"))
    for table, order in ((communication, ["c1", "c2"]), (swapped, ["c2", "c1"])):
        rank = rank_nodes(graph, table)
        names = [name for name, _ in spans(rank)]
        assert [name for name in names if name.startswith("c")] == order
        assert not rank.findings


def test_communication_that_had_ended_before_what_is_ahead_of_it_is_a_finding() -> None:
    made = Made()
    made.host("a", 0, 10)
    made.work("c1", 0, 10, kind="communication")
    made.work("c2", 20, 30, kind="communication")
    made.edge(EdgeKind.STREAM_ORDER, "c1", "c2")
    graph = made.graph()
    swapped = communication_of(graph).with_columns(order=1 - pl.col("order"))
    found = rank_nodes(graph, swapped).findings
    assert [(finding.code, finding.count) for finding in found] == [(FindingCode.CHAKRA_UNORDERED, 1)]


def test_several_rows_of_an_event_are_nodes_side_by_side() -> None:
    made = Made()
    made.host("a", 0, 10)
    made.work("sendrecv", 10, 30, kind="communication")
    made.work("k", 30, 40)
    made.edge(EdgeKind.LAUNCH, "a", "sendrecv", 10)
    made.edge(EdgeKind.STREAM_ORDER, "sendrecv", "k")
    graph = made.graph()
    twice = pl.concat([communication_of(graph)] * 2).with_columns(order=pl.Series([4, 5]))
    rank = rank_nodes(graph, twice)
    check_nodes(rank, graph)
    assert names_of_deps(rank, "k") == ["sendrecv", "sendrecv"]


def test_communication_that_no_row_names_is_computation() -> None:
    made = Made()
    made.host("a", 0, 10)
    made.work("nccl", 10, 30, kind="communication")
    made.edge(EdgeKind.LAUNCH, "a", "nccl", 10)
    rank = rank_nodes(made.graph(), CHAKRA_COMMUNICATION.empty())
    assert rank.nodes.get_column("type").cast(pl.String).unique().to_list() == ["COMP_NODE"]
    assert rank.nodes.get_column("kind").cast(pl.String).to_list() == ["op", "communication"]


def test_rows_of_events_that_are_not_in_the_graph_are_left_to_other_steps() -> None:
    made = Made()
    made.host("a", 0, 10)
    graph = made.graph()
    row = {"event_id": 99, "type": "COMM_COLL_NODE", "transfer_ns": 5, "order": 0}
    table = CHAKRA_COMMUNICATION.conform(pl.DataFrame([row]), fill_missing=True)
    assert spans(rank_nodes(graph, table)) == [("a", 10)]


@pytest.mark.parametrize("detail", [Detail.FULL, Detail.DEVICE])
def test_a_circle_of_moments_at_one_time_is_cut_and_counted(detail: Detail) -> None:
    made = Made()
    made.host("a", 0, 10)
    made.host("b", 10, 10)
    made.host("c", 0, 10, thread=1)
    made.host("d", 10, 10, thread=1)
    made.edge(EdgeKind.THREAD, "b", "d")
    made.edge(EdgeKind.THREAD, "d", "b")
    rank = rank_nodes(made.graph(), CHAKRA_COMMUNICATION.empty(), detail)
    assert [finding.code for finding in rank.findings] == [FindingCode.GRAPH_EDGES_CONTRADICTED]


def test_a_rank_that_began_later_than_the_simulation_begins_with_a_delay() -> None:
    made = Made()
    made.host("a", 100, 110)
    made.work("k", 105, 120)
    made.edge(EdgeKind.LAUNCH, "a", "k", 5)
    graph = made.graph()
    rank = rank_nodes(graph, CHAKRA_COMMUNICATION.empty(), begins_ns=60)
    assert spans(rank)[:2] == [("delay", 40), ("a", 5)]
    assert spans(rank_nodes(graph, CHAKRA_COMMUNICATION.empty(), begins_ns=500))[0] == ("a", 5)


def test_time_of_a_thread_is_in_the_step_in_which_it_ran() -> None:
    made = Made()
    made.host("before", 0, 10)
    made.host("S#1", 10, 30, kind="annotation", step="S#1")
    made.host("after", 30, 40)
    made.host("other", 0, 40, thread=1)
    rank = nodes_of(made)
    steps = rank.nodes.select(pl.col("name", "step").cast(pl.String)).rows()
    assert [step for name, step in steps if name == "other"] == [None, "S#1", None]
    assert [step for name, step in steps if name in ("before", "after")] == [None, None]


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
    scene, host = host_scene()
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
    scene, host, stream = device_scene()
    host.launch(stream, "gemm", 5_000)
    graph = rank_graph(scene.linked())
    begins_ns = int(graph.times_ns.min()) - 7_000
    rank = rank_as_lane(graph, communication_of(graph), begins_ns)
    kernel = graph.activities.filter(pl.col("stream").is_not_null())
    assert rank.nodes.get_column("duration_ns")[0] == kernel.get_column("start_ns")[0] - begins_ns
    assert rank.nodes.get_column("start_time_micros")[0] == 0


def test_steps_are_those_of_issue_and_gaps_belong_to_what_follows() -> None:
    scene, host, stream = device_scene()
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


def test_communication_that_only_other_communication_let_start_is_no_negative_delay() -> None:
    """Launched before the trace began: the second is not issued with the first, 71 us before it can start."""
    made = Made()
    made.host("launch", 0, 10_000)
    made.work("kernel", 20_000, 30_000)
    made.work("reduce 1", 40_000, 111_000, stream=8, kind="communication")
    made.work("reduce 2", 112_000, 150_000, stream=8, kind="communication")
    made.edge(EdgeKind.LAUNCH, "launch", "kernel", 10)
    made.edge(EdgeKind.LAUNCH, "launch", "reduce 1", 10)
    made.edge(EdgeKind.STREAM_ORDER, "reduce 1", "reduce 2", 500)
    graph = made.graph()
    rank = rank_as_lane(graph, communication_of(graph))
    assert rank.nodes.select(pl.col("duration_ns", "duration_micros").min()).row(0) == (0, 0)
    check_lane(rank, graph)
