"""Flame graphs of planted traces: which frame an event makes, and which are merged."""

from __future__ import annotations

from contextlib import ExitStack

import polars as pl

from tests.planted import Scene
from tracebraid.analysis.flames.device_stacks import LAUNCHED_IN_NOTHING, NOT_LAUNCHED
from tracebraid.analysis.flames.flame_frames import flame_frames
from tracebraid.model.answers import FLAME_FRAMES, FlameTree

DEEP = 2_000


def of(frames: pl.DataFrame, tree: FlameTree) -> pl.DataFrame:
    return frames.filter(tree=tree.value)


def test_steps_and_addresses_do_not_split_what_is_the_same() -> None:
    scene = Scene()
    host = scene.thread()
    for number in range(3):
        with host.step(number):
            host.spend(10)
            with host.frame(f"<built-in method run of Engine object at 0x7f{number}a>", 5):
                host.run("aten::mm", 1_000)
            host.spend(10)
    frames = of(flame_frames(scene.linked()), FlameTree.HOST)
    assert frames.get_column("name").to_list() == [
        "ProfilerStep",
        "<built-in method run of Engine>",
        "aten::mm",
    ]
    assert frames.get_column("kind").to_list() == ["annotation", "python", "op"]
    assert frames.get_column("count").to_list() == [3, 3, 3]
    assert frames.get_column("self_ns").to_list()[-1] == 3_000


def test_a_kernel_is_on_the_stack_of_its_launch_without_the_call() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream()
    with host.frame("train.py(3): step"), host.op("aten::linear"), host.op("aten::mm"):
        host.launch(stream, "gemm", 700)
        host.launch(stream, "gemm", 300)
    frames = of(flame_frames(scene.linked()), FlameTree.DEVICE)
    assert frames.get_column("name").to_list() == ["train.py(3): step", "aten::linear", "aten::mm", "gemm"]
    assert frames.row(3, named=True)["self_ns"] == 1_000
    assert frames.get_column("total_ns").to_list() == [1_000] * 4
    assert frames.row(3, named=True)["count"] == 2
    assert frames.row(3, named=True)["kind"] == "compute"


def test_device_time_without_a_stack_has_roots_that_say_so() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream()
    host.launch(stream, "outside", 200)
    stream.run("unknown", 500)
    frames = of(flame_frames(scene.linked()), FlameTree.DEVICE)
    roots = dict(frames.filter(depth=0).select("name", "total_ns").iter_rows())
    assert roots == {LAUNCHED_IN_NOTHING: 200, NOT_LAUNCHED: 500}
    assert frames.filter(depth=1).get_column("name").to_list() == ["unknown", "outside"]


def test_frames_of_one_name_and_several_kinds_stay_apart() -> None:
    scene = Scene()
    host = scene.thread()
    host.run("same", 100)
    with host.annotation("same", 50):
        pass
    frames = of(flame_frames(scene.linked()), FlameTree.HOST)
    assert dict(frames.select("kind", "count").iter_rows()) == {"op": 1, "annotation": 1}


def test_without_events_there_are_no_frames() -> None:
    frames = flame_frames(Scene(devices=()).linked())
    assert frames.is_empty()
    assert frames.schema == FLAME_FRAMES.empty().schema


def test_no_device_and_no_modules_leave_their_trees_out() -> None:
    scene = Scene(devices=())
    scene.thread().run("aten::mm", 10)
    assert flame_frames(scene.linked()).get_column("tree").unique().to_list() == [FlameTree.HOST.value]


def test_two_thousand_levels_are_as_many_frames() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream()
    with ExitStack() as nested:
        for _ in range(DEEP):
            nested.enter_context(host.op("aten::checkpoint", 1))
        host.launch(stream, "gemm", 700)
    frames = flame_frames(scene.linked())
    device = of(frames, FlameTree.DEVICE)
    assert device.get_column("depth").to_list() == list(range(DEEP + 1))
    assert device.get_column("total_ns").unique().to_list() == [700]
    assert of(frames, FlameTree.HOST).get_column("depth").max() == DEEP
