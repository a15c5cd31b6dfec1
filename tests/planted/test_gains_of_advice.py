"""Savings by replay: those of planted patterns, by the runs of the programs themselves."""

from __future__ import annotations

from functools import cache

import polars as pl
import pytest
from hypothesis import given, settings

import tracebraid
from tests.planted import Scene, Stream, Thread
from tests.planted.patterns import PATTERNS
from tests.planted.test_bounds_of_delays import DELAYS, Act, acts, end_of, run
from tests.planted.training_loop import STEPS, training_loop
from tracebraid.api.advising import advice_of_ranks, all_detectors, detectors, rank_advice
from tracebraid.api.graphing import graph_of_ranks, rank_of_graph
from tracebraid.model.answers.job import SavingBasis
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions import Advice

REPLAYED = {detector.name for detector in detectors() if detector.removes is not None}
BETWEEN_RANKS = {"late-rank", "rank-imbalance"}
EXAMINED = {"interpreter-lock"}
"""Planted in the examination, with threads of its own: `threads_keep_the_interpreter_lock`."""
WAITED_FOR = sorted(REPLAYED - {"hidable-communication", "unbalanced-buckets"} - BETWEEN_RANKS - EXAMINED)
"""In the planted programs of the others no work waits for the communication."""
_CALLS_NS = 20_000
_ROUNDING = 0.999
NO_COST = {"untraced_step_median_ns": 10**12}
"""What a capture says whose profiler costs nothing."""


@cache
def linked(name: str) -> LinkedTrace:
    (scene,) = PATTERNS[name].scenes
    scene.facts = {**scene.facts, **NO_COST}
    return scene.linked()


def saving_of(advice: Advice, detector: str) -> float:
    """What the detector's items save, over all steps."""
    items = advice.items.filter(pl.col("detector") == detector)
    return float(items.get_column("saving_per_step_ns").sum()) * max(advice.steps, 1)


@pytest.mark.parametrize("name", WAITED_FOR)
def test_what_a_pattern_costs_is_saved_in_the_replay(name: str) -> None:
    advice = tracebraid.advise(linked(name), 0.0)
    first = advice.items.row(0, named=True)
    assert (first["detector"], first["basis"]) == (name, SavingBasis.REPLAY.value)
    least, most = PATTERNS[name].saving_ns
    assert least * (STEPS - 1) / STEPS * _ROUNDING <= saving_of(advice, name) <= most
    assert first["saving_low_per_step_ns"] <= first["saving_per_step_ns"] <= first["saving_high_per_step_ns"]


@pytest.mark.parametrize("name", sorted(set(PATTERNS) - REPLAYED))
def test_of_evidence_that_is_not_the_time_itself_the_time_is_accounted_for(name: str) -> None:
    items = advice_of(name).items.filter(pl.col("detector") == name)
    assert items.get_column("basis").unique().to_list() == [SavingBasis.ACCOUNTING.value]


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(BETWEEN_RANKS))
def test_what_a_rank_costs_the_others_is_saved_in_the_replay(name: str) -> None:
    advice = advice_of(name)
    first = advice.items.row(0, named=True)
    assert (first["detector"], first["basis"], first["under"]) == (name, SavingBasis.REPLAY.value, None)
    least, most = PATTERNS[name].saving_ns
    assert least <= saving_of(advice, name) <= most


def advice_of(name: str) -> Advice:
    """The advice for the ranks of a pattern."""
    traces = [scene.linked() for scene in PATTERNS[name].scenes]
    known = all_detectors()
    ranks = [rank_advice(trace, known) for trace in traces]
    graph = graph_of_ranks([rank_of_graph(trace) for trace in traces])
    return advice_of_ranks(ranks, known, graph, 0.0)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("name", sorted(DELAYS))
@settings(deadline=None, derandomize=True, max_examples=2)
@given(program=acts())
def test_no_delay_costs_more_than_is_saved_in_the_replay(name: str, program: list[Act]) -> None:
    slow, mended = run(program, DELAYS[name]), run(program, None)
    slow.facts = NO_COST
    trace = slow.linked()
    saving = saving_of(tracebraid.advise(trace, 0.0), name)
    assert end_of(slow) - end_of(mended) <= saving + _CALLS_NS * len(program)
    assert saving <= trace.timeline.events.get_column("dur_ns").sum()


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("name", sorted(PATTERNS))
def test_the_accounting_of_a_step_adds_up(name: str) -> None:
    advice = tracebraid.advise(PATTERNS[name].scenes[0].linked(), 0.0)
    shares = advice.accounting.group_by("of_rank", "step").agg(pl.col("share").sum())
    assert ((shares.get_column("share") - 1).abs() < 1e-9).all()
    assert advice.of_job.get_column("ns").sum() == pytest.approx(advice.step_ns * max(advice.steps, 1))


def _in_another_thread() -> Scene:
    """Each step waits for a value; another thread saves for longer, for which nothing waits."""
    scene = Scene()
    other = scene.thread("writer")

    def within(host: Thread, stream: Stream, number: int) -> None:
        with host.op("aten::item"), host.op("aten::_local_scalar_dense"):
            host.synchronize(stream)
        other.until(host.now)
        with other.annotation("save_checkpoint", 3_000_000):
            pass
        host.spend(2_000_000)

    return training_loop(within, scene)


def test_what_nothing_waits_for_saves_nothing_and_is_not_shown() -> None:
    items = tracebraid.advise(_in_another_thread().linked(), 0.0).items
    assert "item-sync" in items.get_column("detector")
    assert "recording" not in items.get_column("detector")
    assert items.get_column("item").to_list() == list(range(1, items.height + 1))


def test_an_empty_trace_has_no_advice() -> None:
    assert tracebraid.advise(Scene().linked(), 0.0).items.is_empty()
