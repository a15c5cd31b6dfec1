"""The cost of idle time by cause is linear in the events."""

from __future__ import annotations

from tests.growth import growth
from tests.planted import Scene
from tracebraid.analysis.time.idle.idle_blame import idle_blame
from tracebraid.analysis.time.idle.idle_causes import idle_causes
from tracebraid.analysis.time.idle.idle_gaps import idle_gaps
from tracebraid.model.linked_trace import LinkedTrace

KERNELS = 1_500


def late_kernels(count: int) -> LinkedTrace:
    """A trace in which each kernel is late, and the host is in several ops meanwhile."""
    scene = Scene(flows=False)
    host, stream = scene.thread(), scene.stream(7)
    with host.step(1):
        for _ in range(count):
            with host.op("aten::linear", 20_000), host.op("aten::addmm", 20_000):
                host.launch(stream, "gemm", 1_000)
    linked = scene.linked()
    return linked.compute_all()


def ask_all(linked: LinkedTrace) -> None:
    """Every question about idle time, with nothing kept from an earlier round."""
    linked = LinkedTrace(linked.timeline, linked.stages)
    for ask in (idle_causes, idle_blame, idle_gaps):
        ask(linked, per_step=True)


def test_eight_times_the_kernels_cost_about_eight_times_as_much() -> None:
    assert growth(ask_all, late_kernels(KERNELS), late_kernels(8 * KERNELS)) < 16
