"""Links of real pairs: their nodes, ops and kernels."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from tests.golden.linked import intervals, load, node_names_of, pair, reasons
from tracebraid.api import link
from tracebraid.errors import ProgramError
from tracebraid.model.coverage import Count
from tracebraid.model.reason import OrphanReason


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
    with pytest.raises(ProgramError, match="not of the program of"):
        link(et, kineto)
    linked = link(et, kineto, matching="exact")
    assert linked.coverage.host_ops.linked == 0
    assert linked.coverage.share == 0.0
