"""From start to start of a kernel."""

from __future__ import annotations

from tests.planted import Scene
from tracebraid.analysis.kernels.kernel_pace import kernel_pace


def test_distances_are_from_start_to_start_on_a_stream() -> None:
    scene = Scene()
    for number, starts in ((7, (0, 100, 400)), (8, (50, 90)), (9, (10,))):
        for at in starts:
            scene.stream(number).run("k", 5, at=at)
    found = kernel_pace(scene.linked())
    columns = ("device", "stream", "count", "mean_ns", "median_ns", "min_ns", "max_ns")
    assert found.select(columns).rows() == [
        ("0", "7", 2, 200.0, 200.0, 100, 300),
        ("0", "8", 1, 40.0, 40.0, 40, 40),
    ]
    assert found.get_column("std_ns").null_count() == 1


def test_distances_of_a_step_are_within_it() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    for number, runs in ((1, 2), (2, 1)):
        with host.step(number):
            for _ in range(runs):
                host.launch(stream, "k", 10)
    found = kernel_pace(scene.linked(), per_step=True)
    assert found.select("step", "count").rows() == [("ProfilerStep#1", 1)]
