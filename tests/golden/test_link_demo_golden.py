"""Links of the bundled traces."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.golden.linked import load, names_of, pair
from tracebraid.api import link
from tracebraid.model.coverage import Count
from tracebraid.model.reason import OrphanReason


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
