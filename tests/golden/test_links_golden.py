"""Links of real pairs: their nodes, ops and kernels."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from tests.golden.linked import intervals, load, names_of, node_names_of, pair, reasons
from tracebraid import link, write_et_plus
from tracebraid.errors import ArgumentError, ProgramError
from tracebraid.model.coverage import ChoiceReason, Count, OrphanReason
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.matching import Matching


def test_simple_add_links_every_op_and_every_kernel(real_traces: Path) -> None:
    coverage = pair(real_traces / "pairs/simple_add_a100").coverage
    assert coverage.host_ops == Count(36, 36, {"external_id": 36})
    assert coverage.et_nodes == Count(36, 36, {})
    assert coverage.gpu_events == Count(4, 4, {"correlation": 4})
    assert coverage.gpu_time_ns == (16_000, 16_000)
    assert coverage.orphans == ()
    assert coverage.share == 1.0


def test_simple_add_links_are_those_of_its_notebook(real_traces: Path) -> None:
    """HTA joins this pair by External id, which is right here: the table of its notebook has the node of each op."""
    linked = pair(real_traces / "pairs/simple_add_a100")
    path = real_traces / "expected/hta/simple_add_a100/trace_with_et.csv"
    notebook = pl.read_csv(path, infer_schema_length=None).filter(pl.col("et_node").is_not_null())
    expected = dict(notebook.select("external_id", pl.col("et_node").cast(pl.Int64)).iter_rows())
    found = linked.host_links.join(linked.timeline.host_ops, on="event_id").select("external_id", "node_id")
    assert len(expected) == 36
    assert dict(found.iter_rows()) == expected


def test_simple_adds_kernels_hang_under_the_nodes_that_launched_them(real_traces: Path) -> None:
    linked = pair(real_traces / "pairs/simple_add_a100")
    node_names = node_names_of(linked)
    found = Counter(node_names[node] for node in linked.device_links.get_column("node_id"))
    assert found == {"aten::uniform_": 2, "aten::add": 2}


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_dlrms_ids_link_no_host_op_and_it_says_why(real_traces: Path, rank: int) -> None:
    linked = pair(real_traces / "pairs/dlrm_v100_8rank", rank, "exact")
    assert linked.coverage.host_ops == Count(1673, 0, {})
    assert linked.coverage.et_nodes == Count(1672, 0, {})
    assert reasons(linked, "host_op") == {OrphanReason.NO_ID: 1673}


@pytest.mark.parametrize(
    ("rank", "total", "attributed"), [(0, 261, 261), (1, 326, 262), (2, 262, 262), (3, 337, 273)]
)
def test_dlrm_attributes_every_device_event_whose_launch_is_in_the_trace(
    real_traces: Path, rank: int, total: int, attributed: int
) -> None:
    linked = pair(real_traces / "pairs/dlrm_v100_8rank", rank)
    assert linked.coverage.gpu_events == Count(total, attributed, {"correlation": attributed})
    kineto = load(real_traces / f"pairs/dlrm_v100_8rank/kineto_trace_{rank}.json.gz")["traceEvents"]
    calls = {e["args"]["correlation"] for e in kineto if e.get("cat") in ("cuda_runtime", "cuda_driver")}
    device = [
        e["args"]["correlation"] for e in kineto if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    ]
    assert total - attributed == sum(one not in calls for one in device)
    assert reasons(linked, "gpu_event").total() == total - attributed


def test_all_261_device_events_of_dlrm_hang_under_an_op_that_was_running_at_the_launch(
    real_traces: Path,
) -> None:
    """chakra_trace_link hangs 55 of them under an op that had ended before."""
    found = intervals(pair(real_traces / "pairs/dlrm_v100_8rank"))
    assert found.height == 261
    running = found.filter(
        (pl.col("op_ts") <= pl.col("call_ts"))
        & (pl.col("call_ts") < pl.col("op_end"))
        & (pl.col("op_lane") == pl.col("call_lane"))
    )
    assert running.height == 261


def test_linears_ids_link_no_host_op_and_every_device_event_is_attributed(real_traces: Path) -> None:
    coverage = pair(real_traces / "pairs/linear_2080ti", match="exact").coverage
    assert coverage.host_ops == Count(37_078, 0, {})
    assert coverage.et_nodes == Count(928, 0, {})
    assert coverage.gpu_events == Count(10_356, 10_356, {"correlation": 10_356})


def test_an_execution_trace_and_a_timeline_of_two_programs_are_refused(real_traces: Path) -> None:
    """HTA accepts such a pair."""
    et = real_traces / "pairs/linear_2080ti/torch_et_0.json.gz"
    kineto = real_traces / "pairs/dlrm_v100_8rank/kineto_trace_0.json.gz"
    with pytest.raises(ProgramError, match="of another program than"):
        link(et, kineto)
    linked = link(et, kineto, matching="exact")
    assert linked.coverage.host_ops.linked == 0
    assert linked.coverage.share == 0.0


# --- Links of the bundled traces ---------------------------------------------------------------------


@pytest.mark.parametrize("rank", [0, 1])
def test_the_demo_links_every_op_and_all_nodes_but_the_process_groups_init(demo: Path, rank: int) -> None:
    coverage = pair(demo, rank).coverage
    total = coverage.host_ops.total
    assert coverage.host_ops == Count(total, total, {"record_function_id": total})
    assert coverage.et_nodes == Count(total + 1, total, {})
    assert coverage.gpu_events == Count(0, 0, {})
    assert [(one.kind, one.count) for one in coverage.orphans] == [("et_node", 1)]
    assert coverage.orphans[0].reason is OrphanReason.BEFORE_START


@pytest.mark.parametrize("rank", [0, 1])
def test_the_demos_external_ids_would_link_wrongly(demo: Path, rank: int) -> None:
    """A two-rank DDP capture of torch 2.13: the two ids differ on every op."""
    ops = pair(demo, rank).timeline.host_ops
    assert (ops.get_column("external_id") != ops.get_column("record_function_id")).all()


@pytest.mark.parametrize("rank", [0, 1])
def test_without_record_function_ids_the_demos_ids_link_nothing_rather_than_wrongly(
    demo: Path, tmp_path: Path, rank: int
) -> None:
    kineto = load(demo / f"kineto_trace_{rank}.json.gz")
    for event in kineto["traceEvents"]:
        if isinstance(event.get("args"), dict):
            event["args"].pop("Record function id", None)
    (tmp_path / "kineto.json").write_text(json.dumps(kineto, default=float))
    et = demo / f"torch_et_{rank}.json.gz"
    coverage = link(et, tmp_path / "kineto.json", matching="exact").coverage
    assert coverage.host_ops.linked == 0
    assert coverage.share == 0.0
    # By their places nearly all are found, and rightly.
    found = link(et, tmp_path / "kineto.json").host_links.drop_nulls("node_id").select("event_id", "node_id")
    assert found.height >= 0.99 * coverage.host_ops.total
    assert found.join(pair(demo, rank).host_links, on=["event_id", "node_id"], how="anti").is_empty()


@pytest.mark.parametrize("rank", [0, 1])
def test_the_demos_links_agree_in_id_and_name_with_the_files(demo: Path, rank: int) -> None:
    linked = pair(demo, rank)
    kineto = [e for e in load(demo / f"kineto_trace_{rank}.json.gz")["traceEvents"] if e["ph"] == "X"]
    nodes = {n["id"]: n for n in load(demo / f"torch_et_{rank}.json.gz")["nodes"]}
    for event, node_id in linked.host_links.select("event_id", "node_id").iter_rows():
        attrs = {attr["name"]: attr["value"] for attr in nodes[node_id]["attrs"]}
        assert kineto[event]["name"] == nodes[node_id]["name"]
        assert kineto[event]["args"]["Record function id"] == attrs["rf_id"]


@pytest.mark.parametrize("rank", [0, 1])
def test_the_demos_backward_ops_are_linked_as_pytorchs_own_arrows_are(demo: Path, rank: int) -> None:
    linked = pair(demo, rank)
    at = {
        (lane, ts): event
        for event, lane, ts in linked.timeline.events.select("event_id", "lane", "ts_ns").iter_rows()
    }
    ends: dict[str, dict[int, int | None]] = {"s": {}, "f": {}}
    flows = linked.timeline.flows.with_columns(pl.col("category", "phase").cast(pl.String))
    for flow, phase, lane, ts in flows.filter(category="fwdbwd").drop("category").iter_rows():
        ends[phase][flow] = at.get((lane, ts))
    arrows = {(start, ends["f"][flow]) for flow, start in ends["s"].items()}
    ours = set(linked.forward_backward.select("forward_event", "backward_event").iter_rows())
    assert len(arrows) > 200
    assert arrows <= ours
    names = names_of(linked)
    assert {names[backward].rpartition(": ")[0] for _, backward in ours - arrows} <= {
        "",
        "autograd::engine::evaluate_function",
    }


@pytest.mark.parametrize("rank", [0, 1])
def test_the_demos_parents_are_the_ops_around_them(demo: Path, rank: int) -> None:
    """The native recorder keeps gloo's asynchronous operators apart, which mislead PyTorch's observer."""
    linked = pair(demo, rank)
    assert linked.et is not None
    assert linked.et.recorder == "native"
    assert linked.findings == ()


# --- Launches of real Kineto traces: each device event has an op, or a reason ------------------------


KINETO_FILES = [
    "kineto/a100_alexnet_cuda_sync",
    "kineto/a100_cupti_counters",
    "kineto/a100_ddp_nccl_rank0of2",
    "kineto/a100_event_sync",
    "kineto/a100_event_sync_multi_stream",
    "kineto/cpu_only_rank34",
    "kineto/h100_qwen_stack_memory",
    "kineto/mi250_minitoy_train",
    "kineto/mi300x_compile_triton",
    "kineto/mi300x_decode_graph_launch",
    "kineto/mi300x_qwen_stack_memory",
    "kineto/mtia_inference",
    "kineto/no_distributed_info",
    "kineto/sampled_2_of_128/sampled_rank-0",
    "kineto/sampled_2_of_128/sampled_rank-1",
    "kineto/triton_example",
    "kineto/v100_rank1of2_54MB",
]


DEVICE_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset", "mtia_ccp_events"}


ATTRIBUTED = {
    "kineto/a100_alexnet_cuda_sync": (98, 98),
    "kineto/a100_ddp_nccl_rank0of2": (3774, 3774),
    "kineto/mi250_minitoy_train": (16, 16),
    "kineto/mi300x_compile_triton": (12, 12),
    "kineto/mi300x_decode_graph_launch": (558, 558),
    "kineto/triton_example": (1, 1),
    "kineto/v100_rank1of2_54MB": (22_290, 22_290),
}


@cache
def alone(path: Path) -> LinkedTrace:
    return link(None, path)


def test_no_file_of_the_folder_is_left_out(real_traces: Path) -> None:
    there = real_traces.glob("kineto/**/*.json.gz")
    assert {str(path.relative_to(real_traces)).removesuffix(".json.gz") for path in there} == set(
        KINETO_FILES
    )


@pytest.mark.parametrize("name", KINETO_FILES)
def test_every_device_event_has_an_op_or_a_reason(real_traces: Path, name: str) -> None:
    linked = alone(real_traces / f"{name}.json.gz")
    links = linked.device_links
    assert (links.get_column("op_event").is_null() == links.get_column("reason").is_not_null()).all()
    assert (links.get_column("op_event").is_null() == links.get_column("method").is_null()).all()
    categories = linked.timeline.events.get_column("category").cast(pl.String)
    assert links.height == categories.is_in(DEVICE_CATEGORIES).sum()


@pytest.mark.parametrize("name", KINETO_FILES)
def test_every_attributed_device_event_hangs_under_an_op_that_was_running_at_the_launch(
    real_traces: Path, name: str
) -> None:
    found = intervals(alone(real_traces / f"{name}.json.gz"))
    late = found.filter(
        (pl.col("call_ts") < pl.col("op_ts"))
        | (pl.col("call_ts") >= pl.col("op_end"))
        | (pl.col("op_lane") != pl.col("call_lane"))
    )
    assert late.height == 0


@pytest.mark.parametrize(("name", "figures"), ATTRIBUTED.items())
def test_how_many_device_events_are_attributed(
    real_traces: Path, name: str, figures: tuple[int, int]
) -> None:
    gpu = alone(real_traces / f"{name}.json.gz").coverage.gpu_events
    assert (gpu.total, gpu.linked) == figures


def test_all_kernels_of_a_graph_launch_hang_under_one_op(real_traces: Path) -> None:
    linked = alone(real_traces / "kineto/mi300x_decode_graph_launch.json.gz")
    names = names_of(linked)
    graph = [event for event, name in names.items() if name == "hipGraphLaunch"]
    found = linked.device_links.filter(pl.col("call_event").is_in(graph))
    assert (found.height, found.get_column("op_event").n_unique()) == (544, 1)


@pytest.mark.parametrize("name", ["h100_qwen_stack_memory", "mi300x_qwen_stack_memory"])
def test_kernels_that_were_launched_before_the_profiler_started_say_so(real_traces: Path, name: str) -> None:
    linked = alone(real_traces / f"kineto/{name}.json.gz")
    lost = linked.device_links.filter(pl.col("op_event").is_null())
    calls = linked.timeline.host_calls.get_column("correlation")
    correlations = linked.timeline.device_work.join(lost, on="event_id", how="semi").get_column("correlation")
    assert lost.height > 400
    assert not correlations.is_in(calls.implode()).any()
    assert set(lost.get_column("reason").cast(pl.String)) == {OrphanReason.NO_CALL}


def test_mtia_work_without_a_correlation_says_so(real_traces: Path) -> None:
    linked = alone(real_traces / "kineto/mtia_inference.json.gz")
    work = linked.timeline.device_work.join(linked.device_links, on="event_id")
    none = work.filter(pl.col("correlation").is_null())
    assert none.height == 322
    assert set(none.get_column("reason").cast(pl.String)) == {OrphanReason.NO_CORRELATION}


# --- Links of real pairs without ids: DLRM, whose ids drift, and an iteration among forty ------------


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_every_node_of_dlrm_is_linked(real_traces: Path, rank: int) -> None:
    linked = pair(real_traces / "pairs/dlrm_v100_8rank", rank)
    assert linked.coverage.et_nodes == Count(1672, 1672, {})
    assert linked.coverage.host_ops == Count(1673, 1672, {"alignment": 1649, "alignment_name": 23})
    # Kineto alone has this one.
    (left,) = linked.host_links.filter(pl.col("node_id").is_null()).get_column("event_id")
    assert names_of(linked)[left] == "ProfilerStep#10"


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_names_of_dlrm_agree_and_each_thread_is_one_thread(real_traces: Path, rank: int) -> None:
    linked = pair(real_traces / "pairs/dlrm_v100_8rank", rank)
    assert linked.et is not None
    events, nodes = names_of(linked), node_names_of(linked)
    links = linked.host_links.drop_nulls("node_id").select("event_id", "node_id")
    assert all(events[event] == nodes[node] for event, node in links.iter_rows())
    threads = (
        links.join(linked.et.nodes.select("node_id", "tid"), on="node_id")
        .join(linked.timeline.events.select("event_id", "lane"), on="event_id")
        .select("tid", "lane")
        .unique()
    )
    assert threads.height == 2


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_every_nccl_kernel_of_dlrm_hangs_under_its_op(real_traces: Path, rank: int) -> None:
    linked = pair(real_traces / "pairs/dlrm_v100_8rank", rank)
    nodes = node_names_of(linked)
    name = pl.col("name").cast(pl.String)
    kernels = linked.device_links.join(
        linked.timeline.events.filter(name.str.starts_with("nccl")).select("event_id"), on="event_id"
    ).filter(pl.col("op_event").is_not_null())
    assert kernels.height == 8
    assert all(nodes[node].startswith("nccl:") for node in kernels.get_column("node_id"))


def test_the_one_iteration_of_linear_is_found_among_forty(real_traces: Path) -> None:
    linked = pair(real_traces / "pairs/linear_2080ti")
    assert linked.coverage.et_nodes == Count(928, 928, {})
    assert linked.coverage.host_ops == Count(928, 928, {"alignment": 928})
    assert reasons(linked, "host_op") == {OrphanReason.OTHER_ITERATION: 36_150}
    matched = linked.matched
    assert matched is not None
    assert (matched.agreement, matched.is_same_program) == (1.0, True)
    assert matched.iterations.height == 40
    assert matched.iterations.filter("is_chosen").get_column("iteration").to_list() == [10]
    assert matched.choice is not None
    assert matched.choice.reason is ChoiceReason.SAME_SEQUENCE_NUMBERS


def seqs(linked: LinkedTrace) -> set[int]:
    ops = linked.host_links.drop_nulls("node_id").join(linked.timeline.host_ops, on="event_id")
    return set(ops.get_column("sequence_number").drop_nulls())


def test_the_spread_over_all_iterations_of_linear_is_given(real_traces: Path) -> None:
    linked = pair(real_traces / "pairs/linear_2080ti")
    assert linked.matched is not None
    times = linked.matched.node_times
    assert times.height == 928
    # The first iteration has no gradients to add to.
    assert dict(times.get_column("iterations").value_counts().iter_rows()) == {40: 802, 39: 126}
    whole = linked.host_links.drop_nulls("node_id").join(linked.timeline.events, on="event_id")
    joined = times.join(whole, on="node_id")
    assert joined.select((pl.col("dur_ns").is_between("min_ns", "max_ns")).all()).item()
    assert joined.select((pl.col("median_ns").is_between("min_ns", "max_ns")).all()).item()


def test_the_et_plus_of_linear_holds_the_device_events_of_its_iteration(
    real_traces: Path, tmp_path: Path
) -> None:
    linked = pair(real_traces / "pairs/linear_2080ti")
    write_et_plus(linked, tmp_path / "et_plus.json")
    nodes = json.loads((tmp_path / "et_plus.json").read_text())["nodes"]
    device = [one for one in nodes if "cat" in one]
    mine = linked.device_links.filter(pl.col("node_id").is_not_null())
    assert len(device) == mine.height == 261
    assert all("orphan" not in one for one in device)


@pytest.mark.full
def test_an_iteration_of_linear_can_be_asked_for(real_traces: Path) -> None:
    folder = real_traces / "pairs/linear_2080ti"
    files = folder / "torch_et_0.json.gz", folder / "kineto_trace_0.json.gz"
    best = pair(folder)
    assert min(seqs(best)) == 660
    for number, count in ((0, 802), (7, 928), (39, 928)):
        linked = link(*files, matching=Matching(iteration=number))
        assert linked.coverage.et_nodes.linked == count
        assert min(seqs(linked)) == 66 * number
    median = link(*files, matching=Matching(iteration="median"))
    assert median.matched is not None
    assert median.matched.choice is not None
    assert median.matched.choice.reason is ChoiceReason.MEDIAN_LENGTH
    by_mark = link(*files, matching=Matching(annotation="Optimizer.zero_grad"))
    # The annotation stands behind the forward pass, and begins an iteration of its own.
    assert by_mark.coverage.et_nodes.linked == 758
    with pytest.raises(ArgumentError, match="there is no iteration 40; there are 40"):
        link(*files, matching=Matching(iteration=40))
    with pytest.raises(ArgumentError, match="'Nowhere'"):
        link(*files, matching=Matching(annotation="Nowhere"))
