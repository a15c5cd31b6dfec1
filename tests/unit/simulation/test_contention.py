"""Threads that share cores: ops are slower beside each other, and a change that brings them there is predicted so."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace

import tracebraid
from tests.planted import PlannedJob
from tracebraid.model.capture_facts import CaptureFacts, ThreadFacts
from tracebraid.model.graph import DependencyGraph, Doubt
from tracebraid.simulation.contention import contention_of

OP_NS = 200_000
STEPS = 12
APART, TOGETHER = "apart", "together"


def job(folder: Path, slowdown: float, kinds: str, cores: int = 1) -> DependencyGraph:
    """Two ranks with an op each, at the same time or one behind the other's: rank 1 sleeps before."""
    planned = PlannedJob(2, devices=[])
    for number in range(1, STEPS + 1):
        together = kinds == TOGETHER or (kinds != APART and number % 2 == 0)
        op_ns = round(OP_NS * (1 + slowdown)) if together else OP_NS
        with planned.step(number):
            planned.threads[0].run("aten::mm", op_ns)
            if not together:
                with planned.threads[1].annotation("sleep", OP_NS):
                    pass
            planned.threads[1].run("aten::mul", op_ns)
            planned.collective("barrier", transfer=10_000)
    folder.mkdir()
    graph = tracebraid.dependency_graph(tracebraid.open(planned.write(folder)))
    return replace(graph, captures={rank: CaptureFacts(cores=cores) for rank in range(2)})


def doubt_ns(found: tracebraid.results.WhatIf) -> float:
    rows = found.doubts.filter(pl.col("doubt") == Doubt.CONTENTION.value)
    return float(rows.get_column("half_width_ns").item())


@pytest.mark.parametrize("slowdown", [0.0, 0.4, 1.0])
def test_the_slowdown_is_found(tmp_path: Path, slowdown: float) -> None:
    found = contention_of(job(tmp_path / "a", slowdown, "both"))
    assert found.slowdown == pytest.approx(slowdown, rel=0.02, abs=0.02)
    assert found.error < 0.05
    assert found.excess.max() == pytest.approx(1.0)


@pytest.mark.parametrize(("kinds", "cores"), [("both", 2), (TOGETHER, 1), (APART, 1)])
def test_without_contrast_shares_are_equal_and_doubtful(tmp_path: Path, kinds: str, cores: int) -> None:
    found = contention_of(job(tmp_path / "a", 0.4, kinds, cores))
    assert (found.slowdown, found.error) == pytest.approx((1.0, 0.5), rel=0.01)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("slowdown", [0.4, 1.0])
def test_ops_that_come_beside_each_other_get_slower(tmp_path: Path, slowdown: float) -> None:
    found = tracebraid.what_if(job(tmp_path / "a", slowdown, "both"), "remove name=sleep")
    truth = tracebraid.what_if(job(tmp_path / "b", slowdown, TOGETHER), "scale 1")
    assert found.after_ns == pytest.approx(truth.before_ns, rel=0.02)


def test_where_nothing_shows_the_slowdown_threads_share_cores_equally(tmp_path: Path) -> None:
    shared, apart = (
        tracebraid.what_if(job(tmp_path / str(cores), 0.0, APART, cores), "remove name=sleep")
        for cores in (1, 2)
    )
    # Ops of one core take as long beside each other as one behind the other.
    assert apart.gain_ns == OP_NS
    assert shared.gain_ns == pytest.approx(0.0, abs=0.02 * OP_NS)
    assert doubt_ns(apart) == 0
    assert doubt_ns(shared) == pytest.approx(apart.gain_ns / 2 * 1.28, rel=0.1)
    assert shared.gain_low_ns < 0 < shared.gain_high_ns < apart.gain_ns


def test_communication_takes_as_much_of_a_core_as_its_threads_did(tmp_path: Path) -> None:
    """Two ranks on two cores: a product beside an all-reduce whose threads compute all along, half of it, or hardly."""
    planned = PlannedJob(2, devices=[])
    for number in range(1, STEPS + 1):
        with planned.step(number):
            planned.collective("allreduce", transfer=2 * OP_NS)
            planned.compute(OP_NS)
    graph = tracebraid.dependency_graph(tracebraid.open(planned.write(tmp_path)))
    lasted_ns = 2 * OP_NS * STEPS
    gains = []
    for busy_ns in (lasted_ns, lasted_ns // 2, 1):
        threads = tuple(ThreadFacts(1, "pt_gloo_runloop", part, 0, 0, 0) for part in (busy_ns, 0))
        facts = CaptureFacts(cores=2, window_ns=1_000, of_threads=threads)
        busy = replace(graph, captures=dict.fromkeys(range(2), facts))
        gains.append(tracebraid.what_if(busy, "defer name=gloo:all_reduce").gain_ns)
    assert gains[0] == pytest.approx(0, abs=0.3 * OP_NS)
    # Three threads' worth on two cores: the product takes half longer, the rest of the all-reduce a quarter until then.
    assert gains[1] == pytest.approx(0.7 * OP_NS, rel=0.05)
    assert gains[2] == pytest.approx(OP_NS, rel=0.05)


def test_other_programs_on_the_cores_make_the_interval_wider(tmp_path: Path) -> None:
    graph = job(tmp_path / "a", 0.0, APART, 2)
    doubts = []
    for waited in (0, 300, 600):
        threads = (ThreadFacts(1, "main", 500, waited, 0, 0), ThreadFacts(2, "gloo", 500, 900, 0, 0))
        facts = CaptureFacts(cores=2, window_ns=1_000, of_threads=threads)
        busy = replace(graph, captures=dict.fromkeys(range(2), facts))
        doubts.append(doubt_ns(tracebraid.what_if(busy, "remove name=sleep")))
    assert doubts[0] == 0
    assert doubts[1] > 0
    assert doubts[2] == pytest.approx(2 * doubts[1])
