"""Launches: each with its delay, by op and API, the queue they make, stretches bound by them, and CUPTI's counters."""

from __future__ import annotations

from statistics import mean, stdev

import polars as pl
import pytest

from tests.builders import Json, call, complete, kernel, op
from tests.cases import cases
from tests.planted import CALL_NS, LATENCY_NS, Copy, Scene, device_scene, host_scene, scenes
from tests.unit.linking.made import linked_of
from tracebraid.analyses import (
    copy_bandwidth,
    counters,
    full_queue,
    launch_bound,
    launch_events,
    launches,
    queue_lengths,
    queue_series,
    syncs,
)
from tracebraid.analysis.launches.launch_bound import LEAST_LAUNCHES, STALL_NS
from tracebraid.model.linked_trace import LinkedTrace

STEP = [op("ProfilerStep#2", 0, 100, cat="user_annotation")]


def test_a_launch_has_its_op_its_step_and_its_times() -> None:
    linked = linked_of(
        [*STEP, op("aten::mm", 10, 30), call("cudaLaunchKernel", 20, 5, 1), kernel("gemm", 28, 7, 1)]
    )
    (row,) = launch_events(linked).to_dicts()
    assert row["step"] == "ProfilerStep#2"
    assert (row["api"], row["op"], row["correlation"]) == ("cudaLaunchKernel", "aten::mm", 1)
    assert (row["host_ns"], row["device_ns"], row["device_span_ns"]) == (5_000, 7_000, 7_000)
    assert (row["after_start_ns"], row["after_end_ns"], row["delay_ns"]) == (8_000, 3_000, 3_000)
    assert (row["device"], row["stream"], row["streams"], row["kernels"]) == ("0", "7", 1, 1)


@cases(
    "events, columns, rows",
    {
        "work during the call": (
            [call("cudaLaunchKernel", 20, 50, 1), kernel("gemm", 28, 7, 1)],
            "after_start_ns after_end_ns delay_ns",
            [(8_000, -42_000, 0)],
        ),
        "a call and work apart": ([call("cudaLaunchKernel", 20, 5, 1), kernel("gemm", 28, 7, 2)], "api", []),
        "in the order of starts": (
            [call("late", 50, 2, 1), call("early", 10, 2, 2), kernel("a", 60, 1, 1), kernel("b", 70, 1, 2)],
            "api",
            [("early",), ("late",)],
        ),
    },
)
def test_launches_of_few_events(events: list[Json], columns: str, rows: list[tuple[object, ...]]) -> None:
    assert launch_events(linked_of(events)).select(columns.split()).rows() == rows


@pytest.mark.parametrize("api", ["cuLaunchKernel", "hipExtModuleLaunchKernel", "enqueueCommand", "any thing"])
@pytest.mark.parametrize("category", ["cuda_runtime", "xpu_runtime", "privateuse1_driver", "mtia_runtime"])
def test_a_launch_is_known_by_its_effect_and_not_by_its_name(api: str, category: str) -> None:
    linked = linked_of([call(api, 20, 5, 1, cat=category), kernel("gemm", 28, 7, 1)])
    assert launch_events(linked).select("api", "host_ns", "device_ns").rows() == [(api, 5_000, 7_000)]


def test_a_graph_is_one_launch_of_all_its_kernels() -> None:
    graph = [kernel(f"k{i}", 30 + 10 * i, 4, 1, stream=7 + i % 2) for i in range(5)]
    linked = linked_of([call("cudaGraphLaunch", 20, 5, 1), *graph])
    (row,) = launch_events(linked).to_dicts()
    assert (row["kernels"], row["streams"], row["stream"]) == (5, 2, "7")
    assert (row["device_ns"], row["device_span_ns"], row["delay_ns"]) == (20_000, 44_000, 5_000)


def test_the_stream_idles_until_work_of_a_late_launch() -> None:
    events = [
        call("launch", 0, 2, 1),
        kernel("a", 10, 10, 1),
        call("launch", 30, 2, 2),
        kernel("b", 35, 10, 2),
    ]
    queued = [call("launch", 40, 2, 3), kernel("c", 45, 10, 3)]
    idle = launch_events(linked_of([*events, *queued])).get_column("stream_idle_ns").to_list()
    assert idle == [None, 15_000, 0]


