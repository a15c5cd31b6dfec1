"""The tree of nn.Modules and of annotations with the time of each, against what was planted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.builders import call, kernel, op
from tests.planted import CALL_NS, Scene, Stream, Thread, device_scene, host_scene
from tests.planted.events import Planted
from tests.planted.scenes import KERNEL_NS, LAYERS, clean
from tests.unit.linking.made import linked_of
from tracebraid.analyses import annotation_kernels, modules, user_annotations
from tracebraid.analysis.ops.annotations import Paths, paths_of
from tracebraid.model.answers.ops import ModuleSource
from tracebraid.model.linked_trace import LinkedTrace


def by_path(linked: LinkedTrace, **options: Any) -> dict[str | None, dict[str, Any]]:
    return {row["path"]: row for row in modules(linked, **options).to_dicts()}


def forward(host: Thread, stream: Stream, name: str, kernel_ns: int) -> Planted:
    """A module with an op that launches."""
    with host.module(name, 10), host.op("aten::mm", 20, sequence=host.scene.count("sequence")) as planted:
        host.launch(stream, "gemm", kernel_ns)
    return planted


def test_modules_nest_and_totals_add_what_is_inside() -> None:
    scene, host, stream = device_scene()
    with host.module("Net_0", 100):
        with host.module("Block_0", 30):
            forward(host, stream, "Linear_0", 1_000)
        forward(host, stream, "Linear_1", 500)
        host.launch(stream, "add", 7)
    found = by_path(scene.linked())
    assert list(found) == ["Net_0", "Net_0/Block_0", "Net_0/Block_0/Linear_0", "Net_0/Linear_1"]
    linear = 30 + CALL_NS
    net = found["Net_0"]
    assert (net["host_forward_self_ns"], net["host_forward_total_ns"]) == (
        100 + CALL_NS,
        130 + CALL_NS + 2 * linear,
    )
    assert (net["device_forward_self_ns"], net["device_forward_total_ns"]) == (7, 1_507)
    assert (net["kernels_self"], net["kernels_total"], net["calls"], net["depth"]) == (1, 3, 1, 0)
    assert found["Net_0/Block_0"]["device_forward_total_ns"] == 1_000
    assert found["Net_0/Block_0/Linear_0"]["class_name"] == "Linear"
    assert found["Net_0/Linear_1"]["share"] == 500 / 1_507


def test_a_backward_op_of_another_thread_counts_in_the_module_of_its_forward_op() -> None:
    scene = Scene()
    host, autograd, stream = scene.thread(), scene.thread(), scene.stream()
    with host.module("Net_0"):
        op = forward(host, stream, "Linear_0", 1_000)
    autograd.until(host.now)
    with autograd.backward("MmBackward0", op, host, 40), autograd.op("aten::mm", 5):
        autograd.launch(stream, "gemm_backward", 300)
    with autograd.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 9):
        autograd.launch(stream, "add", 11)
    found = by_path(scene.linked())
    row = found["Net_0/Linear_0"]
    assert (row["host_backward_self_ns"], row["device_backward_self_ns"]) == (45 + CALL_NS, 300)
    assert (row["device_forward_self_ns"], row["kernels_self"]) == (1_000, 2)
    assert found["Net_0"]["device_backward_total_ns"] == 300
    rest = found[None]
    assert (rest["host_backward_self_ns"], rest["device_backward_self_ns"]) == (9 + CALL_NS, 11)


def test_what_a_backward_op_computes_again_is_where_it_was_in_the_forward_pass() -> None:
    scene = Scene()
    host, autograd, stream = scene.thread(), scene.thread(), scene.stream()
    with host.module("Net_0"), host.module("Block_0"):
        op = forward(host, stream, "Linear_0", 1_000)
    autograd.until(host.now)
    with autograd.backward("MmBackward0", op, host, 1), autograd.module("Block_0", 2):
        forward(autograd, stream, "Linear_0", 800)
    found = by_path(scene.linked())
    assert set(found) == {"Net_0", "Net_0/Block_0", "Net_0/Block_0/Linear_0"}
    row = found["Net_0/Block_0/Linear_0"]
    assert (row["device_forward_self_ns"], row["device_recompute_total_ns"], row["calls"]) == (1_800, 800, 2)
    assert found["Net_0"]["device_recompute_total_ns"] == 800
    assert found["Net_0/Block_0"]["calls"] == 2


@pytest.mark.parametrize(
    ("nested", "calls"),
    [
        (
            [("Block_0", "SiLU_0"), ("Block_1", "SiLU_0"), ("Block_0", "SiLU_0")],
            {"Block_0": 2, "Block_0/SiLU_0": 2, "Block_1": 1, "Block_1/SiLU_0": 1},
        ),
        ([("Tree_0", "Tree_0")], {"Tree_0": 1, "Tree_0/Tree_0": 1}),
    ],
    ids=["shared by two", "inside itself"],
)
def test_a_module_has_a_row_for_each_path(nested: list[tuple[str, str]], calls: dict[str, int]) -> None:
    scene, host = host_scene(devices=())
    for outer, inner in nested:
        with host.module(outer, 1), host.module(inner, 10):
            pass
    found = by_path(scene.linked())
    assert {path: row["calls"] for path, row in found.items() if path} == calls
    for path, row in found.items():
        if path:
            assert row["host_forward_total_ns"] == calls[path] * (10 if "/" in path else 11)


def test_rows_by_step_hold_what_started_in_it_and_what_is_around_that() -> None:
    scene = Scene()
    host, autograd, stream = scene.thread(), scene.thread(), scene.stream()
    with host.step(1), host.module("Net_0", 5):
        op = forward(host, stream, "Linear_0", 100)
    with host.step(2):
        autograd.until(host.now)
        with autograd.backward("MmBackward0", op, host):
            autograd.launch(stream, "k", 30)
        host.until(autograd.now)
    rows = modules(scene.linked(), per_step=True).to_dicts()
    found = {(row["step"], row["path"]): row for row in rows}
    assert found["ProfilerStep#1", "Net_0"]["device_forward_total_ns"] == 100
    second = found["ProfilerStep#2", "Net_0"]
    assert (second["calls"], second["host_forward_total_ns"], second["device_backward_total_ns"]) == (
        0,
        0,
        30,
    )
    assert second["share"] == 1.0
    assert [row["path"] for row in rows if row["step"] == "ProfilerStep#1"] == ["Net_0", "Net_0/Linear_0"]


def test_a_clean_training_run() -> None:
    found = by_path(clean(steps=2).linked())
    model = found["Model_0"]
    assert model["device_forward_total_ns"] == model["device_backward_total_ns"] == 2 * LAYERS * KERNEL_NS
    assert {row["device_backward_self_ns"] for path, row in found.items() if path and "/" in path} == {
        2 * KERNEL_NS
    }
    assert found[None]["device_forward_self_ns"] == 4 * KERNEL_NS
    assert found[None]["device_backward_self_ns"] == 0


def test_the_hierarchy_of_torchscript_names_modules_by_their_attributes() -> None:
    inner = "TOP(Net)::forward.SELF(Net)::features.layer1(Sequential)::forward.0(Conv)::forward"
    linked = linked_of(
        [
            op("aten::add", 0, 10, Module_Hierarchy="TOP(Net)::forward"),
            op("aten::conv", 20, 30, Module_Hierarchy=inner, Sequence_number=4, Fwd_thread_id=0),
            op("aten::convolution", 25, 20, Module_Hierarchy=""),
            call("launch", 30, 5, 1),
            kernel("k", 100, 7, 1),
            op("ConvBackward0", 60, 20, tid=2, Sequence_number=4, Fwd_thread_id=1),
        ]
    )
    found = by_path(linked)
    assert list(found) == ["Net", "Net/layer1", "Net/layer1/0"]
    conv = found["Net/layer1/0"]
    assert (conv["source"], conv["class_name"]) == (ModuleSource.MODULE_HIERARCHY.value, "Conv")
    assert (conv["host_forward_self_ns"], conv["device_forward_self_ns"]) == (30_000, 7_000)
    assert (conv["host_backward_self_ns"], conv["calls"]) == (20_000, None)
    assert found["Net"]["host_forward_total_ns"] == 40_000


def test_the_call_stacks_of_old_traces_name_modules_by_file_and_calling_line() -> None:
    caller = "/site-packages/torch/nn/modules/module.py(727): _call_impl"
    outer = f"net.py(30): forward;{caller};train.py(5): main"
    linked = linked_of(
        [
            op("a", 0, 10, Call_stack=outer),
            op(
                "b",
                20,
                10,
                Call_stack=f"/site-packages/torch/nn/modules/linear.py(9): forward;{caller};{outer}",
            ),
            op("c", 40, 10, Call_stack="train.py(6): main"),
        ]
    )
    found = by_path(linked)
    assert list(found) == ["net.py:forward@5", "net.py:forward@5/linear.py:forward@30", None]
    assert {row["source"] for row in found.values()} == {ModuleSource.STACKS.value}
    assert found["net.py:forward@5"]["host_forward_total_ns"] == 20_000


def test_without_marks_a_module_is_what_torch_s_module_called() -> None:
    scene, host, stream = device_scene()
    with (
        host.frame("torch/nn/modules/module.py(1): _wrapped_call_impl"),
        host.frame("torch/nn/modules/module.py(9): _call_impl", 5),
        host.frame("/home/u/net.py(30): forward", 10),
        host.frame("torch/nn/modules/module.py(9): _call_impl"),
    ):
        host.launch(stream, "hook", 1, call_ns=7)
        with host.frame("torch/nn/modules/linear.py(2): forward", 20), host.op("aten::linear"):
            host.launch(stream, "gemm", 300)
    found = by_path(scene.linked())
    assert list(found) == ["net.py:forward", "net.py:forward/linear.py:forward", None]
    linear = found["net.py:forward/linear.py:forward"]
    assert (linear["source"], linear["calls"]) == (ModuleSource.STACKS.value, 1)
    assert (linear["device_forward_self_ns"], linear["class_name"]) == (300, None)
    assert found["net.py:forward"]["host_forward_self_ns"] == 17


def by_name(linked: LinkedTrace, **options: Any) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in user_annotations(linked, **options).to_dicts()}


def test_self_is_without_the_annotations_inside_and_total_with_them() -> None:
    scene, host, stream = device_scene()
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
    scene, host, stream = device_scene()
    with host.annotation("f", 100), host.annotation("g", 5), host.annotation("f", 30):
        host.launch(stream, "gemm", 700)
    row = by_name(scene.linked())["f"]
    assert (row["count"], row["host_self_ns"], row["host_total_ns"]) == (2, 130 + CALL_NS, 135 + CALL_NS)
    assert (row["device_total_ns"], row["kernels_total"], row["device_busy_ns"]) == (700, 1, 700)
    assert (row["host_mean_ns"], row["host_min_ns"]) == (135 + CALL_NS, 135 + CALL_NS)


def test_busy_time_counts_work_on_two_streams_at_once_once_and_device_by_device() -> None:
    scene, host = host_scene()
    with host.annotation("f", 10):
        host.launch(scene.stream(7), "a", 1_000, at=50_000)
        host.launch(scene.stream(8), "b", 1_000, at=50_600)
        host.launch(scene.stream(7, device=1), "c", 400, at=50_600)
    row = by_name(scene.linked())["f"]
    assert (row["device_total_ns"], row["device_busy_ns"]) == (2_400, 2_000)


def test_the_ranges_of_the_device_have_columns_of_their_own() -> None:
    scene, host, stream = device_scene(device_annotations=True)
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
    scene, host, stream = device_scene(device_annotations=True)
    for number in (1, 2):
        with host.step(number), host.annotation("f", 10 * number):
            host.launch(stream, "a", 100_000)
    rows = user_annotations(scene.linked(), per_step=True).filter(name="f").to_dicts()
    assert [(r["step"], r["host_total_ns"], r["device_ranges"]) for r in rows] == [
        ("ProfilerStep#1", 10 + CALL_NS, 1),
        ("ProfilerStep#2", 20 + CALL_NS, 1),
    ]


def test_kernels_have_the_whole_stack_of_annotations_without_steps() -> None:
    scene, host, stream = device_scene()
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
    scene, host, stream = device_scene()
    with host.annotation("iteration#4", 1), host.annotation("forward", 1):
        host.launch(stream, "gemm", 30)
    row = annotation_kernels(scene.linked().with_annotation("iteration"), per_step=True).row(0, named=True)
    assert (row["step"], row["annotations"]) == ("iteration#4", "forward")


def made(inside: list[int], names: list[int]) -> Paths:
    return paths_of(np.array(inside, dtype=np.int64), np.array(names, dtype=np.int64))


@pytest.mark.parametrize(
    ("inside", "names", "expected"),
    [
        ([-1, 0, -1, 2, 0], [0, 1, 0, 1, 2], ["net", "net/a", "net", "net/a", "net/b"]),
        ([-1, 0, 1, -1], [0, -1, 1, -1], ["net", "net", "net/a", None]),
        ([1, -1], [1, 0], ["net/a", "net"]),
        ([1, 0, -1], [0, 0, 0], [None, None, "net"]),
        ([], [], []),
    ],
    ids=["one name in one path", "without a name", "inner before outer", "in a circle", "none"],
)
def test_marks_have_paths(inside: list[int], names: list[int], expected: list[str | None]) -> None:
    paths = made(inside, names)
    texts = paths.texts(["net", "a", "b"], "/")
    assert [None if path < 0 else texts[path] for path in paths.path] == expected
    assert paths.depth.tolist() == [text.count("/") for text in texts]


def test_a_walk_goes_into_each_path_and_orders_siblings() -> None:
    paths = made([-1, -1, 0, 0, 1], [0, 1, 2, 3, 2])
    texts = paths.texts(["x", "y", "a", "b"], "/")
    walk = [texts[path] for path in paths.walk(np.array([5, 1, 9, 7, 2]))]
    assert walk == ["y", "y/a", "x", "x/b", "x/a"]


def test_every_path_has_itself_and_what_it_extends_as_ancestors() -> None:
    found = made([-1, 0, 1], [0, 1, 2]).ancestors()
    assert sorted(found.rows()) == [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]
