"""What traces lack for analyses, which rows are doubtful, and which devices a file is of."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.builders import Json, call, complete, kernel, op
from tests.cases import cases
from tests.planted import CALL_NS, device_scene, host_scene
from tests.planted.equal_steps import is_device, linked, number_of, steps, without
from tests.unit.linking.made import Host, host_timeline, linked_of
from tracebraid.analyses import annotation_kernels, breakdown, catalog, kernels, ops, user_annotations
from tracebraid.analysis import answering as step_rows
from tracebraid.analysis.answering import doubtful_steps
from tracebraid.analysis.catalog import rank_analyses
from tracebraid.analysis.device import event_columns, event_names, fetched, rows_of_events
from tracebraid.analysis.info import devices_of_timeline
from tracebraid.analysis.kernels.kernels import KERNELS
from tracebraid.analysis.needs import HAS, lacking
from tracebraid.model.analysis import Analysis, Answer, Family, Need
from tracebraid.model.file_info import DeviceSource
from tracebraid.model.linked_trace import LinkedTrace

OF_OTHERS = (
    Need.LOST,
    Need.KNOWN_OPS,
    Need.LAUNCHES,
    Need.KNOWN_KERNELS,
    Need.KNOWN_CALLS,
    Need.KNOWN_COMMUNICATION,
)
"""Facts about ops, calls and work: a trace without any lacks those, and not these."""


@pytest.mark.parametrize("need", Need)
def test_every_need_can_be_decided_and_has_its_sentences(need: Need) -> None:
    assert HAS[need](linked_of([])) is (need in OF_OTHERS)
    assert all((need.missing, need.capture))


@cases(
    "need, events",
    {
        "a graph by its call": (
            Need.GRAPH_LAUNCHES,
            [call("hipGraphLaunch", 0, 5, 3), kernel("k", 10, 5, 3)],
        ),
        "a graph by its work": (Need.GRAPH_LAUNCHES, [kernel("k", 10, 5, 3, **Json({"graph id": 4}))]),
        "a known op": (Need.KNOWN_OPS, [op("vendor::mm", 0, 5), op("aten::mm", 5, 5)]),
        "a launch": (Need.LAUNCHES, [call("cudaLaunchKernel", 0, 5, 3), kernel("k", 10, 5, 3)]),
        "a known kernel": (Need.KNOWN_KERNELS, [kernel("k", 10, 5, 3), kernel("sgemm_128x64_nn", 20, 5, 4)]),
        "a known call": (
            Need.KNOWN_CALLS,
            [call("vendorCall", 0, 5, 3), call("cudaStreamSynchronize", 10, 5, 4), kernel("k", 10, 5, 3)],
        ),
        "an annotation": (Need.INFERENCE_ITERATIONS, [op("step[DECODE bs=1]", 0, 5, cat="user_annotation")]),
    },
)
def test_what_is_needed_is_seen(need: Need, events: list[Json]) -> None:
    assert HAS[need](linked_of(events)) is True


@cases(
    "need, events",
    {
        "ops of others": (Need.KNOWN_OPS, [op("vendor::mm", 0, 5)]),
        "work that nothing launched": (Need.LAUNCHES, [op("aten::mm", 0, 5), kernel("k", 10, 5, 3)]),
        "kernels of others": (Need.KNOWN_KERNELS, [kernel("vendor_kernel_3", 10, 5, 3)]),
        "calls of others": (Need.KNOWN_CALLS, [call("vendorCall", 0, 5, 3), kernel("k", 10, 5, 3)]),
    },
)
def test_what_nobody_knows_is_lacked(need: Need, events: list[Json]) -> None:
    assert HAS[need](linked_of(events)) is False


def test_a_trace_lacks_what_it_does_not_hold_in_the_order_of_the_analysis() -> None:
    analysis = _analysis((Need.DEVICE_WORK, Need.HOST_OPS), (Need.STACKS, Need.SHAPES))
    host_only = linked_of([op("aten::mm", 0, 5, Input_Dims=[[2, 3]])])
    assert lacking(analysis, host_only) == (Need.DEVICE_WORK, Need.STACKS)


def test_every_analysis_is_declared_alike() -> None:
    """Its name is that of its function and table, its module is in the room of its family."""
    for analysis in catalog():
        names = {analysis.name, analysis.answer.__name__, analysis.table.name}
        assert names == {analysis.name}
        assert analysis.answer.__module__.split(".")[2] == analysis.family.value
        assert analysis.question.endswith("?")
    assert len({analysis.name for analysis in catalog()}) == len(catalog())
    assert {analysis.family for analysis in catalog()} == set(Family)
    assert [a.name for a in rank_analyses() if a.table.columns[0].name != "rank"] == []


def test_steps_are_those_of_the_annotation_that_is_asked_for() -> None:
    analysis = _analysis((Need.STEPS,), ())
    linked = linked_of([op("train#1", 0, 5, cat="user_annotation")])
    assert lacking(analysis, linked) == (Need.STEPS,)
    assert lacking(analysis, linked.with_annotation("train")) == ()


def test_only_what_is_needed_makes_an_answer_unanswerable() -> None:
    analysis = _analysis((Need.DEVICE_WORK,), (Need.STACKS,))
    frame = KERNELS.empty()
    assert Answer(
        analysis, frame, {0: (Need.DEVICE_WORK,), 1: (Need.DEVICE_WORK, Need.STACKS)}
    ).is_unanswerable
    some = Answer(analysis, frame, {0: (Need.DEVICE_WORK,), 1: (Need.STACKS,)})
    assert not some.is_unanswerable
    assert some.ranks_by_need == {Need.DEVICE_WORK: [0], Need.STACKS: [1]}


def _analysis(needs: tuple[Need, ...], uses: tuple[Need, ...]) -> Analysis:
    kernels = next(analysis for analysis in rank_analyses() if analysis.name == "kernels")
    return Analysis("kernels", kernels.family, kernels.answer, KERNELS, needs, uses)


def test_a_trace_without_an_event_gives_validity_nothing_to_judge() -> None:
    (analysis,) = (found for found in rank_analyses() if found.name == "validity")
    assert lacking(analysis, linked_of([])) == (Need.EVENTS,)
    assert lacking(analysis, linked_of([op("aten::mm", 0, 5)])) == ()


def marked(answer: pl.DataFrame) -> dict[str | None, bool]:
    """Whether the rows of each step are doubtful; all of a step alike."""
    rows = answer.group_by("step").agg(pl.col("doubtful").unique()).rows()
    assert all(len(values) == 1 for _, values in rows)
    return {step: values[0] for step, values in rows}


def with_doubt_in_a_step() -> LinkedTrace:
    return linked(without(steps(4), lambda e: is_device(e) and number_of(e) == 2 and e["ts"] > 2100))


def test_a_sound_trace_has_no_doubtful_row() -> None:
    for answer in (breakdown(linked(steps(3))), kernels(linked(steps(3)), per_step=True)):
        assert set(marked(answer).values()) == {False}


def test_rows_of_a_doubtful_step_and_of_the_whole_trace_are_doubtful() -> None:
    trace = with_doubt_in_a_step()
    named: dict[str | None, bool] = {f"ProfilerStep#{number}": number == 2 for number in range(4)}
    assert marked(breakdown(trace)) == named | {None: True}
    assert marked(kernels(trace, per_step=True)) == named
    assert marked(kernels(trace)) == {None: True}


def test_a_doubt_about_what_lies_in_no_step_leaves_the_steps_sound() -> None:
    trace = linked([*steps(3), call("cudaLaunchKernel", 5000, 5, 9999)])
    assert doubtful_steps(trace).to_list() == [None]
    named: dict[str | None, bool] = {f"ProfilerStep#{number}": False for number in range(3)}
    assert marked(breakdown(trace)) == named | {None: True}


def test_steps_by_another_annotation_have_their_own_doubts() -> None:
    assert doubtful_steps(with_doubt_in_a_step().with_annotation("iteration")).to_list() == [None]


def two_steps() -> LinkedTrace:
    """Steps 1 and 2; in the second all lasts ten times as long."""
    scene, host, stream = device_scene(device_annotations=True)
    for number, factor in ((1, 1), (2, 10)):
        with host.step(number), host.annotation("part"), host.op("aten::mm", 10_000 * factor - CALL_NS):
            host.launch(stream, "gemm", 300 * factor)
    return scene.linked()


@pytest.fixture
def _doubts(monkeypatch: pytest.MonkeyPatch) -> None:
    """`validity` has a doubt about step 2."""
    monkeypatch.setattr(step_rows, "doubtful_steps", lambda *_: pl.Series("step", ["ProfilerStep#2"]))


def mean_row(answer: Any, name: str, **options: Any) -> dict[str, Any]:
    return {mean_row["name"]: mean_row for mean_row in answer(two_steps(), **options).to_dicts()}[name]


@pytest.mark.usefixtures("_doubts")
def test_means_leave_doubtful_steps_out_and_sums_do_not() -> None:
    found = mean_row(ops, "aten::mm")
    assert (found["host_mean_ns"], found["host_median_ns"], found["host_p95_ns"]) == (10_000, 10_000, 10_000)
    assert (found["host_total_ns"], found["host_max_ns"], found["device_mean_ns"]) == (110_000, 100_000, 300)
    assert mean_row(user_annotations, "part")["host_mean_ns"] == 10_000
    assert mean_row(user_annotations, "part")["device_range_mean_ns"] == 300
    assert mean_row(annotation_kernels, "gemm")["mean_ns"] == 300


@pytest.mark.usefixtures("_doubts")
def test_means_have_them_if_asked_for() -> None:
    assert mean_row(ops, "aten::mm", with_doubtful=True)["host_mean_ns"] == 55_000
    assert mean_row(user_annotations, "part", with_doubtful=True)["device_range_mean_ns"] == 1_650
    assert mean_row(annotation_kernels, "gemm", with_doubtful=True)["mean_ns"] == 1_650


@pytest.mark.usefixtures("_doubts")
def test_the_row_of_a_doubtful_step_has_its_means() -> None:
    rows = ops(two_steps(), per_step=True).filter(name="aten::mm").to_dicts()
    assert [found["host_mean_ns"] for found in rows] == [10_000, 100_000]


@pytest.mark.slow
def test_without_doubts_all_counts() -> None:
    assert doubtful_steps(two_steps()).is_empty()
    assert mean_row(ops, "aten::mm")["host_mean_ns"] == 55_000


def devices(events: list[Json], **header: Any) -> tuple[tuple[str, ...], DeviceSource]:
    return devices_of_timeline(linked_of(events, header=header).timeline)


def test_names_in_the_header_count() -> None:
    named = [{"id": 0, "name": "A100"}, {"id": 1, "name": "A100"}]
    assert devices([op("x", 0, 1)], deviceProperties=named) == (("A100",), DeviceSource.HEADER)


@pytest.mark.parametrize(
    ("api", "cat", "kind"),
    [
        ("cudaLaunchKernel", "cuda_runtime", "cuda"),
        ("cuLaunchKernel", "cuda_driver", "cuda"),
        ("hipLaunchKernel", "cuda_runtime", "hip"),
        ("urEnqueueKernelLaunch", "xpu_runtime", "xpu"),
        ("launch", "privateuse1_runtime", "privateuse1"),
    ],
)
@pytest.mark.parametrize("header", [{}, {"deviceProperties": []}])
def test_without_names_what_ran_tells(api: str, cat: str, kind: str, header: Json) -> None:
    events = [call(api, 0, 1, 1, cat=cat), kernel("k", 5, 1, 1)]
    assert devices(events, **header) == ((f"{kind}:0",), DeviceSource.EVENTS)


ALLOCATED = {"Device Type": 1, "Device Id": 3, "Bytes": 8, "Addr": 1}


@cases(
    "events, name",
    {
        "kernels alone": ([kernel("k", 5, 1, 1)], "device:0"),
        "calls alone": ([call("cudaMalloc", 0, 1, 0)], "cuda"),
        "allocations": (
            [
                op("x", 0, 5),
                {**complete("[memory]", "cpu_instant_event", 1, 0, 1, 1, ALLOCATED), "ph": "i", "s": "t"},
            ],
            "cuda:3",
        ),
    },
)
def test_few_events_show_a_device(events: list[Json], name: str) -> None:
    assert devices(events, deviceProperties=[]) == ((name,), DeviceSource.EVENTS)


def test_only_an_empty_list_of_devices_says_that_there_is_none() -> None:
    assert devices([op("x", 0, 5)]) == ((), DeviceSource.UNKNOWN)
    assert devices([op("x", 0, 5)], deviceProperties=[]) == ((), DeviceSource.NONE)
    nccl = {"rank": 0, "backend": "cpu:gloo,cuda:nccl"}
    assert devices([op("x", 0, 5)], deviceProperties=[], distributedInfo=nccl) == ((), DeviceSource.UNKNOWN)


def test_devices_are_in_the_order_of_their_numbers() -> None:
    events: list[Json] = [call("cudaLaunchKernel", 0, 1, 1)]
    for number in (10, 2):
        work = kernel("k", 5, 1, number)
        events.append({**work, "pid": number, "args": {**work["args"], "device": number}})
    assert devices(events)[0] == ("cuda:2", "cuda:10")


SOME = pl.Series([3, None, 5, 4, 9, 0], dtype=pl.Int64)


@cases(
    "events, wanted, rows",
    {
        "null where there is none": (pl.Series([3, 5, 8]), SOME, [0, None, 1, None, None, None]),
        "no events": (pl.Series([], dtype=pl.Int64), SOME, [None] * len(SOME)),
        "none wanted": (pl.Series([3]), SOME.clear(), []),
    },
)
def test_rows_are_those_of_the_events(events: pl.Series, wanted: pl.Series, rows: list[int | None]) -> None:
    assert rows_of_events(events, wanted).to_list() == rows


def test_a_null_row_is_null_in_every_column() -> None:
    table = pl.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    assert fetched(table, pl.Series([1, None, 0])).rows() == [(2, "y"), (None, None), (1, "x")]


def test_an_empty_table_gives_nulls_of_its_types() -> None:
    found = fetched(pl.DataFrame({"a": [1]}).clear(), pl.Series([None, None], dtype=pl.Int64))
    assert found.rows() == [(None,), (None,)]
    assert found.schema == {"a": pl.Int64}


def test_columns_of_events_have_the_names_that_are_asked_for() -> None:
    timeline = host_timeline([Host("a", 10, 20), Host("b", 30, 35)])
    start, length = event_columns(
        timeline, pl.Series([1, None, 0], dtype=pl.Int64), start_ns="ts_ns", host_ns="dur_ns"
    )
    assert (start.name, start.to_list()) == ("start_ns", [30, None, 10])
    assert (length.name, length.to_list()) == ("host_ns", [5, None, 10])


def test_each_name_once_in_the_order_of_the_file() -> None:
    scene, host = host_scene()
    for name in ("b", "a", "b", "c"):
        host.run(name, 5)
    assert event_names(scene.linked()) == ["b", "a", "c"]