def test_streams_do_not_count_for_each_other() -> None:
    events = [call("launch", 0, 2, 1), kernel("a", 10, 30, 1), call("launch", 20, 2, 2)]
    linked = linked_of([*events, kernel("b", 25, 10, 2, stream=20)])
    assert launch_events(linked).get_column("stream_idle_ns").to_list() == [None, None]


def events(count: int = 4) -> list[Json]:
    """Launches of one op: call i takes i + 1 µs, its kernel starts 2 µs later and takes 3 µs."""
    calls = [call("cudaLaunchKernel", 20 * i, i + 1, i + 1) for i in range(count)]
    kernels = [kernel("k", 20 * i + i + 3, 3, i + 1) for i in range(count)]
    return [op("aten::mm", 0, 20 * count), *calls, *kernels]


def test_launches_of_an_op_are_summed_up() -> None:
    (row,) = launches(linked_of(events())).to_dicts()
    assert (row["op"], row["api"], row["count"], row["kernels"]) == ("aten::mm", "cudaLaunchKernel", 4, 4)
    host = [row[f"host_{part}"] for part in ("ns", "mean_ns", "median_ns", "max_ns")]
    assert host == [10_000, 2_500.0, 2_500.0, 4_000]
    assert row["host_p95_ns"] == pytest.approx(3_850.0)
    assert (row["delay_ns"], row["delay_mean_ns"], row["delay_max_ns"]) == (8_000, 2_000.0, 2_000)
    assert (row["device_ns"], row["device_median_ns"]) == (12_000, 3_000.0)


def test_short_launches_are_those_whose_work_is_shorter_than_their_call() -> None:
    assert launches(linked_of(events())).get_column("short").to_list() == [1]


def test_each_api_and_op_has_a_row_the_most_host_time_first() -> None:
    others = [call("cuLaunchKernel", 90, 40, 9), kernel("triton", 140, 5, 9)]
    table = launches(linked_of([*events(), *others]))
    assert table.select("op", "api", "host_ns").rows() == [
        (None, "cuLaunchKernel", 40_000),
        ("aten::mm", "cudaLaunchKernel", 10_000),
    ]


def test_by_step_a_launch_counts_where_its_call_lies() -> None:
    steps = [op(f"ProfilerStep#{i}", 40 * i, 40, cat="user_annotation", tid=2) for i in (0, 1)]
    table = launches(linked_of([*steps, *events()]), per_step=True)
    assert table.select("step", "count", "host_ns").rows() == [
        ("ProfilerStep#0", 2, 3_000),
        ("ProfilerStep#1", 2, 7_000),
    ]
    assert table.get_column("host_ns").sum() == launches(linked_of(events())).get_column("host_ns").sum()


