"""Where the time goes, and communication behind compute by group, stream and collective."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.builders import Json, call, complete, kernel, op
from tests.cases import cases
from tests.planted import Scene
from tests.unit.linking.made import linked_of
from tracebraid.analyses import breakdown, exposed_collectives, overlap
from tracebraid.analysis.host.host_rows import HostWork, ranges_of
from tracebraid.analysis.time.collective_events import elements_of, itemsize_of

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def over_all(*events: Json, **options: Any) -> dict[str, Any]:
    """The row over all, times in µs."""
    rows = breakdown(linked_of(events), **options).filter(pl.col("step").is_null()).to_dicts()
    assert len(rows) == 1
    return {key.removesuffix("_ns"): v / 1000 if key.endswith("_ns") else v for key, v in rows[0].items()}


def mtia(name: str, ts: float, dur: float) -> Json:
    return kernel(name, ts, dur, int(ts) + 1, cat="mtia_ccp_events")


@cases(
    "events, expected",
    {
        "from the first device event to the last": (
            [op("op", 0, 9), kernel("k", 100, 10, 1), kernel("k", 200, 30, 2)],
            {"start": 100, "span": 130, "compute": 40, "idle": 90},
        ),
        "the longest ends last though it starts first": (
            [kernel("long", 100, 500, 1), kernel("short", 200, 30, 2, stream=8)],
            {"span": 500, "compute": 500},
        ),
        "two streams at once count once": (
            [kernel("k", 0, 10, 1), kernel("k", 5, 10, 2, stream=8)],
            {"span": 15, "compute": 15, "idle": 0},
        ),
        "communication behind compute, and exposed": (
            [kernel("k", 0, 10, 1), kernel(NCCL, 6, 10, 2, stream=8)],
            {"communication": 10, "overlap": 4, "exposed_communication": 6, "compute": 10, "idle": 0},
        ),
        "copies where nothing else runs": (
            [
                kernel("k", 0, 10, 1),
                kernel(NCCL, 10, 10, 2, stream=8),
                kernel("Memcpy", 5, 25, 3, stream=9, cat="gpu_memcpy"),
            ],
            {"memory": 25, "exposed_memory": 10, "span": 30},
        ),
        "waits of MTIA are not busy": (
            [
                mtia("pe_exe", 0, 10),
                mtia("event_wait", 10, 50),
                mtia("event_record", 60, 5),
                mtia("dma_request", 70, 10),
            ],
            {"span": 80, "compute": 10, "memory": 10, "idle": 60},
        ),
        "a synchronisation is no work": (
            [kernel("k", 0, 5, 1), complete("Stream Sync", "cuda_sync", 5, 90, 0, 7, {"stream": 7})],
            {"span": 5, "compute": 5},
        ),
        "an annotation of the device is no work": (
            [kernel("k", 0, 5, 1), complete("step", "gpu_user_annotation", 0, 90, 0, 7)],
            {"span": 5, "compute": 5},
        ),
        "host ops where there is no device": (
            [
                op("aten::mul", 0, 10),
                op("gloo:all_reduce", 5, 10, tid=2, cat="user_annotation"),
                op("aten::add", 30, 10),
                op("ProfilerStep#1", 0, 100, cat="user_annotation"),
            ],
            {"device": "cpu", "span": 40, "compute": 20, "communication": 10, "overlap": 5}
            | {"exposed_communication": 5, "idle": 15},
        ),
        "nested host ops count once": ([op("a", 0, 10), op("b", 2, 5)], {"compute": 10}),
        "collective arguments, whatever the name": (
            [kernel("my_own_kernel", 0, 5, 1, **Json({"Collective name": "allreduce", "Group size": 2}))],
            {"communication": 5},
        ),
    },
)
def test_the_parts_of_the_span(events: list[Json], expected: dict[str, object]) -> None:
    row = over_all(*events)
    assert {name: row[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("part", "category", "names"),
    [
        ("memory", "gpu_memcpy", ["x"]),
        ("memory", "gpu_memset", ["x"]),
        (
            "communication",
            "kernel",
            [
                NCCL,
                "ncclKernel_SendRecv(ncclWorkElem)",
                "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
                "void vllm::cross_device_reduce_2stage<half, 8>(...)",
                "nvshmemi_barrier",
            ],
        ),
        (
            "communication",
            "cpu_op",
            ["c10d::allreduce_", "record_param_comms", "nccl:all_reduce", "_c10d_functional::all_reduce"],
        ),
        ("compute", "cpu_op", ["glooming::op", "torch.distributed.ddp.reducer::copy_bucket_to_grad"]),
    ],
)
def test_names_and_categories_say_what_part_an_event_is_of(
    part: str, category: str, names: list[str]
) -> None:
    make = op if category == "cpu_op" else kernel
    for name in names:
        assert over_all(make(name, 0, 5, 1, cat=category))[part] == 5


def test_each_device_has_rows_of_its_own_in_the_order_of_their_numbers() -> None:
    events = [complete("k", "kernel", 100 * device, 7, device, 7) for device in (10, 9, 2)]
    found = breakdown(linked_of(events, header={"distributedInfo": {"rank": 7}}))
    rows = found.select("rank", "device", "start_ns", "compute_ns").rows()
    assert rows == [(7, str(device), device * 100_000, 7000) for device in (2, 9, 10)]


def test_a_step_lasts_from_the_end_of_the_step_before_to_that_of_its_own_work() -> None:
    events = [
        op("ProfilerStep#1", 0, 100, cat="user_annotation"),
        op("ProfilerStep#2", 100, 100, cat="user_annotation"),
        call("launch", 90, 2, 1),
        kernel("k", 95, 30, 1),
    ]
    rows = breakdown(linked_of(events)).select("step", "start_ns", "span_ns", "compute_ns", "idle_ns").rows()
    assert rows == [
        (None, 95_000, 30_000, 30_000, 0),
        ("ProfilerStep#1", 0, 125_000, 30_000, 95_000),
        ("ProfilerStep#2", 125_000, 75_000, 0, 75_000),
    ]


def test_another_annotation_can_mark_the_steps() -> None:
    events = [op("train", 0, 100, cat="user_annotation"), kernel("k", 95, 30, 1)]
    steps = breakdown(linked_of(events).with_annotation("train")).get_column("step").to_list()
    assert steps == [None, "train"]


def test_a_step_in_which_the_device_does_nothing_is_idle() -> None:
    events = [op("ProfilerStep#1", 0, 50, cat="user_annotation"), kernel("k", 95, 30, 1)]
    row = breakdown(linked_of(events)).filter(step="ProfilerStep#1").to_dicts()[0]
    assert (row["span_ns"], row["idle_ns"]) == (50_000, 50_000)


@pytest.mark.parametrize("name", ["compile_file (dynamo_timed)", "compile_file"])
def test_compiling_is_no_computing_of_a_host(name: str) -> None:
    events = [op(name, 0, 90, cat="cpu_op"), op("aten::mm", 90, 10)]
    row = breakdown(linked_of(events)).row(0, named=True)
    assert (row["span_ns"], row["compute_ns"]) == (10_000, 10_000)
    named = ranges_of(linked_of(events), HostWork.COMPILES)
    assert named.select("start_ns", "end_ns", "op").rows() == [(0, 90_000, name)]


def grouped(ts: float, dur: float, group: str, stream: int, correlation: int) -> Json:
    args: Json = {"Collective name": "allreduce", "Process Group Name": group, "dtype": "Float"}
    return kernel(NCCL, ts, dur, correlation, stream, **args)


def overlap_rows(*events: Json, **options: Any) -> list[tuple[Any, ...]]:
    """(step, group, stream, count, communication, hidden, exposed) in µs."""
    columns = ["step", "process_group", "stream", "count", "communication_ns", "overlap_ns", "exposed_ns"]
    rows = overlap(linked_of(events), **options).select(columns).rows()
    return [(*row[:4], *(value / 1000 for value in row[4:])) for row in rows]


def test_each_group_and_stream_has_a_row_after_that_over_all() -> None:
    found = overlap_rows(
        kernel("k", 0, 20, 1),
        grouped(10, 20, "tp", 8, 2),
        grouped(25, 10, "dp", 9, 3),
        grouped(50, 10, "dp", 10, 4),
    )
    assert found == [
        (None, None, None, 3, 35, 10, 25),
        (None, "dp", "10", 1, 10, 0, 10),
        (None, "dp", "9", 1, 10, 0, 10),
        (None, "tp", "8", 1, 20, 10, 10),
    ]


def test_by_step_it_is_what_runs_in_the_step() -> None:
    found = overlap_rows(
        op("ProfilerStep#1", 0, 20, cat="user_annotation"),
        op("ProfilerStep#2", 20, 30, cat="user_annotation"),
        op("ProfilerStep#3", 60, 30, cat="user_annotation"),
        kernel("k", 0, 25, 1),
        grouped(10, 20, "dp", 8, 2),
        per_step=True,
    )
    assert found == [
        ("ProfilerStep#1", None, None, 1, 10, 10, 0),
        ("ProfilerStep#1", "dp", "8", 1, 10, 10, 0),
        ("ProfilerStep#2", None, None, 1, 10, 5, 5),
        ("ProfilerStep#2", "dp", "8", 1, 10, 5, 5),
    ]


def test_a_group_that_the_file_does_not_name_has_a_stream() -> None:
    found = overlap_rows(kernel("k", 0, 20, 1), kernel(NCCL, 10, 20, 2, stream=8))
    assert [row[1:3] for row in found] == [(None, None), (None, "8")]


def test_the_only_group_of_the_file_is_that_of_collectives_without_arguments() -> None:
    info = {"distributedInfo": {"rank": 0, "pg_config": [{"pg_name": "7", "pg_desc": "dp", "ranks": [0, 1]}]}}
    linked = linked_of([kernel(NCCL, 10, 20, 2, stream=8)], header=info)
    assert overlap(linked).select("process_group", "description").rows() == [(None, None), ("7", "dp")]


def test_on_the_host_threads_stand_for_streams() -> None:
    found = overlap_rows(
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
    found = overlap_rows(op(asking, 0, 10, 1, **asked), op(range_name, 5, 20, 2, **ran))
    assert found[0][3:] == (collectives, 25, 0, 25)


def test_without_ranges_of_a_backend_the_ops_that_ask_count() -> None:
    assert overlap_rows(op("c10d::allreduce_", 0, 10, 1), op("c10d::allreduce_", 20, 10, 1))[0][3] == 2


def collective(name: str, ts: float, dur: float, correlation: int, stream: int = 8, **more: Any) -> Json:
    args: Json = {"Collective name": name, "Process Group Name": "0", "dtype": "Float", "In msg nelems": 256}
    return kernel(NCCL, ts, dur, correlation, stream, **{**args, "Out msg nelems": 256, **more})


def exposed_rows(*events: Json, **options: Any) -> list[tuple[Any, ...]]:
    """(step, name, count, total, exposed) in µs."""
    found = exposed_collectives(linked_of(events), **options)
    rows = found.select("step", "name", "count", "total_ns", "exposed_ns").rows()
    return [(*row[:3], row[3] / 1000, row[4] / 1000) for row in rows]


def test_a_moment_counts_for_the_collective_that_began_first() -> None:
    found = exposed_rows(
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
    found = exposed_rows(collective("b", 0, 10, 1), collective("a", 0, 30, 2, stream=9))
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
    found = exposed_rows(
        *marks, collective("allreduce", 10, 20, 1), collective("barrier", 35, 0, 2), per_step=True
    )
    assert found == [
        ("ProfilerStep#0", "allreduce", 1, 10, 10),
        ("ProfilerStep#1", "allreduce", 1, 10, 10),
        ("ProfilerStep#1", "barrier", 1, 0, 0),
    ]


def test_on_the_host_an_op_that_asks_counts_only_where_no_backend_communicates() -> None:
    found = exposed_rows(
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
        ("[[[8, 4], []]]", 33),
        ("[[[]], [], []]", 1),
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
