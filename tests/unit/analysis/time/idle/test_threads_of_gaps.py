"""Which thread a gap is blamed on: forward and backward run on threads of their own."""

from __future__ import annotations

from tests.planted import CALL_NS, Scene
from tests.unit.analysis.time.idle.planted_idle import KERNEL_NS, begun, causes
from tracebraid.analysis.host.thread_timelines import thread_timelines
from tracebraid.analysis.time.idle.idle_blame import idle_blame
from tracebraid.model.linked_trace import LinkedTrace


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


def test_a_timeline_has_the_innermost_event_at_every_moment() -> None:
    scene = Scene()
    host = scene.thread()
    with host.op("outer", 10):
        host.run("inner", 5)
        host.spend(3)
        host.run("last", 2)
    host.spend(7)
    host.run("after", 4)
    linked = scene.linked()
    (timeline,) = thread_timelines(linked).values()
    names = {-1: "", **{row: event.name for row, event in enumerate(scene.events)}}
    assert [(int(m), names[int(r)]) for m, r in zip(timeline.moments, timeline.rows, strict=True)] == [
        (0, "outer"),
        (10, "inner"),
        (15, "outer"),
        (18, "last"),
        (20, ""),
        (27, "after"),
        (31, ""),
    ]
    assert causes(linked) == {("host-late", "outside-of-ops"): 7}


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
