"""The tree of nn.Modules with the time of each, against what was planted."""

from __future__ import annotations

from typing import Any

import polars as pl

from tests.builders import call, kernel, op
from tests.planted import CALL_NS, Scene, Stream, Thread
from tests.planted.events import Planted
from tests.planted.scenes import KERNEL_NS, LAYERS, clean
from tests.unit.linking.made import linked_of
from tracebraid.analysis.ops.modules.modules import modules
from tracebraid.model.answers import MODULES, ModuleSource
from tracebraid.model.linked_trace import LinkedTrace


def by_path(linked: LinkedTrace, **options: Any) -> dict[str | None, dict[str, Any]]:
    return {row["path"]: row for row in modules(linked, **options).to_dicts()}


def forward(host: Thread, stream: Stream, name: str, kernel_ns: int) -> Planted:
    """A module with an op that launches."""
    with (
        host.module(name, 10),
        host.op("aten::mm", 20, sequence=host.scene.count("sequence")) as planted,
    ):
        host.launch(stream, "gemm", kernel_ns)
    return planted


def test_modules_nest_and_totals_add_what_is_inside() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream()
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


def test_a_backward_pass_on_the_thread_of_the_forward_pass() -> None:
    scene = Scene(devices=())
    host = scene.thread()
    with host.module("Net_0"), host.op("aten::mm", 20, sequence=1) as op:
        pass
    with host.frame("torch/_tensor.py(1): backward", 4), host.backward("MmBackward0", op, host, 40):
        pass
    found = by_path(scene.linked())
    assert (found["Net_0"]["host_forward_self_ns"], found["Net_0"]["host_backward_self_ns"]) == (20, 40)
    assert (found[None]["host_forward_self_ns"], found["Net_0"]["share"]) == (4, None)


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


def test_a_module_that_two_modules_share_has_a_row_in_each() -> None:
    scene = Scene(devices=())
    host = scene.thread()
    for layer in ("Block_0", "Block_1", "Block_0"):
        with host.module(layer, 1), host.module("SiLU_0", 10):
            pass
    found = by_path(scene.linked())
    assert {path: row["calls"] for path, row in found.items() if path} == {
        "Block_0": 2,
        "Block_0/SiLU_0": 2,
        "Block_1": 1,
        "Block_1/SiLU_0": 1,
    }
    assert found["Block_0/SiLU_0"]["host_forward_self_ns"] == 20


def test_a_module_inside_itself_is_a_path_of_its_own() -> None:
    scene = Scene(devices=())
    host = scene.thread()
    with host.module("Tree_0", 1), host.module("Tree_0", 10):
        pass
    found = by_path(scene.linked())
    assert (found["Tree_0"]["host_forward_total_ns"], found["Tree_0/Tree_0"]["host_forward_total_ns"]) == (
        11,
        10,
    )


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
    assert [row["path"] for row in rows if row["step"] == "ProfilerStep#1"] == [
        "Net_0",
        "Net_0/Linear_0",
    ]


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


def test_without_modules_there_is_no_row() -> None:
    assert modules(linked_of([op("a", 0, 10)])).equals(MODULES.empty())
    assert modules(linked_of([])).schema == pl.Schema(MODULES.polars_schema())


def test_without_marks_a_module_is_what_torch_s_module_called() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream()
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
