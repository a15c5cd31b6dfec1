"""Both traces of a rank to one."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tests.builders import Json, call, et_text, kernel, kineto_text, node, op, write
from tests.growth import growth
from tests.unit.linking.made import et_of, linked_of
from tracebraid.analysis.ops.ops import ops
from tracebraid.api import link
from tracebraid.model.linked_trace import LinkedTrace


def test_an_execution_trace_of_another_rank_is_said(tmp_path: Path) -> None:
    kineto = write(tmp_path / "kineto_trace_0.json", kineto_text([op("a", 0, 1, Record_function_id=5)]))
    et = write(tmp_path / "torch_et_3.json", et_text(et_of(node(20, "a", 1001, rf_id=5))))
    found = [finding for finding in link(et, kineto).findings if finding.code == "ranks-differ"]
    assert [finding.path for finding in found] == [str(et)]
    assert "rank 3" in found[0].message
    assert "rank 0" in found[0].message


def test_all_findings_are_those_of_both_traces_and_of_the_link(tmp_path: Path) -> None:
    kineto = write(tmp_path / "kineto_trace_0.json", kineto_text([op("a", 0, 1)])[:-20])
    et = write(tmp_path / "torch_et_3.json", et_text([node(20, "a", 999, rf_id=5)], "9.9.9"))
    codes = [finding.code for finding in link(et, kineto).all_findings]
    assert {"schema-unknown", "parent-missing", "truncated", "ranks-differ"} <= set(codes)


def test_a_timeline_without_any_event_links_to_nothing(tmp_path: Path) -> None:
    kineto = write(tmp_path / "kineto_trace_0.json", kineto_text([]))
    linked = link(None, kineto)
    assert linked.host_tree.is_empty()
    assert linked.host_links.is_empty()
    assert linked.device_links.is_empty()
    assert linked.coverage.share == 1.0


def deep(levels: int) -> list[Json]:
    events = [op(f"op{i % 9}", i, 2 * levels - 2 * i + 10, Record_function_id=i + 1) for i in range(levels)]
    return [*events, call("launch", levels, 5, 7), kernel("k", levels + 3, 50, 7)]


def test_deep_nesting_links_and_is_answered_in_linear_time() -> None:
    """Launches and device totals look at the ops around an op, and may not go up level by level."""
    et = et_of(node(20, "op0", 1001, rf_id=1))

    def answered(events: list[Json]) -> tuple[LinkedTrace, pl.DataFrame]:
        linked = linked_of(events, et)
        return linked, ops(linked)

    assert growth(answered, deep(2500), deep(20_000)) < 24, (
        "8 times the levels: 8 times the time, 64 if quadratic"
    )
    linked, table = answered(deep(20_000))
    assert linked.device_links.get_column("node_id").to_list() == [20]
    assert table.get_column("device_total_ns").to_list() == [50_000] * 9
