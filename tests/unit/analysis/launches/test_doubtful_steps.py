"""What lies in doubtful steps counts in sums, least and greatest, and in no means."""

from __future__ import annotations

import polars as pl
import pytest

from tests.planted import Copy, Scene
from tracebraid.analysis.launches.copies.copy_bandwidth import copy_bandwidth
from tracebraid.analysis.launches.launches import launches
from tracebraid.analysis.launches.queues.queue_lengths import queue_lengths
from tracebraid.analysis.launches.syncs.syncs import syncs
from tracebraid.model.linked_trace import LinkedTrace

STEPS = ["ProfilerStep#1", "ProfilerStep#2"]


def two_steps() -> LinkedTrace:
    """A step with a launch, a wait and a copy, and a step with more and longer ones."""
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    for number in (1, 2):
        with host.step(number, 10):
            for _ in range(number):
                host.launch(stream, "k", 100_000 * number)
            host.synchronize(stream)
            host.copy(stream, Copy.PINNED_TO_DEVICE, 4_000 * number**2, 1_000 * number, blocking=False)
            host.synchronize(stream)
    return scene.linked()


@pytest.mark.parametrize("doubtful", [STEPS[:1], STEPS[1:], STEPS])
def test_the_greatest_is_that_of_all_steps(monkeypatch: pytest.MonkeyPatch, doubtful: list[str]) -> None:
    linked = two_steps()
    answers = (
        (launches, ["op", "api"], ["host_max_ns", "device_max_ns"], "device_mean_ns"),
        (syncs, ["api", "waited_name"], ["max_ns"], "mean_ns"),
        (queue_lengths, ["stream"], ["min", "max"], "mean"),
        (copy_bandwidth, ["name"], ["min_bytes_per_s", "max_bytes_per_s"], "mean_bytes_per_s"),
    )
    before = [function(linked).sort(key) for function, key, _, _ in answers]
    monkeypatch.setattr("tracebraid.analysis.step_rows.doubtful_steps", lambda *_: pl.Series(doubtful))
    for (function, key, extremes, mean), sound in zip(answers, before, strict=True):
        found = function(two_steps()).sort(key)
        assert found.select(*key, *extremes).equals(sound.select(*key, *extremes))
        assert not found.get_column(mean).equals(sound.get_column(mean))
        assert found.get_column(mean).is_null().all() == (doubtful == STEPS)
