"""Traces without a device: idle is when no op runs on any thread."""

from __future__ import annotations

from tests.planted import Scene
from tests.unit.analysis.time.idle.planted_idle import causes
from tracebraid.analysis.time.idle.idle_blame import idle_blame
from tracebraid.analysis.time.idle.idle_gaps import idle_gaps


def test_between_ops_the_host_is_in_python_or_waits_for_data() -> None:
    scene = Scene(devices=[])
    host = scene.thread()
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
    scene = Scene(devices=[])
    host = scene.thread()
    with host.step(1):
        host.run("aten::mm", 10_000)
        host.spend(4_000)
    assert causes(scene.linked(), per_step=True) == {("no-more-work", "outside-of-ops"): 4_000}
