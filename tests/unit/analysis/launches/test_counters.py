"""CUPTI's counters, joined to the ops that launched the kernels."""

from __future__ import annotations

from tests.builders import Json, call, complete, kernel, op
from tests.unit.linking.made import linked_of
from tracebraid.analysis.launches.counters import counters
from tracebraid.model.answers import COUNTERS


def profiled(name: str, ts: float, **values: float | str) -> Json:
    return complete(name, "cuda_profiler_range", ts, 10, 0, 0, dict(values))


def launched(count: int) -> list[Json]:
    """Ops with one launch each, inside of an op and a step."""
    inner = [op(f"aten::mm{i}", 10 + 20 * i, 15) for i in range(count)]
    calls = [call("cudaLaunchKernel", 12 + 20 * i, 5, i + 1) for i in range(count)]
    return [
        op("ProfilerStep#1", 0, 1000, cat="user_annotation"),
        op("aten::linear", 5, 900),
        *inner,
        *calls,
    ]


def test_the_nth_range_is_the_nth_launch_where_there_are_as_many() -> None:
    ranges = [profiled("gemm", 2000, flops=3, dram=7.5), profiled("relu", 2010, flops=1)]
    table = counters(linked_of([*launched(2), *ranges]))
    assert table.select("kernel", "op", "top_op", "counter", "value").rows() == [
        ("gemm", "aten::mm0", "aten::linear", "dram", 7.5),
        ("gemm", "aten::mm0", "aten::linear", "flops", 3.0),
        ("relu", "aten::mm1", "aten::linear", "flops", 1.0),
    ]
    assert table.get_column("op_stack").to_list()[0] == '["aten::linear", "aten::mm0"]'
    assert set(table.select("step", "method", "confidence").rows()) == {("ProfilerStep#1", "position", 0.8)}


def test_names_prove_the_position() -> None:
    kernels = [kernel(name, 100 + 20 * i, 5, i + 1) for i, name in enumerate(("gemm", "relu"))]
    ranges = [profiled("gemm", 2000, flops=3), profiled("__missing__", 2010, flops=1)]
    table = counters(linked_of([*launched(2), *kernels, *ranges]))
    assert table.select("kernel", "op", "method", "confidence").rows() == [
        ("gemm", "aten::mm0", "name", 1.0),
        ("relu", "aten::mm1", "name", 1.0),
    ]


def test_ranges_whose_names_contradict_go_by_position() -> None:
    kernels = [kernel(name, 100 + 20 * i, 5, i + 1) for i, name in enumerate(("gemm", "relu"))]
    ranges = [profiled("relu", 2000, flops=3), profiled("gemm", 2010, flops=1)]
    table = counters(linked_of([*launched(2), *kernels, *ranges]))
    assert set(table.get_column("method")) == {"position"}


def test_counters_stand_alone_where_the_numbers_differ() -> None:
    table = counters(linked_of([*launched(3), profiled("gemm", 2000, flops=3)]))
    assert table.select("kernel", "counter", "value").rows() == [("gemm", "flops", 3.0)]
    assert table.select("step", "call_event", "op", "op_stack", "method", "confidence").rows() == [
        (None,) * 6
    ]


def test_a_drivers_launch_inside_a_runtimes_is_one_launch() -> None:
    driver = call("cuLaunchKernel", 13, 2, 50, cat="cuda_driver")
    table = counters(linked_of([*launched(1), driver, profiled("gemm", 2000, flops=3)]))
    assert table.get_column("op").to_list() == ["aten::mm0"]


def test_every_api_that_launches_kernels_counts() -> None:
    calls = [
        call(api, 10 * i, 5, i + 1) for i, api in enumerate(("cuLaunchKernelEx", "hipExtModuleLaunchKernel"))
    ]
    ranges = [profiled("a", 2000, flops=3), profiled("b", 2010, flops=3)]
    table = counters(linked_of([*calls, call("cudaMemsetAsync", 50, 5, 9), *ranges]))
    assert table.get_column("call_event").to_list() == [0, 1]
    assert table.select("op", "op_stack").rows() == [(None, None)] * 2


def test_a_value_that_is_no_number_is_null() -> None:
    table = counters(linked_of([profiled("gemm", 2000, flops="n/a", other="12", nan="NaN")]))
    assert table.select("counter", "value").rows() == [("flops", None), ("nan", None), ("other", 12.0)]


def test_a_trace_without_counters_has_an_empty_table_of_the_schema() -> None:
    table = counters(linked_of(launched(1)))
    assert table.is_empty()
    assert dict(table.schema) == COUNTERS.polars_schema()
