"""Links on real traces, and on the bundled ones: how much, by which method, and that each is the right one."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from tests.builders import Json
from tracebraid.api import link, write_et_plus
from tracebraid.model.coverage import Count
from tracebraid.model.linked_trace import LinkedTrace

ADDED = ("ts", "inclusive_dur", "exclusive_dur")


def load(path: Path) -> Json:
    return json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)


@cache
def pair(folder: Path, rank: int = 0) -> LinkedTrace:
    return link(folder / f"torch_et_{rank}.json.gz", folder / f"kineto_trace_{rank}.json.gz")


def names_of(linked: LinkedTrace) -> dict[int, str]:
    return dict(linked.timeline.events.select("event_id", pl.col("name").cast(pl.String)).iter_rows())


def node_names_of(linked: LinkedTrace) -> dict[int, str]:
    assert linked.et is not None
    return dict(linked.et.nodes.select("node_id", pl.col("name").cast(pl.String)).iter_rows())


def reasons(linked: LinkedTrace, kind: str) -> Counter[str]:
    return Counter({one.reason: one.count for one in linked.coverage.orphans if one.kind == kind})


# --- simple_add: External id is rf_id ---------------------------------------------------------------


def test_simple_add_links_every_op_and_every_kernel(real_traces: Path):
    coverage = pair(real_traces / "pairs/simple_add_a100").coverage
    assert coverage.host_ops == Count(36, 36, {"external_id": 36})
    assert coverage.et_nodes == Count(36, 36, {})
    assert coverage.gpu_events == Count(4, 4, {"correlation": 4})
    assert coverage.gpu_time_ns == (16_000, 16_000)
    assert coverage.orphans == ()
    assert coverage.share == 1.0


def test_simple_add_links_are_those_of_its_notebook(real_traces: Path):
    """HTA joins this pair by External id, which is right here: the table of its notebook has the node of each op."""
    linked = pair(real_traces / "pairs/simple_add_a100")
    path = real_traces / "expected/hta/simple_add_a100/trace_with_et.csv"
    notebook = pl.read_csv(path, infer_schema_length=None).filter(pl.col("et_node").is_not_null())
    expected = dict(notebook.select("external_id", pl.col("et_node").cast(pl.Int64)).iter_rows())
    found = linked.host_links.join(linked.timeline.host_ops, on="event_id").select("external_id", "node_id")
    assert len(expected) == 36
    assert dict(found.iter_rows()) == expected


def test_simple_adds_kernels_hang_under_the_nodes_that_launched_them(real_traces: Path):
    linked = pair(real_traces / "pairs/simple_add_a100")
    node_names = node_names_of(linked)
    found = Counter(node_names[node] for node in linked.device_links.get_column("node_id"))
    assert found == {"aten::uniform_": 2, "aten::add": 2}


# --- DLRM: ids drift apart --------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_dlrm_links_no_host_op_and_says_why(real_traces: Path, rank: int):
    linked = pair(real_traces / "pairs/dlrm_v100_8rank", rank)
    assert linked.coverage.host_ops == Count(1673, 0, {})
    assert linked.coverage.et_nodes == Count(1672, 0, {})
    assert reasons(linked, "host_op").total() == 1673
    assert all("External id proves nothing" in reason for reason in reasons(linked, "host_op"))


@pytest.mark.parametrize(
    ("rank", "total", "attributed"), [(0, 261, 261), (1, 326, 262), (2, 262, 262), (3, 337, 273)]
)
def test_dlrm_attributes_every_device_event_whose_launch_is_in_the_trace(
    real_traces: Path, rank: int, total: int, attributed: int
):
    linked = pair(real_traces / "pairs/dlrm_v100_8rank", rank)
    assert linked.coverage.gpu_events == Count(total, attributed, {"correlation": attributed})
    kineto = load(real_traces / f"pairs/dlrm_v100_8rank/kineto_trace_{rank}.json.gz")["traceEvents"]
    calls = {e["args"]["correlation"] for e in kineto if e.get("cat") in ("cuda_runtime", "cuda_driver")}
    device = [
        e["args"]["correlation"] for e in kineto if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    ]
    assert total - attributed == sum(one not in calls for one in device)
    assert reasons(linked, "gpu_event").total() == total - attributed


def intervals(linked: LinkedTrace) -> pl.DataFrame:
    """Each attributed device event with its call's start and its op's interval, from the events alone."""
    events = linked.timeline.events
    call = events.select(
        pl.col("event_id").alias("call_event"),
        pl.col("ts_ns").alias("call_ts"),
        pl.col("lane").alias("call_lane"),
    )
    op = events.select(
        pl.col("event_id").alias("op_event"),
        pl.col("ts_ns").alias("op_ts"),
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("op_end"),
        pl.col("lane").alias("op_lane"),
    )
    return (
        linked.device_links.filter(pl.col("call_event").is_not_null() & pl.col("op_event").is_not_null())
        .join(call, on="call_event")
        .join(op, on="op_event")
        .join(events.select("event_id", "ts_ns"), on="event_id")
    )


def test_all_261_device_events_of_dlrm_hang_under_an_op_that_was_running_at_the_launch(real_traces: Path):
    """chakra_trace_link hangs 55 of them under an op that had ended before."""
    found = intervals(pair(real_traces / "pairs/dlrm_v100_8rank"))
    assert found.height == 261
    running = found.filter(
        (pl.col("op_ts") <= pl.col("call_ts"))
        & (pl.col("call_ts") < pl.col("op_end"))
        & (pl.col("op_lane") == pl.col("call_lane"))
    )
    assert running.height == 261


# --- linear: traces of different times --------------------------------------------------------------


def test_linear_links_no_host_op_and_attributes_every_device_event(real_traces: Path):
    coverage = pair(real_traces / "pairs/linear_2080ti").coverage
    assert coverage.host_ops == Count(37_078, 0, {})
    assert coverage.et_nodes == Count(928, 0, {})
    assert coverage.gpu_events == Count(10_356, 10_356, {"correlation": 10_356})


def test_an_execution_trace_and_a_timeline_of_two_runs_share_nothing(real_traces: Path):
    """HTA accepts such a pair."""
    linked = link(
        real_traces / "pairs/simple_add_a100/torch_et_0.json.gz",
        real_traces / "pairs/dlrm_v100_8rank/kineto_trace_0.json.gz",
    )
    assert linked.coverage.host_ops.linked == 0
    assert linked.coverage.share == 0.0


# --- every file -------------------------------------------------------------------------------------

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


def test_no_file_of_the_folder_is_left_out(real_traces: Path):
    there = real_traces.glob("kineto/**/*.json.gz")
    assert {str(path.relative_to(real_traces)).removesuffix(".json.gz") for path in there} == set(
        KINETO_FILES
    )


@pytest.mark.parametrize("name", KINETO_FILES)
def test_every_device_event_has_an_op_or_a_reason(real_traces: Path, name: str):
    linked = alone(real_traces / f"{name}.json.gz")
    links = linked.device_links
    assert (links.get_column("op_event").is_null() == links.get_column("reason").is_not_null()).all()
    assert (links.get_column("op_event").is_null() == links.get_column("method").is_null()).all()
    categories = linked.timeline.events.get_column("category").cast(pl.String)
    assert links.height == categories.is_in(DEVICE_CATEGORIES).sum()


@pytest.mark.parametrize("name", KINETO_FILES)
def test_every_attributed_device_event_hangs_under_an_op_that_was_running_at_the_launch(
    real_traces: Path, name: str
):
    found = intervals(alone(real_traces / f"{name}.json.gz"))
    late = found.filter(
        (pl.col("call_ts") < pl.col("op_ts"))
        | (pl.col("call_ts") >= pl.col("op_end"))
        | (pl.col("op_lane") != pl.col("call_lane"))
    )
    assert late.height == 0


@pytest.mark.parametrize(("name", "figures"), ATTRIBUTED.items())
def test_how_many_device_events_are_attributed(real_traces: Path, name: str, figures: tuple[int, int]):
    gpu = alone(real_traces / f"{name}.json.gz").coverage.gpu_events
    assert (gpu.total, gpu.linked) == figures


def test_all_kernels_of_a_graph_launch_hang_under_one_op(real_traces: Path):
    linked = alone(real_traces / "kineto/mi300x_decode_graph_launch.json.gz")
    names = names_of(linked)
    graph = [event for event, name in names.items() if name == "hipGraphLaunch"]
    found = linked.device_links.filter(pl.col("call_event").is_in(graph))
    assert (found.height, found.get_column("op_event").n_unique()) == (544, 1)


@pytest.mark.parametrize("name", ["h100_qwen_stack_memory", "mi300x_qwen_stack_memory"])
def test_kernels_that_were_launched_before_the_profiler_started_say_so(real_traces: Path, name: str):
    linked = alone(real_traces / f"kineto/{name}.json.gz")
    lost = linked.device_links.filter(pl.col("op_event").is_null())
    calls = linked.timeline.host_calls.get_column("correlation")
    correlations = linked.timeline.device_work.join(lost, on="event_id", how="semi").get_column("correlation")
    assert lost.height > 400
    assert not correlations.is_in(calls.implode()).any()
    assert set(lost.get_column("reason").cast(pl.String)) == {
        "no call with its correlation is in the trace (launched before the profiler started, or dropped)"
    }


def test_mtia_work_without_a_correlation_says_so(real_traces: Path):
    linked = alone(real_traces / "kineto/mtia_inference.json.gz")
    work = linked.timeline.device_work.join(linked.device_links, on="event_id")
    none = work.filter(pl.col("correlation").is_null())
    assert none.height == 322
    assert set(none.get_column("reason").cast(pl.String)) == {"it carries no correlation id"}


# --- ET+ of real Execution Traces -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["resnet_1gpu_1.0.3", "resnet_2gpu_1.1.0"])
def test_every_node_of_a_nested_schema_comes_back_from_et_plus(real_traces: Path, tmp_path: Path, name: str):
    path = real_traces / f"et/{name}.json.gz"
    linked = link(path, real_traces / "kineto/cpu_only_rank34.json.gz")
    write_et_plus(linked, tmp_path / "et_plus.json.gz")
    found, original = load(tmp_path / "et_plus.json.gz"), load(path)
    assert found["schema"] == original["schema"]
    assert found["nodes"] == sorted(original["nodes"], key=lambda one: one["id"])


FLAT_ATTRS = ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid", "op_schema")


def nested(flat: Json) -> Json:
    """A node of schema 1.0.1 in the form of 1.0.2."""
    return {
        "id": flat["id"],
        "name": flat["name"],
        "ctrl_deps": flat["parent"],
        "inputs": {"values": flat["inputs"], "shapes": flat["input_shapes"], "types": flat["input_types"]},
        "outputs": {
            "values": flat["outputs"],
            "shapes": flat["output_shapes"],
            "types": flat["output_types"],
        },
        "attrs": {name: flat[name] for name in FLAT_ATTRS},
    }


@pytest.mark.parametrize("name", ["simple_add_a100", "dlrm_v100_8rank", "linear_2080ti"])
def test_every_node_of_the_flat_schema_comes_back_from_et_plus(real_traces: Path, tmp_path: Path, name: str):
    linked = pair(real_traces / "pairs" / name)
    write_et_plus(linked, tmp_path / "et_plus.json")
    found = json.loads((tmp_path / "et_plus.json").read_text(), parse_float=Decimal)["nodes"]
    host = [{k: v for k, v in one.items() if k not in ADDED} for one in found if "cat" not in one]
    for one in host:
        one["attrs"] = {attr["name"]: attr["value"] for attr in one["attrs"]}
    original = load(real_traces / f"pairs/{name}/torch_et_0.json.gz")["nodes"]
    assert host == sorted(map(nested, original), key=lambda one: one["id"])
    assert len(found) - len(host) == linked.device_links.height


def test_simple_adds_et_plus_has_the_times_of_the_kineto_file(real_traces: Path, tmp_path: Path):
    linked = pair(real_traces / "pairs/simple_add_a100")
    write_et_plus(linked, tmp_path / "et_plus.json")
    found = json.loads((tmp_path / "et_plus.json").read_text(), parse_float=Decimal)["nodes"]
    kineto = load(real_traces / "pairs/simple_add_a100/kineto_trace_0.json.gz")["traceEvents"]
    kernels = sorted((e["ts"], e["dur"], e["name"]) for e in kineto if e.get("cat") == "kernel")
    assert [(n["ts"], n["inclusive_dur"], n["name"]) for n in found if n.get("cat") == "kernel"] == kernels
    by_id = {e["args"]["External id"]: e for e in kineto if e.get("cat") in ("cpu_op", "user_annotation")}
    for one in found:
        if "cat" not in one and "ts" in one:
            rf_id = next(attr["value"] for attr in one["attrs"] if attr["name"] == "rf_id")
            assert (one["ts"], one["name"]) == (by_id[rf_id]["ts"], by_id[rf_id]["name"])


def test_the_et_plus_of_dlrm_keeps_all_device_events_with_a_reason(real_traces: Path, tmp_path: Path):
    """No host op is linked there, so that no device event has a node to hang under."""
    write_et_plus(pair(real_traces / "pairs/dlrm_v100_8rank", 1), tmp_path / "et_plus.json")
    found = json.loads((tmp_path / "et_plus.json").read_text())["nodes"]
    why = Counter(one["orphan"] for one in found if "cat" in one)
    assert why == {
        "the op that launched it has no node": 262,
        "no call with its correlation is in the trace (launched before the profiler started, or dropped)": 64,
    }


# --- the bundled traces -----------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [0, 1])
def test_the_demo_links_every_op_and_all_nodes_but_the_process_groups_init(demo: Path, rank: int):
    coverage = pair(demo, rank).coverage
    total = coverage.host_ops.total
    assert coverage.host_ops == Count(total, total, {"record_function_id": total})
    assert coverage.et_nodes == Count(total + 1, total, {})
    assert coverage.gpu_events == Count(0, 0, {})
    assert [(one.kind, one.count) for one in coverage.orphans] == [("et_node", 1)]
    assert "before the profiler starts" in coverage.orphans[0].reason


@pytest.mark.parametrize("rank", [0, 1])
def test_the_demos_external_ids_would_link_wrongly(demo: Path, rank: int):
    """A two-rank DDP capture of torch 2.13: the two ids differ on every op."""
    ops = pair(demo, rank).timeline.host_ops
    assert (ops.get_column("external_id") != ops.get_column("record_function_id")).all()


@pytest.mark.parametrize("rank", [0, 1])
def test_without_record_function_ids_the_demo_links_nothing_rather_than_wrongly(
    demo: Path, tmp_path: Path, rank: int
):
    kineto = load(demo / f"kineto_trace_{rank}.json.gz")
    for event in kineto["traceEvents"]:
        if isinstance(event.get("args"), dict):
            event["args"].pop("Record function id", None)
    (tmp_path / "kineto.json").write_text(json.dumps(kineto, default=float))
    coverage = link(demo / f"torch_et_{rank}.json.gz", tmp_path / "kineto.json").coverage
    assert coverage.host_ops.linked == 0
    assert coverage.share == 0.0


@pytest.mark.parametrize("rank", [0, 1])
def test_the_demos_links_agree_in_id_and_name_with_the_files(demo: Path, rank: int):
    linked = pair(demo, rank)
    kineto = [e for e in load(demo / f"kineto_trace_{rank}.json.gz")["traceEvents"] if e["ph"] == "X"]
    nodes = {n["id"]: n for n in load(demo / f"torch_et_{rank}.json.gz")["nodes"]}
    for event, node_id in linked.host_links.select("event_id", "node_id").iter_rows():
        attrs = {attr["name"]: attr["value"] for attr in nodes[node_id]["attrs"]}
        assert kineto[event]["name"] == nodes[node_id]["name"]
        assert kineto[event]["args"]["Record function id"] == attrs["rf_id"]


@pytest.mark.parametrize("rank", [0, 1])
def test_the_demos_backward_ops_are_linked_as_pytorchs_own_arrows_are(demo: Path, rank: int):
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
def test_the_demos_parents_differ_only_where_gloo_misled_the_observer(demo: Path, rank: int):
    """Kineto's nesting is right; 5 to 10 % of the nodes have another parent in the Execution Trace."""
    linked = pair(demo, rank)
    found = [one for one in linked.findings if one.code == "parents-differ"]
    assert len(found) == 1
    assert 0 < found[0].count < 0.1 * linked.coverage.host_ops.linked
