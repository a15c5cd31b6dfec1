"""Host and device time of annotations, against what was planted."""

from __future__ import annotations

from typing import Any

from tests.builders import op
from tests.planted import CALL_NS, Scene
from tests.unit.linking.made import linked_of
from tracebraid.analysis.ops.annotations.annotation_kernels import annotation_kernels
from tracebraid.analysis.ops.annotations.user_annotations import user_annotations
from tracebraid.model.answers import ANNOTATION_KERNELS, USER_ANNOTATIONS
from tracebraid.model.linked_trace import LinkedTrace


def by_name(linked: LinkedTrace, **options: Any) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in user_annotations(linked, **options).to_dicts()}


def test_self_is_without_the_annotations_inside_and_total_with_them() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream()
    with host.annotation("forward", 100), host.op("aten::linear", 10):
        with host.annotation("attention", 30), host.op("aten::mm", 5):
            host.launch(stream, "gemm", 700)
        host.launch(stream, "add", 20)
    found = by_name(scene.linked())
    outer, inner = found["forward"], found["attention"]
    assert (inner["host_self_ns"], inner["host_total_ns"]) == (35 + CALL_NS, 35 + CALL_NS)
    assert (outer["host_self_ns"], outer["host_total_ns"]) == (110 + CALL_NS, 145 + 2 * CALL_NS)
    assert (inner["device_self_ns"], inner["device_total_ns"], inner["kernels"]) == (700, 700, 1)
    assert (outer["device_self_ns"], outer["device_total_ns"]) == (20, 720)
    assert (outer["kernels"], outer["kernels_total"], outer["count"]) == (1, 2, 1)


def test_an_annotation_inside_its_own_name_counts_once_in_totals() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream()
    with host.annotation("f", 100), host.annotation("g", 5), host.annotation("f", 30):
        host.launch(stream, "gemm", 700)
    row = by_name(scene.linked())["f"]
    assert (row["count"], row["host_self_ns"], row["host_total_ns"]) == (2, 130 + CALL_NS, 135 + CALL_NS)
    assert (row["device_total_ns"], row["kernels_total"], row["device_busy_ns"]) == (700, 1, 700)
    assert (row["host_mean_ns"], row["host_min_ns"]) == (135 + CALL_NS, 135 + CALL_NS)


def test_busy_time_counts_work_on_two_streams_at_once_once_and_device_by_device() -> None:
    scene = Scene()
    host = scene.thread()
    with host.annotation("f", 10):
        host.launch(scene.stream(7), "a", 1_000, at=50_000)
        host.launch(scene.stream(8), "b", 1_000, at=50_600)
        host.launch(scene.stream(7, device=1), "c", 400, at=50_600)
    row = by_name(scene.linked())["f"]
    assert (row["device_total_ns"], row["device_busy_ns"]) == (2_400, 2_000)


def test_the_ranges_of_the_device_have_columns_of_their_own() -> None:
    scene = Scene(device_annotations=True)
    host, stream = scene.thread(), scene.stream()
    for dur in (700, 900):
        with host.annotation("f", 10):
            host.launch(stream, "a", dur)
            host.launch(stream, "b", 50)
    with host.annotation("quiet", 10):
        pass
    found = by_name(scene.linked())
    row = found["f"]
    length = CALL_NS + 50  # from the start of the first kernel to the end of the second
    assert (row["device_ranges"], row["device_range_ns"]) == (2, 2 * length)
    assert row["device_range_min_ns"] == row["device_range_max_ns"] == length
    assert (found["quiet"]["device_ranges"], found["quiet"]["device_range_ns"]) == (0, None)


def test_a_range_of_the_device_alone_is_a_row() -> None:
    scene = Scene()
    scene.add("only on the device", "gpu_user_annotation", 0, 7, 100, 50)
    row = by_name(scene.linked())["only on the device"]
    assert (row["count"], row["device_ranges"], row["device_range_ns"]) == (0, 1, 50)
    assert row["host_mean_ns"] is None


def test_what_a_thread_of_autograd_launches_lies_in_the_annotation_that_waits_for_it() -> None:
    scene = Scene()
    host, autograd, stream = scene.thread(), scene.thread(), scene.stream()
    with host.annotation("forward", 10), host.op("aten::mm", 20, sequence=1) as op_:
        pass
    with host.annotation("train", 1), host.annotation("backward", 5):
        host.spend(3)
        autograd.until(host.now)
        with autograd.backward("MmBackward0", op_, host), autograd.op("aten::mm"):
            autograd.launch(stream, "gemm", 300)
        host.until(autograd.now)
    autograd.until(host.now + 10)
    with autograd.op("later"):
        autograd.launch(stream, "k", 1)
    linked = scene.linked()
    found = by_name(linked)
    assert found["backward"]["device_self_ns"] == found["train"]["device_total_ns"] == 300
    assert (found["train"]["device_self_ns"], found["forward"]["device_total_ns"]) == (0, 0)
    assert found["backward"]["host_self_ns"] == 8 + CALL_NS
    stacks = {row["name"]: row["annotations"] for row in annotation_kernels(linked).to_dicts()}
    assert stacks == {"gemm": "train > backward", "k": None}


def test_by_step_an_annotation_counts_where_it_started() -> None:
    scene = Scene(device_annotations=True)
    host, stream = scene.thread(), scene.stream()
    for number in (1, 2):
        with host.step(number), host.annotation("f", 10 * number):
            host.launch(stream, "a", 100_000)
    rows = user_annotations(scene.linked(), per_step=True).filter(name="f").to_dicts()
    assert [(r["step"], r["host_total_ns"], r["device_ranges"]) for r in rows] == [
        ("ProfilerStep#1", 10 + CALL_NS, 1),
        ("ProfilerStep#2", 20 + CALL_NS, 1),
    ]


def test_kernels_have_the_whole_stack_of_annotations_without_steps() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream()
    with host.step(1):
        with host.annotation("forward", 1), host.annotation("attention", 1), host.op("aten::mm"):
            host.launch(stream, "gemm", 30)
        with host.annotation("forward", 1):
            host.launch(stream, "gemm", 50)
        host.launch(stream, "gemm", 20)
    rows = annotation_kernels(scene.linked()).to_dicts()
    assert [(r["annotations"], r["depth"], r["total_ns"], r["share"]) for r in rows] == [
        ("forward", 1, 50, 0.5),
        ("forward > attention", 2, 30, 0.3),
        (None, 0, 20, 0.2),
    ]


def test_another_annotation_may_mark_the_steps() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream()
    with host.annotation("iteration#4", 1), host.annotation("forward", 1):
        host.launch(stream, "gemm", 30)
    row = annotation_kernels(scene.linked(), per_step=True, annotation="iteration").row(0, named=True)
    assert (row["step"], row["annotations"]) == ("iteration#4", "forward")


def test_without_annotations_or_events_answers_are_empty() -> None:
    assert user_annotations(linked_of([op("a", 0, 10)])).equals(USER_ANNOTATIONS.empty())
    assert user_annotations(linked_of([])).equals(USER_ANNOTATIONS.empty())
    assert annotation_kernels(linked_of([])).equals(ANNOTATION_KERNELS.empty())
