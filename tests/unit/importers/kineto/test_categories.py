"""Categories of before 2022, unknown ones, and device work that no host op explains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders import Json, call, complete, kernel, kineto_text, op, write
from tracebraid.api import breakdown, kernels, link, ops, read_timeline
from tracebraid.model.category import CATEGORY_BY_OLD_NAME, ROLE_BY_CATEGORY
from tracebraid.model.timeline import Timeline


def timeline_of(folder: Path, events: list[Json]) -> Timeline:
    return read_timeline(write(folder / "kineto_trace_0.json", kineto_text(events)), processes=1)


def codes(timeline: Timeline) -> list[str]:
    return [finding.code for finding in timeline.findings]


def of_2022() -> list[Json]:
    """A step as PyTorch 1.9 wrote it."""
    events = [
        op("ProfilerStep#1", 0, 200, cat="User Annotation"),
        op("aten::mm", 10, 50, cat="Operator", Input_dims=[[2, 3], [3, 4]]),
        call("cudaLaunchKernel", 20, 5, 1, cat="Runtime"),
        call("cudaMemcpyAsync", 30, 5, 2, cat="Runtime"),
        call("cudaMemsetAsync", 40, 5, 3, cat="Runtime"),
        kernel("gemm", 100, 20, 1, cat="Kernel"),
        kernel("Memcpy HtoD", 130, 10, 2, cat="Memcpy"),
        kernel("Memset (Device)", 150, 5, 3, cat="Memset"),
    ]
    for event in events:
        if event["cat"] in ("Runtime", "Kernel", "Memcpy", "Memset"):
            event["args"]["external id"] = 7
    return events


def test_old_categories_answer_as_todays_do(tmp_path: Path) -> None:
    linked = link(None, timeline_of(tmp_path, of_2022()))
    over_all = breakdown(linked).to_dicts()[0]
    assert (over_all["compute_ns"], over_all["memory_ns"]) == (20_000, 15_000)
    assert breakdown(linked).get_column("step").to_list() == [None, "ProfilerStep#1"]
    assert set(kernels(linked).get_column("kind")) == {"compute", "memory"}
    mm = ops(linked).filter(name="aten::mm").to_dicts()[0]
    assert (mm["category"], mm["device_self_ns"], mm["kernels"]) == ("cpu_op", 35_000, 3)


def test_old_categories_fill_the_tables_of_todays(tmp_path: Path) -> None:
    timeline = timeline_of(tmp_path, of_2022())
    assert timeline.device_work.get_column("external_id").to_list() == [7, 7, 7]
    assert timeline.host_calls.get_column("correlation").to_list() == [1, 2, 3]
    assert timeline.host_ops.get_column("input_dims").drop_nulls().len() == 1


def test_the_old_names_are_said_once(tmp_path: Path) -> None:
    timeline = timeline_of(tmp_path, of_2022())
    assert codes(timeline).count("category-old") == 1
    (finding,) = (one for one in timeline.findings if one.code == "category-old")
    assert all(name in finding.message for name in ("Kernel", "Operator", "Runtime", "User Annotation"))


def test_old_and_new_names_in_one_trace_are_one_category(tmp_path: Path) -> None:
    timeline = timeline_of(
        tmp_path, [kernel("a", 0, 5, 1, cat="Kernel"), kernel("b", 10, 5, 2), op("x", 0, 1)]
    )
    assert timeline.events.get_column("category").cast(str).to_list() == ["kernel", "kernel", "cpu_op"]
    assert timeline.device_work.height == 2


def test_every_old_name_has_a_category_with_a_role() -> None:
    assert set(CATEGORY_BY_OLD_NAME.values()) <= set(ROLE_BY_CATEGORY)
    assert not set(CATEGORY_BY_OLD_NAME) & set(ROLE_BY_CATEGORY)


def test_device_work_of_an_unknown_category_is_said(tmp_path: Path) -> None:
    timeline = timeline_of(tmp_path, [op("x", 0, 5), kernel("k", 10, 5, 1, cat="npu_kernel")])
    assert "device-work-unread" in codes(timeline)


def test_host_events_of_an_unknown_category_are_said_but_are_no_device_work(tmp_path: Path) -> None:
    timeline = timeline_of(tmp_path, [op("x", 0, 5), complete("y", "my_tool", 1, 2, 1, 1)])
    assert "category-unknown" in codes(timeline)
    assert "device-work-unread" not in codes(timeline)


@pytest.mark.parametrize("cat", ["kernel", "Kernel"])
def test_device_work_without_host_ops_is_said_where_the_answer_of_ops_is_empty(
    tmp_path: Path, cat: str
) -> None:
    timeline = timeline_of(tmp_path, [kernel("k", 10, 5, 1, cat=cat)])
    assert ops(link(None, timeline)).is_empty()
    assert "host-ops-missing" in codes(timeline)


def test_a_trace_of_todays_categories_gives_no_finding(tmp_path: Path) -> None:
    assert codes(timeline_of(tmp_path, [op("x", 0, 5), call("l", 1, 1, 1), kernel("k", 10, 5, 1)])) == []


def test_shapes_stand_on_one_line_however_the_file_is_indented(tmp_path: Path) -> None:
    """kineto_text indents by two, as json.dump(indent=2) does."""
    dims = [[2, 3], [], [[4], [5]]]
    timeline = timeline_of(tmp_path, [op("x", 0, 5, Input_Dims=dims, Concrete_Inputs=["a\nb", "[1,2]"])])
    row = timeline.host_ops.to_dicts()[0]
    assert row["input_dims"] == "[[2, 3], [], [[4], [5]]]"
    assert row["concrete_inputs"] == '["a\\nb", "[1,2]"]'


def test_equal_shapes_written_in_two_ways_are_one_row_of_ops(tmp_path: Path) -> None:
    text = kineto_text([op("x", 0, 5, Input_Dims=[[2, 3]]), op("x", 10, 5, Input_Dims=[[2, 3]])])
    broken, compact = json.dumps([[2, 3]], indent=2).replace("\n", "\n      "), "[[2,3]]"
    assert text.count(broken) == 2
    path = write(tmp_path / "kineto_trace_0.json", text.replace(broken, compact, 1))
    assert ops(link(None, path)).get_column("count").to_list() == [2]
