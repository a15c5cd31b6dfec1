"""What launched the device's time."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracebraid
from tests.builders import Json, call, kernel, op
from tests.unit.linking.made import linked_of
from tracebraid.analysis.kernels.kernels import kernels
from tracebraid.analysis.kernels.launchers import launchers
from tracebraid.analysis.ops.ops import ops
from tracebraid.model.answers import LAUNCHERS


def one_of_each() -> list[Json]:
    """Work of 1, 2, 4, 8 and 16 us: by an op, an annotation, a graph inside an op, a call alone, and unknown."""
    return [
        op("ProfilerStep#1", 0, 300, cat="user_annotation"),
        op("mm", 10, 20),
        call("cudaLaunchKernel", 15, 5, 1),
        op("nccl:all_reduce", 40, 20, cat="user_annotation"),
        call("cudaLaunchKernel", 45, 5, 2),
        op("replay", 70, 20),
        call("cudaGraphLaunch", 75, 5, 3),
        call("cudaLaunchKernel", 400, 5, 4),
        *(kernel(f"k{i}", 500 + 20 * i, 2**i, i + 1) for i in range(5)),
    ]


def test_each_device_event_counts_for_one_launcher() -> None:
    table = launchers(linked_of(one_of_each()))
    assert table.select("launcher", "kernels", "device_ns").rows() == [
        ("graph", 1, 4_000),
        ("op", 1, 1_000),
        ("annotation", 1, 2_000),
        ("call", 1, 8_000),
        ("unknown", 1, 16_000),
    ]
    assert table.get_column("share").sum() == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch"])
def test_graphs_of_every_api_count(name: str) -> None:
    linked = linked_of([call(name, 0, 5, 1), *(kernel(f"k{i}", 10 * i, 5, 1) for i in range(3))])
    assert launchers(linked).select("launcher", "kernels").rows() == [("graph", 3)]


def test_per_step_what_has_no_launch_is_in_no_step() -> None:
    table = launchers(linked_of(one_of_each()), per_step=True)
    assert table.filter(table["step"].is_null()).select("launcher", "device_ns").rows() == [
        ("call", 8_000),
        ("unknown", 16_000),
    ]
    assert set(table.filter(step="ProfilerStep#1").get_column("launcher")) == {"graph", "op", "annotation"}


def test_the_time_is_that_of_the_kernels_and_of_the_ops() -> None:
    linked = linked_of(one_of_each())
    assert launchers(linked).get_column("device_ns").sum() == kernels(linked).get_column("total_ns").sum()
    with_op = launchers(linked).filter(launchers(linked)["launcher"].is_in(["graph", "op", "annotation"]))
    assert with_op.get_column("device_ns").sum() == ops(linked).get_column("device_self_ns").sum()


def test_a_trace_without_device_has_an_empty_table_of_the_schema() -> None:
    for per_step in (False, True):
        table = launchers(linked_of([op("a", 0, 5)]), per_step=per_step)
        assert table.is_empty()
        assert dict(table.schema) == LAUNCHERS.polars_schema()


def test_the_table_has_its_declared_schema() -> None:
    for per_step in (False, True):
        assert (
            dict(launchers(linked_of(one_of_each()), per_step=per_step).schema) == LAUNCHERS.polars_schema()
        )


def test_device_work_of_no_duration_has_no_share() -> None:
    assert launchers(linked_of([kernel("x", 0, 0, 1)])).get_column("share").to_list() == [0.0]


def test_all_ranks_of_a_job_are_asked(demo: Path) -> None:
    assert tracebraid.launchers(tracebraid.open(demo)).is_empty()
