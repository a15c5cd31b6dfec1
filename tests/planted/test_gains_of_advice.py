"""Advice ranked by replays of the graph: gains of planted patterns, by the runs of the programs themselves."""

from __future__ import annotations

from functools import cache

import polars as pl
import pytest
from hypothesis import given, settings

from tests.planted import Scene, Stream, Thread
from tests.planted.patterns import PATTERNS
from tests.planted.test_bounds_of_delays import DELAYS, Act, acts, end_of, run
from tests.planted.training_loop import STEPS, training_loop
from tracebraid import api
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.advice import Advice
from tracebraid.simulation.without_evidence.taken_away import TAKEN_AWAY

WAITED_FOR = sorted(set(TAKEN_AWAY) - {"hidable-communication", "unbalanced-buckets"})
"""In the planted programs of the others no work waits for the communication."""
_CALLS_NS = 20_000
_ROUNDING = 1.001


@cache
def linked(name: str) -> LinkedTrace:
    return PATTERNS[name].scenes[0].linked()


def gain_of(advice: Advice, detector: str) -> tuple[float, float]:
    """Over all steps: what the detector's items gain, and what they save at most."""
    items = advice.items.filter(pl.col("detector") == detector)
    gain, saving = (
        float(items.get_column(name).sum()) for name in ("gain_per_step_ns", "saving_per_step_ns")
    )
    return gain * max(advice.steps, 1), saving * max(advice.steps, 1)


def test_each_is_a_detector() -> None:
    assert set(TAKEN_AWAY) <= set(api.known_detectors().by_name)


@pytest.mark.parametrize("name", WAITED_FOR)
def test_what_a_pattern_costs_is_gained_in_the_replay(name: str) -> None:
    gain, saving = gain_of(api.advise(linked(name), 0.0, by_graph=True), name)
    assert PATTERNS[name].saving_ns[0] * (STEPS - 1) / STEPS <= gain <= saving * _ROUNDING


@pytest.mark.parametrize("name", sorted(set(PATTERNS) - set(TAKEN_AWAY)))
def test_of_evidence_that_is_not_the_time_itself_no_gain_is_known(name: str) -> None:
    traces = [scene.linked() for scene in PATTERNS[name].scenes]
    known = api.known_detectors()
    ranks = [api.rank_advice(trace, known) for trace in traces]
    graph = api.graph_of_ranks([api.rank_of_graph(trace) for trace in traces])
    items = api.advice_of_ranks(ranks, known, 0.0, graph).items.filter(pl.col("detector") == name)
    assert items.height
    assert items.get_column("gain_per_step_ns").null_count() == items.height


@pytest.mark.parametrize("name", sorted(DELAYS))
@settings(deadline=None, derandomize=True, max_examples=2)
@given(program=acts())
def test_no_delay_costs_more_than_the_replay_gains(name: str, program: list[Act]) -> None:
    slow, mended = run(program, DELAYS[name]), run(program, None)
    trace = slow.linked()
    advice = api.advise(trace, 0.0, by_graph=True)
    gain, saving = gain_of(advice, name)
    lost = end_of(slow) - end_of(mended)
    assert lost <= min(gain, saving) + _CALLS_NS * len(program)
    evidence = advice.evidence.filter(pl.col("detector") == name)
    assert not evidence.height or gain <= trace.timeline.events.get_column("dur_ns").sum()


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


def test_what_nothing_waits_for_gains_nothing_and_sinks() -> None:
    trace = _in_another_thread().linked()
    by_graph, alone = (api.advise(trace, 0.0, by_graph=asked).items for asked in (True, False))
    gains = dict(by_graph.select("detector", "gain_per_step_ns").iter_rows())
    assert gains["recording"] == 0
    assert gains["item-sync"] > 0
    assert alone.get_column("detector").to_list()[0] == "recording"
    assert by_graph.get_column("detector").to_list()[-1] == "recording"
    assert by_graph.get_column("item").to_list() == list(range(1, by_graph.height + 1))
    same = ["detector", "op", "saving_ns", "count"]
    assert by_graph.select(same).sort(same).equals(alone.select(same).sort(same))
    assert alone.get_column("gain_per_step_ns").null_count() == alone.height


def test_an_empty_trace_has_no_gains() -> None:
    assert api.advise(Scene().linked(), 0.0, by_graph=True).items.is_empty()
