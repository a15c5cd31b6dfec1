"""The histogram of durations."""

from __future__ import annotations

from tests.planted import Scene
from tracebraid.analysis.kernels.kernel_durations import kernel_durations


def test_a_bin_holds_its_first_duration_and_not_its_last() -> None:
    scene = Scene()
    stream = scene.stream(7)
    for dur in (0, 1, 2, 4, 5, 10, 19, 20_000, 49_999):
        stream.run("k", dur)
    stream.run("Memset (Device)", 3, category="gpu_memset")
    found = kernel_durations(scene.linked())
    assert found.select("from_ns", "below_ns", "count", "total_ns").rows() == [
        (0, 1, 1, 0),
        (1, 2, 1, 1),
        (2, 5, 2, 6),
        (5, 10, 1, 5),
        (10, 20, 2, 29),
        (20_000, 50_000, 2, 69_999),
    ]
    assert found.get_column("share_of_count").sum() == 1.0
    assert found.get_column("share").sum() == 1.0


def test_kernels_without_length_have_no_share_of_time() -> None:
    scene = Scene()
    scene.stream(7).run("k", 0)
    assert kernel_durations(scene.linked()).select("share_of_count", "share").rows() == [(1.0, 0.0)]
