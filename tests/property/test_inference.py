"""Iterations of inference in random scenes: sums and unions."""

from __future__ import annotations

import itertools

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planted import Scene
from tracebraid.analysis.inference.batch_sizes import batch_sizes
from tracebraid.analysis.inference.graph_replays import graph_replays
from tracebraid.analysis.inference.inference_phases import inference_phases
from tracebraid.analysis.inference.token_times import token_times

steady = settings(deadline=None, derandomize=True, max_examples=25)

NAMES = ["step[DECODE bs=2]", "step[DECODE bs=1]", "step[EXTEND bs=1 toks=9]", "step[MIXED bs=3]", "other"]


@st.composite
def servers(draw: st.DrawFn) -> Scene:
    """Iterations one after another, with launches and replays whose work may outlast them.

    The graph of an iteration may hold no kernel: `validity` doubts a launch without work.
    """
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    parts = st.tuples(
        st.sampled_from(NAMES), st.integers(0, 9_000), st.lists(st.integers(1, 30_000), max_size=4)
    )
    for number, (name, ns, kernels) in enumerate(draw(st.lists(parts, max_size=12))):
        with host.step(number, 1), host.annotation(name, ns):
            for kernel_ns in kernels[1:]:
                host.launch(stream, "k", kernel_ns)
            host.replay(stream, [("g", kernel_ns) for kernel_ns in kernels[:2]])
            if ns % 2:
                host.synchronize(stream)
        host.spend(ns)
    return scene


@steady
@given(servers())
def test_iterations_are_those_planted(scene: Scene) -> None:
    planted = [event for name in NAMES[:-1] for event in scene.of(name)]
    found = inference_phases(scene.linked())
    assert sorted(found.get_column("event_id").to_list()) == sorted(event.event_id for event in planted)
    for row in found.to_dicts():
        work = [e for e in scene.of_category("kernel") if scene.events[row["event_id"]] in e.ancestors()]
        assert (row["kernels"], row["device_ns"]) == (len(work), sum(e.dur for e in work))
        assert row["graph_ns"] == sum(e.dur for e in work if e.name == "g")
        ends = [row["start_ns"] + row["host_ns"], *(e.end for e in work)]
        assert row["start_ns"] + row["span_ns"] == max(ends)


@steady
@given(servers())
def test_answers_add_up_to_the_iterations(scene: Scene) -> None:
    linked = scene.linked()
    phases, times, sizes = (answer(linked) for answer in (inference_phases, token_times, batch_sizes))
    for column in ("iterations", "device_ns", "requests"):
        by_phase = phases.group_by("phase").agg(
            pl.len().alias("iterations"), pl.col("device_ns", "requests").sum()
        )
        expected = dict(by_phase.select("phase", column).iter_rows())
        assert dict(times.select("phase", column).iter_rows()) == expected
    assert sizes.get_column("iterations").sum() == phases.height
    by_step = token_times(linked, per_step=True)
    assert by_step.get_column("device_ns").sum() == times.get_column("device_ns").sum()


@steady
@given(servers())
def test_covered_time_is_the_union_of_the_spans(scene: Scene) -> None:
    linked = scene.linked()
    phases = inference_phases(linked)
    for row in token_times(linked).to_dicts():
        spans = phases.filter(phase=row["phase"]).select("start_ns", "span_ns").rows()
        moments = sorted({moment for start, span in spans for moment in (start, start + span)})
        covered = sum(
            later - earlier
            for earlier, later in itertools.pairwise(moments)
            if any(start <= earlier and later <= start + span for start, span in spans)
        )
        assert row["covered_ns"] == covered


@steady
@given(servers())
def test_replays_are_those_planted(scene: Scene) -> None:
    found = graph_replays(scene.linked())
    assert found.get_column("replays").sum() == len(scene.of("cudaGraphLaunch"))
    assert found.get_column("kernels").sum() == len(scene.of("g"))
    assert found.get_column("device_ns").sum() == sum(event.dur for event in scene.of("g"))
    shares = found.get_column("share").drop_nulls()
    assert all(0 <= share <= 1 for share in shares)
