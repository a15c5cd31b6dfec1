"""Exposed communication by collective."""

from __future__ import annotations

from typing import Any

import pytest

import tracebraid
from tests.builders import Json, call, kernel, op
from tests.unit.linking.made import linked_of
from tracebraid.analysis.time.exposed_collectives import exposed_collectives
from tracebraid.analysis.time.message_sizes import elements_of, itemsize_of
from tracebraid.model.answers import EXPOSED_COLLECTIVES

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def collective(name: str, ts: float, dur: float, correlation: int, stream: int = 8, **more: Any) -> Json:
    args: Json = {"Collective name": name, "Process Group Name": "0", "dtype": "Float", "In msg nelems": 256}
    return kernel(NCCL, ts, dur, correlation, stream, **{**args, "Out msg nelems": 256, **more})


def rows_of(*events: Json, **options: Any) -> list[tuple[Any, ...]]:
    """(step, name, count, total, exposed) in µs."""
    found = exposed_collectives(linked_of(events), **options)
    rows = found.select("step", "name", "count", "total_ns", "exposed_ns").rows()
    return [(*row[:3], row[3] / 1000, row[4] / 1000) for row in rows]


def test_a_moment_counts_for_the_collective_that_began_first() -> None:
    found = rows_of(
        kernel("k", 0, 20, 1),
        collective("reduce_scatter", 10, 30, 2),
        collective("allreduce", 15, 50, 3, stream=9),
        collective("barrier", 30, 20, 4, stream=10),
    )
    assert found == [
        (None, "allreduce", 1, 50, 25),
        (None, "reduce_scatter", 1, 30, 20),
        (None, "barrier", 1, 20, 0),
    ]


def test_of_equal_starts_the_first_of_the_file_counts() -> None:
    found = rows_of(collective("b", 0, 10, 1), collective("a", 0, 30, 2, stream=9))
    assert found == [(None, "a", 1, 30, 20), (None, "b", 1, 10, 10)]


def test_a_row_is_an_operation_of_a_group_with_its_type_and_size() -> None:
    gather: dict[str, Any] = {"Out msg nelems": 1024, "Process Group Description": "tp"}
    linked = linked_of(
        [
            collective("_allgather_base", 0, 10, 1, **gather),
            collective("_allgather_base", 20, 10, 2, **gather),
            collective("_allgather_base", 40, 10, 3, **{**gather, "dtype": "BFloat16"}),
            collective("allreduce", 60, 5, 4, dtype="new"),
        ]
    )
    columns = ["name", "process_group", "description", "dtype", "message_bytes", "count"]
    assert exposed_collectives(linked).select(columns).rows() == [
        ("_allgather_base", "0", "tp", "Float", 4096, 2),
        ("_allgather_base", "0", "tp", "BFloat16", 2048, 1),
        ("allreduce", "0", None, "new", None, 1),
    ]


def test_arguments_may_be_those_of_the_op_around_the_launch() -> None:
    comms = op("record_param_comms", 1, 8)
    comms["args"] |= {"Collective name": "allreduce", "dtype": "Half", "In msg nelems": 16}
    launch = [op("nccl:all_reduce", 2, 6, cat="user_annotation"), call("cudaLaunchKernel", 3, 2, 1)]
    linked = linked_of([op("c10d::allreduce_", 0, 10), comms, *launch, kernel(NCCL, 20, 10, 1)])
    row = exposed_collectives(linked).row(0, named=True)
    assert (row["name"], row["dtype"], row["message_bytes"]) == ("allreduce", "Half", 32)


def test_old_traces_have_shapes_and_types_of_the_op() -> None:
    shapes: Json = {"Input_Dims": [[6, 4]], "Input_type": ["long int"]}
    launch = [op("nccl:all_to_all", 2, 6, **shapes), call("cudaLaunchKernel", 3, 2, 1)]
    row = exposed_collectives(linked_of([*launch, kernel(NCCL, 20, 10, 1)])).row(0, named=True)
    assert (row["name"], row["dtype"], row["message_bytes"]) == ("nccl:all_to_all", "long int", 192)
    alone = exposed_collectives(linked_of([kernel(NCCL, 20, 10, 1)])).row(0, named=True)
    assert (alone["name"], alone["dtype"], alone["message_bytes"]) == (NCCL, None, None)


