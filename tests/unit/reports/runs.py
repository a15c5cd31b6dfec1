"""Runs whose reports are tested: of planted ranks, and of the demo; each asked once."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import tracebraid
from tests.planted import Scene, write_ranks
from tracebraid.api.reporting import ReportOptions, run_results
from tracebraid.model.report import RunResults


def planted_scene(rank: int = 0, steps: int = 4) -> Scene:
    """A rank with steps, a product on a stream in each, and a synchronisation."""
    scene = Scene(rank=rank)
    host, stream = scene.thread(), scene.stream(7)
    for number in range(1, steps + 1):
        with host.step(number):
            host.spend(10_000 * number + 7_000 * rank)
            with host.op("aten::mm", dims=[[2, 3], [3, 4]]):
                host.launch(stream, "gemm", 50_123)
            host.synchronize(stream)
    return scene


@cache
def planted_results() -> RunResults:
    """The results of two planted ranks."""
    with TemporaryDirectory() as folder:
        write_ranks(Path(folder), [planted_scene(0), planted_scene(1)])
        return run_results(tracebraid.open(folder))


@cache
def single_results() -> RunResults:
    """The results of one planted rank."""
    with TemporaryDirectory() as folder:
        write_ranks(Path(folder), [planted_scene()])
        return run_results(tracebraid.open(folder))


@cache
def demo_results() -> RunResults:
    """The results of the demo, without its dependency graph."""
    return run_results(tracebraid.open(tracebraid.demo_path()), ReportOptions(with_graph=False))
