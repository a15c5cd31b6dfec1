"""The device is idle since the host launched late: what it did meanwhile, on the thread that is to blame."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from tests.cases import cases
from tests.planted import CALL_NS, LATENCY_NS, RETURN_NS, Scene, host_scene
from tests.planted.idle import KERNEL_NS, begun, causes
from tracebraid.analyses import idle_blame, idle_gaps
from tracebraid.errors import ArgumentError
from tracebraid.model.linked_trace import LinkedTrace

LAUNCH = ("launch-latency", None)
MEANWHILE_NS = 200_000
LATE_NS = 5_000 + MEANWHILE_NS - 18_000
"""From the end of the first kernel to the call that launches the second."""

CALL = ("event", "gif_merge")
"""A call of a runtime, in which more happens."""

COLLATES = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


@pytest.mark.full(keep=7)
@pytest.mark.slow
@cases(
    "around, within, activity",
    {
        "computes": ([], ("run", "aten::slow"), "computed"),
        "loads data": ([], ("load_data", None), "waited-for-data"),
        "collates": ([("annotation", COLLATES)], ("run", "aten::stack"), "waited-for-data"),
        "waits for a queue": (
            [("frame", "train.py(3): feed"), ("frame", "queue.py(154): get")],
            None,
            "waited-for-data",
        ),
        "pins": ([], ("run", "aten::_pin_memory"), "waited-for-data"),
        "runs Python": (
            [("frame", "train.py(10): step"), ("frame", "torch/nn/modules/module.py(1): _call_impl")],
            None,
            "python",
        ),
        "runs nothing": ([], None, "outside-of-ops"),
        "annotates": ([("annotation", "forward")], None, "outside-of-ops"),
        "loads a module": ([("op", "aten::mm")], ("call", "cuModuleLoadData"), "called"),
        "launches without work": ([("op", "aten::mm")], ("call", "cudaLaunchKernel"), "launched"),
        "computes in a call": ([CALL], ("run", "aten::slow"), "computed"),
        "annotates in a call": ([CALL, ("annotation", "prepare")], None, "called"),
        "allocates": ([("op", "aten::empty")], ("call", "cudaMalloc"), "synchronized"),
        "reads a scalar": (
            [("op", "aten::item"), ("op", "aten::_local_scalar_dense")],
            ("call", "cudaStreamSynchronize"),
            "synchronized",
        ),
        "waits on HIP": ([], ("call", "hipDeviceSynchronize"), "synchronized"),
        "copies at once": ([], ("call", "hipMemcpyWithStream"), "synchronized"),
        "waits for other ranks": ([("annotation", "gloo:barrier")], None, "communicated"),
    },
)
def test_what_the_host_did_is_found(
    around: list[tuple[str, str]], within: tuple[str, str | None] | None, activity: str
) -> None:
    """Events of a kind and name around what it did last."""
    scene, host, stream = begun()
    with ExitStack() as stack:
        for kind, name in around:
            more: tuple[Any, ...] = ("mtia_runtime", {}) if kind == "event" else ()
            stack.enter_context(getattr(host, kind)(name, *more))
        begin = host.now
        if CALL in around:
            host.spend(1_000)
        last, named = within or ("spend", None)
        getattr(host, last)(*([] if named is None else [named]), MEANWHILE_NS - (host.now - begin))
    host.launch(stream, "behind", KERNEL_NS)
    found = causes(scene.linked())
    assert found == {("host-late", activity): LATE_NS, LAUNCH: CALL_NS + LATENCY_NS}


def test_every_nanosecond_counts_for_what_the_host_did_then() -> None:
    scene, host, stream = begun()
    host.run("aten::first", 20_000)
    host.load_data(50_000)
    with host.op("aten::second", 30_000):
        host.launch(stream, "behind", KERNEL_NS)
    linked = scene.linked()
    assert causes(linked) == {
        ("host-late", "computed"): 25_000 - 18_000 + 30_000,
        ("host-late", "waited-for-data"): 50_000,
        LAUNCH: CALL_NS + LATENCY_NS,
    }
    blame = idle_blame(linked).select("op", "annotation", "idle_ns", "count", "longest_ns").rows()
    assert blame == [
        (None, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 50_000, 1, 50_000),
        ("aten::second", None, 30_000, 1, 30_000),
        ("aten::first", None, 7_000, 1, 7_000),
    ]


def test_a_part_of_a_gap_has_the_activity_that_took_the_most() -> None:
    scene, host, stream = begun()
    host.run("aten::long", 60_000)
    host.load_data(50_000)
    host.run("aten::longest", 80_000)
    host.launch(stream, "behind", KERNEL_NS)
    late, launch = idle_gaps(scene.linked()).to_dicts()
    assert (late["host_activity"], late["host_activity_ns"]) == ("computed", 5_000 + 60_000 - 18_000 + 80_000)
    assert (late["op"], late["size"]) == ("aten::longest", "macro")
    assert (late["start_ns"], late["gap_ns"]) == (18_000, late["dur_ns"] + launch["dur_ns"])


def test_a_slow_call_is_the_hosts_own_delay() -> None:
    scene, host, stream = begun()
    host.spend(20_000)
    host.launch(stream, "behind", KERNEL_NS, call_ns=300_000)
    assert causes(scene.linked()) == {
        ("host-late", "outside-of-ops"): 25_000 - 18_000,
        ("host-late", "launched"): 300_000,
        ("launch-latency", None): LATENCY_NS,
    }


def test_a_synchronization_drains_the_queue_and_the_whole_gap_is_behind_it() -> None:
    scene, host, stream = begun()
    with host.op("aten::item"):
        host.synchronize(stream)
    host.spend(40_000)
    host.launch(stream, "behind", KERNEL_NS)
    linked = scene.linked()
    assert causes(linked) == {
        ("host-late", "synchronized"): RETURN_NS,
        ("host-late", "outside-of-ops"): 40_000,
        LAUNCH: CALL_NS + LATENCY_NS,
    }
    gaps = idle_gaps(linked)
    assert set(gaps.get_column("sync_call")) == {"cudaStreamSynchronize"}


@cases(
    "around, expected",
    {
        "the user's frame and the innermost module": (
            [
                *[("frame", "train.py(10): step"), ("module", "Model_0")],
                *[("frame", "torch/nn/modules/module.py(1): _call_impl"), ("frame", "model.py(30): forward")],
                *[("frame", "<built-in method mm of type object at 0x7f>"), ("op", "aten::mm")],
            ],
            {"op": "aten::mm", "module": "Model_0", "frame": "model.py(30): forward"},
        ),
        "the innermost frame where none is the user's": (
            [("frame", "torch/optim/sgd.py(5): step"), ("frame", "threading.py(1): wait")],
            {"frame": "threading.py(1): wait"},
        ),
        "the outermost op too": (
            [
                *[("annotation", "Optimizer.step#SGD.step"), ("op", "aten::_foreach_add_")],
                *[("frame", "<built-in method add>"), ("op", "aten::result_type"), ("op", "aten::item")],
            ],
            {"op": "aten::item", "top_op": "aten::_foreach_add_"},
        ),
        "an annotation that is no step": ([("annotation", "epoch"), ("step", 1)], {"annotation": "epoch"}),
    },
)
def test_blame_names_what_is_around(around: list[tuple[str, Any]], expected: dict[str, str]) -> None:
    scene, host, stream = begun()
    with ExitStack() as stack:
        for kind, name in around:
            stack.enter_context(getattr(host, kind)(name))
        host.spend(90_000)
    host.launch(stream, "behind", KERNEL_NS)
    row = idle_blame(scene.linked()).row(0, named=True)
    assert {name: row[name] for name in expected} == expected


def test_blame_is_summed_by_a_single_column() -> None:
    scene, host, stream = begun()
    with host.annotation("forward"):
        host.until(18_000)
        host.run("aten::a", 10_000)
        host.run("aten::b", 20_000)
    with host.annotation("backward"):
        host.run("aten::a", 40_000)
    host.launch(stream, "behind", KERNEL_NS)
    linked = scene.linked()
    columns = ("op", "annotation", "host_activity", "idle_ns", "count", "longest_ns", "share")
    idle_ns = 70_000 + CALL_NS + LATENCY_NS
    assert idle_blame(linked, by="op").select(columns).rows() == [
        ("aten::a", None, None, 50_000, 1, 50_000, pytest.approx(50_000 / idle_ns)),
        ("aten::b", None, None, 20_000, 1, 20_000, pytest.approx(20_000 / idle_ns)),
    ]
    for by, rows in (
        ("annotation", [("backward", 40_000), ("forward", 30_000)]),
        ("host_activity", [("computed", 70_000)]),
    ):
        assert idle_blame(linked, by=by).select(by, "idle_ns").rows() == rows
    with pytest.raises(ArgumentError):
        idle_blame(linked, by="gap")


def late(linked: LinkedTrace) -> dict[tuple[str | None, str | None], int]:
    return {(row["op"], row["frame"]): row["idle_ns"] for row in idle_blame(linked).iter_rows(named=True)}


def test_a_late_backward_pass_is_blamed_on_its_own_thread_and_on_who_called_it() -> None:
    """Main is in Python until 45 µs, then it waits in `loss.backward()` for the thread of the backward pass."""
    scene, host, stream = begun()
    autograd = scene.thread("pt_autograd_0", start=50_000)
    with host.frame("train.py(20): main"):
        host.spend(40_000)
        with host.frame("train.py(21): backward"):
            with autograd.op("MmBackward0", 30_000):
                autograd.launch(stream, "behind", KERNEL_NS)
            host.until(autograd.now)
    assert late(scene.linked()) == {
        ("MmBackward0", "train.py(21): backward"): 30_000,
        (None, "train.py(20): main"): 45_000 - 18_000,
        (None, "train.py(21): backward"): 5_000,
    }


def test_the_end_of_a_backward_pass_counts_where_the_main_thread_only_waits_for_it() -> None:
    scene, host, stream = begun()
    autograd = scene.thread("pt_autograd_0", start=host.now)
    with host.annotation("backward"):
        autograd.launch(stream, "backward", KERNEL_NS)
        autograd.run("torch::autograd::AccumulateGrad", 100_000)
        host.until(autograd.now + 2_000)
    host.launch(stream, "optimizer", KERNEL_NS)
    kernel_end = scene.of("backward")[1].end
    rows = idle_blame(scene.linked()).select("host_activity", "op", "annotation", "idle_ns").rows()
    assert rows == [
        ("computed", "torch::autograd::AccumulateGrad", "backward", 5_000 + CALL_NS + 100_000 - kernel_end),
        ("outside-of-ops", None, "backward", 2_000),
    ]


def test_the_launching_thread_goes_first_where_both_work() -> None:
    scene, host, stream = begun()
    other = scene.thread("pt_autograd_0", start=host.now)
    other.launch(stream, "elsewhere", KERNEL_NS)
    other.run("aten::other", 100_000)
    host.run("aten::own", 100_000)
    host.launch(stream, "behind", KERNEL_NS)
    assert {op for op, _ in late(scene.linked())} == {"aten::own"}


def test_a_thread_that_launches_nothing_is_not_blamed() -> None:
    scene, host, stream = begun()
    scene.thread("tqdm", start=0).run("aten::elsewhere", 500_000)
    host.spend(100_000)
    host.launch(stream, "behind", KERNEL_NS)
    assert late(scene.linked()) == {(None, None): 105_000 - 18_000}


def test_each_device_has_its_own_gaps_and_threads() -> None:
    scene = Scene(devices=[{}, {}])
    for number in (0, 1):
        host, stream = scene.thread(), scene.stream(7, number)
        host.launch(stream, "before", KERNEL_NS)
        host.run(f"aten::on_{number}", 50_000 * (1 + number))
        host.launch(stream, "behind", KERNEL_NS)
    rows = idle_blame(scene.linked()).select("device", "op", "idle_ns").rows()
    assert rows == [("0", "aten::on_0", 55_000 - 18_000), ("1", "aten::on_1", 105_000 - 18_000)]


def test_a_backward_op_is_of_the_module_of_its_forward_op() -> None:
    scene = Scene()
    host, stream, autograd = scene.thread(), scene.stream(7), scene.thread("pt_autograd_0")
    with host.module("Model_0"), host.module("Linear_0"), host.op("aten::addmm", sequence=1) as forward:
        host.launch(stream, "forward", KERNEL_NS)
    autograd.until(100_000)
    with autograd.backward("AddmmBackward0", forward, host), autograd.op("aten::mm", 60_000):
        autograd.launch(stream, "backward", KERNEL_NS)
    rows = idle_blame(scene.linked()).filter(op="aten::mm").select("module", "idle_ns").rows()
    assert rows == [("Linear_0", 60_000)]


def test_where_no_op_runs_the_op_that_launched_next_is_named() -> None:
    scene, host, stream = begun()
    host.spend(50_000)
    with host.op("aten::mm", 20_000):
        host.launch(stream, "behind", KERNEL_NS)
    rows = idle_blame(scene.linked()).select("op", "next_op", "idle_ns").rows()
    assert rows == [(None, "aten::mm", 55_000 - 18_000), ("aten::mm", None, 20_000)]


def test_between_ops_the_host_is_in_python_or_waits_for_data() -> None:
    scene, host = host_scene(devices=[])
    host.run("aten::mm", 10_000)
    with host.frame("train.py(5): step"):
        host.spend(3_000)
        host.load_data(50_000)
        host.run("aten::mm", 10_000)
    linked = scene.linked()
    assert causes(linked) == {("host-late", "python"): 3_000, ("host-late", "waited-for-data"): 50_000}
    assert idle_blame(linked).get_column("frame").to_list() == ["train.py(5): step"] * 2
    row = idle_gaps(linked).to_dicts()[0]
    assert (row["device"], row["next_name"], row["next_call"]) == ("cpu", "aten::mm", None)


def test_idle_time_is_blamed_on_the_line_that_runs_where_the_trace_tells_it() -> None:
    scene, host = host_scene(devices=[])
    host.run("aten::mm", 10_000)
    with host.frame("train.py(5): step", called_from="train.py:30"):
        for line, ns in ((8, 3_000), (9, 4_000), (9, 5_000)):
            with host.frame("<built-in function sleep>", ns, f"train.py:{line}"):
                pass
        host.spend(7_000)
    host.run("aten::mm", 10_000)
    found = idle_blame(scene.linked(), by="frame").select("frame", "idle_ns").rows()
    assert found == [("train.py(9): step", 9_000), ("train.py(5): step", 7_000), ("train.py(8): step", 3_000)]


def test_an_op_on_any_thread_keeps_the_host_busy() -> None:
    scene = Scene(devices=[])
    host, other = scene.thread(), scene.thread()
    host.run("aten::mm", 10_000)
    host.spend(20_000)
    host.run("aten::mm", 10_000)
    other.run("gloo:all_reduce", 25_000)
    assert causes(scene.linked()) == {("host-late", "outside-of-ops"): 5_000}


def test_a_thread_that_takes_over_is_blamed_on_the_one_that_was_in_python() -> None:
    scene = Scene(devices=[])
    host, autograd = scene.thread(), scene.thread("pt_autograd_0", start=40_000)
    host.run("aten::mm", 10_000)
    with host.frame("train.py(7): backward"):
        host.spend(60_000)
    autograd.run("MmBackward0", 10_000)
    rows = idle_blame(scene.linked()).select("frame", "idle_ns").rows()
    assert rows == [("train.py(7): backward", 30_000)]


def test_behind_the_last_op_of_a_step_there_is_no_more() -> None:
    scene, host = host_scene(devices=[])
    with host.step(1):
        host.run("aten::mm", 10_000)
        host.spend(4_000)
    assert causes(scene.linked(), per_step=True) == {("no-more-work", "outside-of-ops"): 4_000}