@pytest.mark.parametrize("elements", [-1, 2**62, None, "many", {}])
def test_sizes_that_cannot_be_are_unknown(elements: object) -> None:
    sizes: dict[str, Any] = {"In msg nelems": elements, "Out msg nelems": elements}
    event = collective("allreduce", 0, 10, 1, **sizes)
    row = exposed_collectives(linked_of([event])).row(0, named=True)
    assert (row["message_bytes"], row["exposed_ns"]) == (None, 10_000)


def test_by_step_each_has_what_runs_in_it() -> None:
    marks = [op(f"ProfilerStep#{n}", 20 * n, 20, cat="user_annotation") for n in range(3)]
    found = rows_of(
        *marks, collective("allreduce", 10, 20, 1), collective("barrier", 35, 0, 2), per_step=True
    )
    assert found == [
        ("ProfilerStep#0", "allreduce", 1, 10, 10),
        ("ProfilerStep#1", "allreduce", 1, 10, 10),
        ("ProfilerStep#1", "barrier", 1, 0, 0),
    ]


def test_on_the_host_an_op_that_asks_counts_only_where_no_backend_communicates() -> None:
    found = rows_of(
        op("c10d::allreduce_", 0, 20, 1),
        op("record_param_comms", 5, 10, 1),
        op("gloo:all_reduce", 10, 30, 2, cat="user_annotation"),
        op("aten::mm", 35, 10, 3),
    )
    assert found == [(None, "gloo:all_reduce", 1, 30, 25), (None, "c10d::allreduce_", 0, 20, 10)]


@pytest.mark.parametrize("rank", [0, 1])
def test_the_demo_reduces_three_buckets_in_each_of_three_steps(rank: int) -> None:
    linked = tracebraid.link(None, tracebraid.demo_path() / f"kineto_trace_{rank}.json.gz")
    found = exposed_collectives(linked)
    gloo = found.filter(found.get_column("name") == "gloo:all_reduce")
    assert sorted(gloo.select("message_bytes", "dtype", "count").rows()) == [
        (33_536, "float", 3),
        (33_920, "float", 3),
        (34_176, "float", 3),
    ]
    assert set(found.get_column("process_group")) == {"0"}


def test_nothing_communicates() -> None:
    for events in ([], [kernel("k", 0, 1, 1)], [op("aten::mm", 0, 5)]):
        found = exposed_collectives(linked_of(events), per_step=True)
        assert found.is_empty()
        assert found.schema == EXPOSED_COLLECTIVES.polars_schema()


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("Float", 4),
        ("BFloat16", 2),
        ("c10::BFloat16", 2),
        ("Half", 2),
        ("Long", 8),
        ("long int", 8),
        ("unsigned char", 1),
        ("Float8_e4m3fn", 1),
        ("c10::Float8_e5m2", 1),
        ("c10::complex<float>", 8),
        ("TensorList", None),
        ("", None),
    ],
)
def test_types_have_sizes(dtype: str, size: int | None) -> None:
    assert itemsize_of(dtype) == size


@pytest.mark.parametrize(
    ("dims", "elements"),
    [
        ("[[8, 4], []]", 32),
        ("[[[8, 4], [2]], [], [[1], [[]]]]", 34),
        ("[[0]]", 0),
        ("[[]]", None),
        ("[]", None),
        ("[", None),
        ("3", None),
        ("[[-1]]", None),
        ("[[9223372036854775807, 9]]", None),
        ("[" * 5000 + "]" * 5000, None),
        ('["x"]', None),
    ],
)
def test_elements_are_those_of_the_first_input(dims: str, elements: int | None) -> None:
    assert elements_of(dims) == elements