def test_doubtful_steps_count_in_sums_and_in_no_means(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubt(step: str | None) -> None:
        doubtful = pl.Series([step], dtype=pl.String)
        monkeypatch.setattr("tracebraid.analysis.answering.doubtful_steps", lambda *_: doubtful)

    doubt("ProfilerStep#1")
    steps = [op(f"ProfilerStep#{i}", 40 * i, 40, cat="user_annotation", tid=2) for i in (0, 1)]
    linked = linked_of([*steps, *events()])
    (row,) = launches(linked).to_dicts()
    assert (row["count"], row["host_ns"], row["host_mean_ns"], row["host_max_ns"]) == (
        4,
        10_000,
        1_500.0,
        4_000,
    )
    (row,) = launches(linked, with_doubtful=True).to_dicts()
    assert (row["host_mean_ns"], row["host_max_ns"]) == (2_500.0, 4_000)
    assert launches(linked, per_step=True).get_column("host_mean_ns").to_list() == [1_500.0, 3_500.0]
    doubt(None)
    (row,) = launches(linked_of(events())).to_dicts()
    figures = [row[f"host_{part}"] for part in ("ns", "mean_ns", "p95_ns", "max_ns")]
    assert figures == [10_000, None, None, 4_000]


def ahead(count: int, stream: int = 7, first: int = 1, at: int = 0) -> list[Json]:
    """Calls 1 µs apart whose kernels start 10 µs apart from 100 µs on: the queue grows to `count`, then shrinks."""
    calls = [call("cudaLaunchKernel", at + i, 1, first + i) for i in range(count)]
    return [*calls, *(kernel("k", at + 100 + 10 * i, 10, first + i, stream) for i in range(count))]


def test_every_stream_has_its_own_queue_in_the_order_of_their_numbers() -> None:
    table = queue_lengths(linked_of([*ahead(2, stream=20), *ahead(5, stream=7, first=10)]))
    assert table.select("stream", "count", "max").rows() == [("7", 10, 5), ("20", 4, 2)]
    (row,) = queue_lengths(linked_of([call("launch", 20, 5, 1), kernel("k", 20, 5, 1)])).to_dicts()
    assert (row["count"], row["mean_over_time"]) == (2, None), "changes at one moment"


def test_the_statistics_are_those_of_the_lengths_after_each_change() -> None:
    (row,) = queue_lengths(linked_of(ahead(3))).to_dicts()
    lengths = [1, 2, 3, 2, 1, 0]
    assert (row["count"], row["min"], row["p50"], row["max"]) == (6, 0, 1.5, 3)
    assert row["mean"] == pytest.approx(mean(lengths))
    assert row["std"] == pytest.approx(stdev(lengths))
    assert row["mean_over_time"] == pytest.approx((1 + 2 + 3 * 98 + 2 * 10 + 1 * 10) / 120)


@cases(
    "events, times, lengths, launches",
    {
        "starts of calls and of work": (
            ahead(3),
            [0, 1_000, 2_000, 100_000, 110_000, 120_000],
            [1, 2, 3, 2, 1, 0],
            [1, 2, 3, 2, 1, 0],
        ),
        "a graph is one launch until its last kernel starts": (
            [call("cudaGraphLaunch", 20, 5, 1), *(kernel(f"k{i}", 30 + 10 * i, 4, 1) for i in range(3))],
            [0, 0, 0, 10_000, 20_000, 30_000],
            [1, 2, 3, 2, 1, 0],
            [1, 1, 1, 1, 1, 0],
        ),
        "work before its call": ([call("l", 20, 5, 1), kernel("k", 15, 5, 1)], None, [1, 0], [1, 0]),
    },
)
def test_the_queue_over_time(
    events: list[Json], times: list[int] | None, lengths: list[int], launches: list[int]
) -> None:
    table = queue_series(linked_of(events))
    assert table.get_column("length").to_list() == lengths
    assert table.get_column("launches").to_list() == launches
    ts = table.get_column("ts_ns")
    assert times is None or (ts - ts[0]).to_list() == times


def test_by_step_each_change_counts_in_the_step_of_its_launch() -> None:
    steps = [op(f"ProfilerStep#{i}", 1_000 * i, 500, cat="user_annotation", tid=2) for i in (0, 1)]
    linked = linked_of([*steps, *ahead(2), *ahead(3, first=10, at=1_000)])
    assert queue_lengths(linked, per_step=True).select("step", "count", "max").rows() == [
        ("ProfilerStep#0", 4, 2),
        ("ProfilerStep#1", 6, 3),
    ]


def test_the_time_at_full_length_is_counted() -> None:
    (row,) = full_queue(linked_of(ahead(4)), max_queue_length=3).to_dicts()
    assert row["longest"] == 4
    assert row["full_ns"] == 1_000 + 97_000 + 10_000
    assert row["share"] == pytest.approx(108 / 140)


def test_launches_may_wait_on_behind_the_end_of_their_step() -> None:
    linked = linked_of([op("ProfilerStep#0", 0, 54, cat="user_annotation", tid=2), *ahead(4)])
    (row,) = full_queue(linked, per_step=True, max_queue_length=3).to_dicts()
    assert (row["full_ns"], row["share"]) == (108_000, pytest.approx(2))


def test_every_stream_has_a_row_and_not_only_the_last() -> None:
    linked = linked_of([*ahead(4, stream=7), *ahead(4, stream=20, first=10)])
    table = full_queue(linked, max_queue_length=3)
    assert table.get_column("stream").to_list() == ["7", "20"]
    assert (table.get_column("full_ns") == 108_000).all()


def blocked(host_us: int, start_us: int) -> list[Json]:
    """Ten launches in a row, then one of `host_us`; the first kernel starts at `start_us`."""
    calls = [call("cudaLaunchKernel", i, 1, i + 1) for i in range(10)]
    late = call("cudaLaunchKernel", 20, host_us, 11)
    return [*calls, late, *(kernel("k", start_us + 10 * i, 10, i + 1) for i in range(11))]


@cases(
    "host_us, start_us, options, launches, blocked_ns",
    {
        "slow, and returns after work has started": (31, 50, {"max_queue_length": 10}, 1, 30_000),
        "no work starts": (31, 60, {"max_queue_length": 10}, 1, 0),
        "not slow": (3, 21, {"max_queue_length": 10}, 1, 0),
        "never full": (31, 50, {}, 0, 0),
    },
)
def test_a_launch_into_a_full_queue_may_be_blocked(
    host_us: int, start_us: int, options: dict[str, int], launches: int, blocked_ns: int
) -> None:
    (row,) = full_queue(linked_of(blocked(host_us, start_us)), **options).to_dicts()
    found = (row["longest"], row["launches"], row["blocked"], row["blocked_ns"])
    assert found == (11, launches, int(blocked_ns > 0), blocked_ns)
    assert bool(row["full_ns"]) == bool(launches)


def test_a_clean_run_keeps_its_queue_filled_and_nothing_blocks() -> None:
    linked = scenes.clean().linked()
    (row,) = full_queue(linked, max_queue_length=16).to_dicts()
    assert (row["blocked"], row["blocked_ns"]) == (0, 0)
    assert row["longest"] > 16, "the host runs ahead"
    (row,) = queue_lengths(linked).to_dicts()
    assert row["mean_over_time"] > 5


OP_NS = 20_000
KERNEL_NS = 4_000
"""Much shorter than the host takes from launch to launch."""


def small_ops(scene: Scene, count: int, name: str = "aten::add", stream: int = 7) -> None:
    host = scene.threads[0] if scene.threads else scene.thread()
    for _ in range(count):
        with host.op(name, OP_NS):
            host.launch(scene.stream(stream), "elementwise", KERNEL_NS)


def test_small_ops_in_a_row_are_one_stretch() -> None:
    scene, host = host_scene()
    with host.step(1), host.annotation("forward"):
        small_ops(scene, 5)
    (row,) = launch_bound(scene.linked()).to_dicts()
    work = scene.of("elementwise")
    idle = 4 * (OP_NS + CALL_NS - KERNEL_NS)
    assert (row["start_ns"], row["span_ns"]) == (work[0].ts, work[-1].end - work[0].ts)
    assert (row["launches"], row["kernels"]) == (5, 5)
    assert (row["device_ns"], row["idle_ns"], row["gain_ns"]) == (5 * KERNEL_NS, idle, idle)
    assert row["host_launch_ns"] == 5 * CALL_NS
    assert (row["step"], row["op"], row["annotation"]) == ("ProfilerStep#1", "aten::add", "forward")
    assert (row["device"], row["stream"]) == ("0", "7")


def test_work_that_waits_in_the_queue_ends_a_stretch() -> None:
    scene = Scene()
    small_ops(scene, 4)
    host, stream = scene.threads[0], scene.stream(7)
    host.spend(OP_NS)
    host.launch(stream, "long", 500_000)
    small_ops(scene, 3, "aten::mul")
    (row,) = launch_bound(scene.linked()).to_dicts()
    assert (row["launches"], row["device_ns"]) == (5, 4 * KERNEL_NS + 500_000)


@pytest.mark.parametrize(
    ("pause", "stretches"), [(STALL_NS - OP_NS - CALL_NS - LATENCY_NS, 1), (STALL_NS, 2)]
)
def test_a_long_pause_of_the_host_is_no_launch_overhead(pause: int, stretches: int) -> None:
    """Of two stretches that with the most idle time comes first."""
    scene = Scene()
    small_ops(scene, 3)
    scene.threads[0].spend(pause)
    small_ops(scene, 6, "aten::mul")
    assert launch_bound(scene.linked()).get_column("op").to_list() == ["aten::mul", "aten::add"][:stretches]


def test_few_launches_a_graph_alone_and_a_clean_run_are_no_stretch() -> None:
    few, graph = Scene(), Scene()
    small_ops(few, LEAST_LAUNCHES - 1)
    graph.thread().replay(graph.stream(7), [("node", KERNEL_NS)] * 10, gap=500)
    for scene in (few, graph, scenes.clean()):
        assert launch_bound(scene.linked()).is_empty()
    assert launch_bound(linked_of([kernel("k", 100 * i, 5, i + 1) for i in range(9)])).is_empty()


def test_a_synchronisation_ends_a_stretch() -> None:
    scene = Scene()
    small_ops(scene, 4)
    scene.threads[0].synchronize(scene.stream(7))
    small_ops(scene, 3, "aten::mul")
    table = launch_bound(scene.linked())
    assert table.select("launches", "op").rows() == [(4, "aten::add"), (3, "aten::mul")]


def test_the_kernels_of_a_graph_stay_together() -> None:
    scene = Scene()
    small_ops(scene, 3)
    host, stream = scene.threads[0], scene.stream(7)
    host.spend(OP_NS)
    host.replay(stream, [("node", KERNEL_NS)] * 10, gap=500)
    (row,) = launch_bound(scene.linked()).to_dicts()
    assert (row["launches"], row["kernels"]) == (4, 13)
    assert row["device_ns"] + row["idle_ns"] == row["span_ns"]


def test_nothing_is_gained_while_another_stream_works() -> None:
    scene, host = host_scene()
    host.launch(scene.stream(20), "ncclDevKernel_AllReduce", 1_000_000)
    small_ops(scene, 5)
    (row,) = launch_bound(scene.linked()).to_dicts()
    assert (row["stream"], row["gain_ns"]) == ("7", 0)
    assert row["idle_ns"] == 4 * (OP_NS + CALL_NS - KERNEL_NS)


def profiled(name: str, ts: float, **values: float | str) -> Json:
    return complete(name, "cuda_profiler_range", ts, 10, 0, 0, dict(values))


def named(*names: str) -> list[Json]:
    """Kernels of the first launches."""
    return [kernel(name, 100 + 20 * i, 5, i + 1) for i, name in enumerate(names)]


def ranges(*names: str) -> list[Json]:
    return [profiled(name, 2000 + 10 * i, flops=3) for i, name in enumerate(names)]


def launched(count: int) -> list[Json]:
    """Ops with one launch each, inside of an op and a step."""
    inner = [op(f"aten::mm{i}", 10 + 20 * i, 15) for i in range(count)]
    calls = [call("cudaLaunchKernel", 12 + 20 * i, 5, i + 1) for i in range(count)]
    return [op("ProfilerStep#1", 0, 1000, cat="user_annotation"), op("aten::linear", 5, 900), *inner, *calls]


def test_the_nth_range_is_the_nth_launch_where_there_are_as_many() -> None:
    values = [profiled("gemm", 2000, flops=3, dram=7.5), profiled("relu", 2010, flops=1)]
    table = counters(linked_of([*launched(2), *values]))
    assert table.select("kernel", "op", "top_op", "counter", "value").rows() == [
        ("gemm", "aten::mm0", "aten::linear", "dram", 7.5),
        ("gemm", "aten::mm0", "aten::linear", "flops", 3.0),
        ("relu", "aten::mm1", "aten::linear", "flops", 1.0),
    ]
    assert table.get_column("op_stack").to_list()[0] == '["aten::linear", "aten::mm0"]'
    assert set(table.select("step", "method", "confidence").rows()) == {("ProfilerStep#1", "position", 0.8)}


@cases(
    "events, rows",
    {
        "names prove the position": (
            [*launched(2), *named("gemm", "relu"), *ranges("gemm", "__missing__")],
            [("gemm", "aten::mm0", "name", 1.0), ("relu", "aten::mm1", "name", 1.0)],
        ),
        "names contradict": (
            [*launched(2), *named("gemm", "relu"), *ranges("relu", "gemm")],
            [("relu", "aten::mm0", "position", 0.8), ("gemm", "aten::mm1", "position", 0.8)],
        ),
        "other numbers": ([*launched(3), *ranges("gemm")], [("gemm", None, None, None)]),
        "a driver's launch inside a runtime's": (
            [*launched(1), call("cuLaunchKernel", 13, 2, 50, cat="cuda_driver"), *ranges("gemm")],
            [("gemm", "aten::mm0", "position", 0.8)],
        ),
    },
)
def test_counters_are_joined_to_launches(events: list[Json], rows: list[tuple[object, ...]]) -> None:
    table = counters(linked_of(events))
    assert table.select("kernel", "op", "method", "confidence").rows() == rows
    assert table.select("counter", "value").unique().rows() == [("flops", 3.0)]
    assert table.get_column("call_event").is_null().to_list() == [row[1] is None for row in rows]


def test_every_api_that_launches_kernels_counts() -> None:
    apis = ("cuLaunchKernelEx", "hipExtModuleLaunchKernel")
    calls = [call(api, 10 * i, 5, i + 1) for i, api in enumerate(apis)]
    table = counters(linked_of([*calls, call("cudaMemsetAsync", 50, 5, 9), *ranges("a", "b")]))
    assert table.get_column("call_event").to_list() == [0, 1]
    assert table.select("op", "op_stack").rows() == [(None, None)] * 2


def test_a_value_that_is_no_number_is_null() -> None:
    table = counters(linked_of([profiled("gemm", 2000, flops="n/a", other="12", nan="NaN")]))
    assert table.select("counter", "value").rows() == [("flops", None), ("nan", None), ("other", 12.0)]


STEPS = ["ProfilerStep#1", "ProfilerStep#2"]


def two_steps() -> LinkedTrace:
    """A step with a launch, a wait and a copy, and a step with more and longer ones."""
    scene, host, stream = device_scene()
    for number in (1, 2):
        with host.step(number, 10):
            for _ in range(number):
                host.launch(stream, "k", 100_000 * number)
            host.synchronize(stream)
            host.copy(stream, Copy.PINNED_TO_DEVICE, 4_000 * number**2, 1_000 * number, blocking=False)
            host.synchronize(stream)
    return scene.linked()


@pytest.mark.slow
@pytest.mark.parametrize("doubtful", [STEPS[:1], STEPS[1:], STEPS])
def test_the_greatest_is_that_of_all_steps(monkeypatch: pytest.MonkeyPatch, doubtful: list[str]) -> None:
    linked = two_steps()
    answers = (
        (launches, ["op", "api"], ["host_max_ns", "device_max_ns"], "device_mean_ns"),
        (syncs, ["api", "waited_name"], ["max_ns"], "mean_ns"),
        (queue_lengths, ["stream"], ["min", "max"], "mean"),
        (copy_bandwidth, ["name"], ["min_bytes_per_s", "max_bytes_per_s"], "mean_bytes_per_s"),
    )
    before = [function(linked).sort(key) for function, key, _, _ in answers]
    monkeypatch.setattr("tracebraid.analysis.answering.doubtful_steps", lambda *_: pl.Series(doubtful))
    for (function, key, extremes, average), sound in zip(answers, before, strict=True):
        found = function(two_steps()).sort(key)
        assert found.select(*key, *extremes).equals(sound.select(*key, *extremes))
        assert not found.get_column(average).equals(sound.get_column(average))
        assert found.get_column(average).is_null().all() == (doubtful == STEPS)
