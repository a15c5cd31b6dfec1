"""The host launched late: what it did meanwhile, each planted in a gap from 18 µs on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.planted import CALL_NS, LATENCY_NS, RETURN_NS, Stream, Thread
from tests.unit.analysis.time.idle.planted_idle import KERNEL_NS, begun, causes
from tracebraid.analysis.time.idle.idle_blame import idle_blame
from tracebraid.analysis.time.idle.idle_gaps import idle_gaps
from tracebraid.errors import ArgumentError

LAUNCH = ("launch-latency", None)
MEANWHILE_NS = 200_000
LATE_NS = 5_000 + MEANWHILE_NS - 18_000
"""From the end of the first kernel to the call that launches the second."""


def _computes(host: Thread, stream: Stream) -> None:
    host.run("aten::slow", MEANWHILE_NS)


def _loads_data(host: Thread, stream: Stream) -> None:
    host.load_data(MEANWHILE_NS)


def _collates(host: Thread, stream: Stream) -> None:
    with host.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
        host.run("aten::stack", MEANWHILE_NS)


def _waits_for_queue(host: Thread, stream: Stream) -> None:
    with host.frame("train.py(3): feed"), host.frame("queue.py(154): get"):
        host.spend(MEANWHILE_NS)


def _pins(host: Thread, stream: Stream) -> None:
    host.run("aten::_pin_memory", MEANWHILE_NS)


def _runs_python(host: Thread, stream: Stream) -> None:
    with host.frame("train.py(10): step"), host.frame("torch/nn/modules/module.py(1): _call_impl"):
        host.spend(MEANWHILE_NS)


def _runs_nothing(host: Thread, stream: Stream) -> None:
    host.spend(MEANWHILE_NS)


def _annotates(host: Thread, stream: Stream) -> None:
    with host.annotation("forward"):
        host.spend(MEANWHILE_NS)


def _loads_module(host: Thread, stream: Stream) -> None:
    with host.op("aten::mm"):
        host.call("cuModuleLoadData", MEANWHILE_NS)


def _launches_without_work(host: Thread, stream: Stream) -> None:
    with host.op("aten::mm"):
        host.call("cudaLaunchKernel", MEANWHILE_NS)


def _computes_in_a_call(host: Thread, stream: Stream) -> None:
    with host.event("gif_merge", "mtia_runtime", {}):
        host.spend(1_000)
        host.run("aten::slow", MEANWHILE_NS - 1_000)


def _annotates_in_a_call(host: Thread, stream: Stream) -> None:
    with host.event("gif_merge", "mtia_runtime", {}), host.annotation("prepare"):
        host.spend(MEANWHILE_NS)


def _allocates(host: Thread, stream: Stream) -> None:
    with host.op("aten::empty"):
        host.call("cudaMalloc", MEANWHILE_NS)


def _reads_scalar(host: Thread, stream: Stream) -> None:
    with host.op("aten::item"), host.op("aten::_local_scalar_dense"):
        host.call("cudaStreamSynchronize", MEANWHILE_NS)


def _waits_on_hip(host: Thread, stream: Stream) -> None:
    host.call("hipDeviceSynchronize", MEANWHILE_NS)


def _copies_at_once(host: Thread, stream: Stream) -> None:
    host.call("hipMemcpyWithStream", MEANWHILE_NS)


def _waits_for_other_ranks(host: Thread, stream: Stream) -> None:
    with host.annotation("gloo:barrier"):
        host.spend(MEANWHILE_NS)


@pytest.mark.parametrize(
    ("meanwhile", "activity"),
    [
        (_computes, "computed"),
        (_loads_data, "waited-for-data"),
        (_collates, "waited-for-data"),
        (_waits_for_queue, "waited-for-data"),
        (_pins, "waited-for-data"),
        (_runs_python, "python"),
        (_runs_nothing, "outside-of-ops"),
        (_annotates, "outside-of-ops"),
        (_loads_module, "called"),
        (_launches_without_work, "launched"),
        (_computes_in_a_call, "computed"),
        (_annotates_in_a_call, "called"),
        (_allocates, "synchronized"),
        (_reads_scalar, "synchronized"),
        (_waits_on_hip, "synchronized"),
        (_copies_at_once, "synchronized"),
        (_waits_for_other_ranks, "communicated"),
    ],
)
def test_what_the_host_did_is_found(meanwhile: Callable[[Thread, Stream], None], activity: str) -> None:
    scene, host, stream = begun()
    meanwhile(host, stream)
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


def test_the_frame_is_the_users_and_the_module_the_innermost() -> None:
    scene, host, stream = begun()
    with (
        host.frame("train.py(10): step"),
        host.module("Model_0"),
        host.frame("torch/nn/modules/module.py(1): _call_impl"),
        host.frame("model.py(30): forward"),
        host.frame("<built-in method mm of type object at 0x7f>"),
        host.op("aten::mm", 90_000),
    ):
        host.launch(stream, "behind", KERNEL_NS)
    row = idle_blame(scene.linked()).to_dicts()[0]
    assert (row["op"], row["module"]) == ("aten::mm", "Model_0")
    assert row["frame"] == "model.py(30): forward"


def test_without_a_frame_of_the_users_the_innermost_counts() -> None:
    scene, host, stream = begun()
    with host.frame("torch/optim/sgd.py(5): step"), host.frame("threading.py(1): wait"):
        host.spend(90_000)
    host.launch(stream, "behind", KERNEL_NS)
    assert idle_blame(scene.linked()).item(0, "frame") == "threading.py(1): wait"


def test_the_outermost_op_is_named_too() -> None:
    scene, host, stream = begun()
    with host.annotation("Optimizer.step#SGD.step"), host.op("aten::_foreach_add_"):
        with host.frame("<built-in method add>"), host.op("aten::result_type"):
            host.run("aten::item", 90_000)
        host.launch(stream, "behind", KERNEL_NS)
    row = idle_blame(scene.linked()).row(0, named=True)
    assert (row["op"], row["top_op"]) == ("aten::item", "aten::_foreach_add_")


def test_a_step_is_no_annotation_but_the_innermost_other_is() -> None:
    scene, host, stream = begun()
    with host.annotation("epoch"), host.step(1):
        host.spend(90_000)
    host.launch(stream, "behind", KERNEL_NS)
    assert idle_blame(scene.linked()).item(0, "annotation") == "epoch"


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
        ("aten::a", None, None, 50_000, 1, 50_000, 50_000 / idle_ns),
        ("aten::b", None, None, 20_000, 1, 20_000, 20_000 / idle_ns),
    ]
    assert idle_blame(linked, by="annotation").select("annotation", "idle_ns").rows() == [
        ("backward", 40_000),
        ("forward", 30_000),
    ]
    assert idle_blame(linked, by="host_activity").select("host_activity", "idle_ns").rows() == [
        ("computed", 70_000)
    ]


def test_blame_is_summed_by_no_other_column() -> None:
    scene, _, _ = begun()
    with pytest.raises(ArgumentError):
        idle_blame(scene.linked(), by="gap")
