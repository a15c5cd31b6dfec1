"""Communication behind compute, by process group and stream."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Json, call, kernel, op
from tests.planted import Scene
from tests.unit.linking.made import linked_of
from tracebraid.analysis.time.overlap import overlap
from tracebraid.model.answers import OVERLAP

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def collective(ts: float, dur: float, group: str, stream: int, correlation: int) -> Json:
    args: Json = {"Collective name": "allreduce", "Process Group Name": group, "dtype": "Float"}
    return kernel(NCCL, ts, dur, correlation, stream, **args)


def rows_of(*events: Json, **options: Any) -> list[tuple[Any, ...]]:
    """(step, group, stream, count, communication, hidden, exposed) in µs."""
    columns = ["step", "process_group", "stream", "count", "communication_ns", "overlap_ns", "exposed_ns"]
    rows = overlap(linked_of(events), **options).select(columns).rows()
    return [(*row[:4], *(value / 1000 for value in row[4:])) for row in rows]


def test_each_group_and_stream_has_a_row_after_that_over_all() -> None:
    found = rows_of(
        kernel("k", 0, 20, 1),
        collective(10, 20, "tp", 8, 2),
        collective(25, 10, "dp", 9, 3),
        collective(50, 10, "dp", 10, 4),
    )
    assert found == [
        (None, None, None, 3, 35, 10, 25),
        (None, "dp", "10", 1, 10, 0, 10),
        (None, "dp", "9", 1, 10, 0, 10),
        (None, "tp", "8", 1, 20, 10, 10),
    ]


def test_by_step_it_is_what_runs_in_the_step() -> None:
    found = rows_of(
        op("ProfilerStep#1", 0, 20, cat="user_annotation"),
        op("ProfilerStep#2", 20, 30, cat="user_annotation"),
        op("ProfilerStep#3", 60, 30, cat="user_annotation"),
        kernel("k", 0, 25, 1),
        collective(10, 20, "dp", 8, 2),
        per_step=True,
    )
    assert found == [
        ("ProfilerStep#1", None, None, 1, 10, 10, 0),
        ("ProfilerStep#1", "dp", "8", 1, 10, 10, 0),
        ("ProfilerStep#2", None, None, 1, 10, 5, 5),
        ("ProfilerStep#2", "dp", "8", 1, 10, 5, 5),
    ]


def test_a_group_that_the_file_does_not_name_has_a_stream() -> None:
    found = rows_of(kernel("k", 0, 20, 1), kernel(NCCL, 10, 20, 2, stream=8))
    assert [row[1:3] for row in found] == [(None, None), (None, "8")]


def test_the_only_group_of_the_file_is_that_of_collectives_without_arguments() -> None:
    info = {"distributedInfo": {"rank": 0, "pg_config": [{"pg_name": "7", "pg_desc": "dp", "ranks": [0, 1]}]}}
    linked = linked_of([kernel(NCCL, 10, 20, 2, stream=8)], header=info)
    assert overlap(linked).select("process_group", "description").rows() == [(None, None), ("7", "dp")]


def test_on_the_host_threads_stand_for_streams() -> None:
    found = rows_of(
        op("aten::mm", 0, 10, 1),
        op("gloo:all_reduce", 5, 20, 2, cat="user_annotation"),
        op("gloo:all_reduce", 15, 20, 3, cat="user_annotation"),
    )
    assert found == [
        (None, None, None, 2, 30, 5, 25),
        (None, None, "2", 1, 20, 5, 15),
        (None, None, "3", 1, 20, 0, 20),
    ]


def test_a_share_is_null_without_communication_and_never_nan() -> None:
    share = overlap(linked_of([kernel(NCCL, 10, 0, 2)])).get_column("overlap_share")
    assert share.to_list() == [None, None]


def test_nothing_communicates() -> None:
    for events in ([], [kernel("k", 0, 1, 1)], [op("aten::mm", 0, 5)], [call("c", 0, 1, 1)]):
        found = overlap(linked_of(events), per_step=True)
        assert found.is_empty()
        assert found.schema == OVERLAP.polars_schema()


def test_planted_groups_are_found() -> None:
    scene = Scene(world_size=4)
    scene.groups["1"] = [0, 1]
    host, compute, network = scene.thread(), scene.stream(7), scene.stream(20)
    with host.op("aten::mm"):
        product = host.launch(compute, "gemm", 50_000)
    reduced = host.collective(network, 80_000, group="1", at=product.end - 30_000)
    host.synchronize()
    rows = overlap(scene.linked()).to_dicts()
    assert [(row["process_group"], row["stream"]) for row in rows] == [(None, None), ("1", "20")]
    assert {(r["communication_ns"], r["overlap_ns"], r["exposed_ns"]) for r in rows} == {
        (reduced.dur, 30_000, 50_000)
    }


@pytest.mark.parametrize(
    ("range_name", "ranges_group", "asking", "collectives"),
    [
        ("gloo:all_reduce", {}, "c10d::allreduce_", 1),
        ("gloo:all_reduce", {"Process Group Name": "dp"}, "c10d::allreduce_", 1),
        ("gloo:all_reduce", {"Process Group Name": "tp"}, "c10d::allreduce_", 2),
        ("gloo:all_reduce", {"Process Group Name": "dp"}, "c10d::send", 2),
        ("gloo:send", {"Process Group Name": "dp"}, "c10d::send", 1),
    ],
)
def test_a_collective_that_is_asked_for_and_run_counts_once(
    range_name: str, ranges_group: Json, asking: str, collectives: int
) -> None:
    asked = {"Collective name": asking, "Process Group Name": "dp"}
    ran = {"Collective name": range_name, **ranges_group} if ranges_group else {}
    found = rows_of(op(asking, 0, 10, 1, **asked), op(range_name, 5, 20, 2, **ran))
    assert found[0][3:] == (collectives, 25, 0, 25)


def test_without_ranges_of_a_backend_the_ops_that_ask_count() -> None:
    assert rows_of(op("c10d::allreduce_", 0, 10, 1), op("c10d::allreduce_", 20, 10, 1))[0][3] == 2
