"""Nothing is wrong with planted training; what is planted into it is found."""

from __future__ import annotations

import pytest

from tests.builders import Json
from tests.planted import A100, H100, MI300X, V100, Scene, Stream
from tests.planted.scenes import KERNEL_NS, clean
from tracebraid.analysis.validity.validity import validity

DEVICES = pytest.mark.parametrize("device", [V100, A100, H100, MI300X], ids=lambda device: device["name"])


def doubts(scene: Scene) -> list[tuple[str | None, str, int, int | None]]:
    return validity(scene.linked()).select("step", "doubt", "count", "time_ns").rows()


def on(device: Json, scene: Scene) -> Scene:
    scene.devices = [device]
    return scene


@DEVICES
@pytest.mark.parametrize("world_size", [1, 4])
def test_clean_training_gives_no_doubt(device: Json, world_size: int) -> None:
    assert doubts(on(device, clean(5, world_size=world_size))) == []


@DEVICES
def test_work_that_outlasts_later_work_of_its_stream_is_found(device: Json) -> None:
    """Of the last step, so that no other runs meanwhile."""
    scene = on(device, clean(4))
    [step] = scene.of("ProfilerStep#4")
    inside = [kernel for kernel in scene.of("gemm") if kernel.call is not None and kernel.call.ts > step.ts]
    inside[0].dur = 3 * KERNEL_NS
    assert doubts(scene) == [("ProfilerStep#4", "stream-overlaps", 1, 3 * KERNEL_NS)]


@pytest.mark.parametrize(("device", "found"), [(A100, True), (H100, False)])
def test_a_start_before_the_predecessor_ends_is_possible_from_compute_capability_9(
    device: Json, found: bool
) -> None:
    scene = on(device, clean(2))
    scene.of("gemm")[1].ts -= KERNEL_NS // 4
    scene.of("gemm")[1].dur += KERNEL_NS // 4
    assert bool(doubts(scene)) == found


def test_streams_of_two_devices_are_apart() -> None:
    scene = Scene(devices=[A100, A100])
    host = scene.thread()
    streams: list[Stream] = [scene.stream(7, device) for device in (0, 1)]
    with host.op("aten::mm"):
        for stream in streams:
            host.launch(stream, "gemm", KERNEL_NS)
    host.synchronize()
    assert doubts(scene) == []


def test_a_graph_replayed_in_each_step_gives_no_doubt() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    for number in range(4):
        with host.step(number):
            host.replay(stream, [("gemm", 10_000), ("relu", 3_000)] * 10)
            host.synchronize(stream)
    assert doubts(scene) == []
    lost = [event for event in scene.of_category("kernel") if event.ts > scene.of("ProfilerStep#2")[0].ts]
    for event in lost:
        scene.events.remove(event)
    assert [row[:2] for row in doubts(scene)] == [
        ("ProfilerStep#2", "device-events-missing"),
        ("ProfilerStep#3", "device-events-missing"),
    ]
