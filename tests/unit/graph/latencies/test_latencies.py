"""Latencies: learned where nothing else is waited for, given as work, never more than the time that there is."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planted import LATENCY_NS, RETURN_NS, Scene
from tests.planted.calls import CALL_NS
from tracebraid.api.graphing import dependency_graph
from tracebraid.graph.latencies.samples import waited_for_alone
from tracebraid.graph.latencies.usual import MIN_SAMPLES, usual_latencies
from tracebraid.model.graph.codes import EdgeKind, LatencySource, Residual
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.graph.rank_graph import EdgeList
from tracebraid.model.schema.graph import LATENCIES

_GAP_NS = 1_200


def launches(late: int = 0, times: int = 8) -> DependencyGraph:
    """Launches on an idle stream, of which the last is late, each waited for."""
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    for number in range(times):
        host.launch(stream, "gemm", 20_000, latency=LATENCY_NS + (late if number == times - 1 else 0))
        host.synchronize(stream)
        host.spend(2_000)
    return dependency_graph(scene.linked())


def row(graph: DependencyGraph, kind: str) -> dict[str, object]:
    """The row of latencies of that kind with the most edges."""
    rows = graph.latencies.filter(pl.col("kind").cast(pl.String) == kind).sort("edges")
    return rows.to_dicts()[-1]


def residual_ns(graph: DependencyGraph, residual: Residual) -> int:
    moments = graph.moments
    return int(moments.residual_ns[moments.residual == residual].sum())


def test_latencies_of_launch_and_sync_are_what_was_planted() -> None:
    graph = launches()
    launch, sync = row(graph, "launch"), row(graph, "sync")
    assert graph.latencies.schema == pl.Schema(LATENCIES.polars_schema())
    assert (launch["typical_ns"], launch["samples"]) == (CALL_NS + LATENCY_NS, 8)
    assert launch["key"] == "cudaLaunchKernel > kernel"
    assert (sync["typical_ns"], sync["key"], sync["source"]) == (RETURN_NS, "cudaStreamSynchronize", "group")
    assert graph.moments.residual_ns.sum() == 0


def test_what_exceeds_the_usual_is_residual_and_has_a_name() -> None:
    graph = launches(late=7_000)
    assert row(graph, "launch")["typical_ns"] == CALL_NS + LATENCY_NS
    assert residual_ns(graph, Residual.LAUNCH) == graph.moments.residual_ns.sum() == 7_000


def test_a_launch_that_is_much_too_late_is_no_latency() -> None:
    assert residual_ns(launches(late=5_000_000), Residual.UNEXPLAINED) == 5_000_000


def test_a_gap_is_learned_where_work_was_queued() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    for _ in range(9):
        host.launch(stream, "gemm", 50_000)
        stream.free += _GAP_NS
    graph = dependency_graph(scene.linked())
    gap = row(graph, "stream_order")
    assert (gap["typical_ns"], gap["samples"], gap["key"]) == (_GAP_NS, 8, "kernel > kernel")
    assert graph.moments.residual_ns.sum() == 0


def test_a_rank_of_its_own_row() -> None:
    assert launches().latencies.get_column("rank").unique().to_list() == [0]


def test_the_first_work_of_a_stream_that_starts_long_after_its_launch_waited_for_what_is_not_there() -> None:
    scene = Scene()
    host = scene.thread()
    for number in range(6):
        host.launch(scene.stream(7), "gemm", 1_000)
        host.spend(10_000 + number)
    host.launch(scene.stream(8), "late", 1_000, latency=LATENCY_NS + 50_000_000)
    graph = dependency_graph(scene.linked())
    assert residual_ns(graph, Residual.BEFORE) == graph.moments.residual_ns.sum() == 50_000_000


@pytest.mark.parametrize("inside", [True, False])
def test_what_a_long_call_did_before_it_launched_is_work_of_the_launch_and_named_by_the_call(
    inside: bool,
) -> None:
    """The kernel starts 3 us before its call ends, or as long after it as usual."""
    scene, loading_ns = Scene(), 3_000_000
    host, stream = scene.thread(), scene.stream(7)
    for number in range(8):
        work = host.launch(stream, "gemm", 20_000)
        if number == 7:
            assert work.call is not None
            work.call.dur += loading_ns
            work.ts += loading_ns - (LATENCY_NS + 3_000 if inside else 0)
            stream.free = max(work.end, work.call.end)
            host.until(work.call.end)
        host.synchronize(stream)
    graph = dependency_graph(scene.linked())
    assert graph.moments.residual_ns.sum() == 0
    launched = graph.edges.kind == EdgeKind.LAUNCH
    owner = graph.activities[pl.Series(graph.edges.activity[launched])].get_column("name").cast(pl.String)
    latest = int(np.argmax(graph.edges.work_ns[launched]))
    extra = -3_000 if inside else LATENCY_NS
    assert graph.edges.work_ns[launched][latest] == loading_ns + CALL_NS + extra
    assert (owner[latest], owner[0]) == ("cudaLaunchKernel", "gemm")
    assert row(graph, "launch")["typical_ns"] == CALL_NS + LATENCY_NS


def _rows(slacks: list[int], samples: int, key: str = "a") -> pl.DataFrame:
    return pl.DataFrame(
        {
            "code": np.full(len(slacks), int(EdgeKind.LAUNCH), dtype=np.uint8),
            "key": [key] * len(slacks),
            "slack_ns": slacks,
            "is_sample": [number < samples for number in range(len(slacks))],
        }
    )


def test_few_samples_fall_back_to_the_kind_then_to_the_lowest_and_then_to_none() -> None:
    few, many = _rows([90, 80], 2, "few"), _rows([10, 20, 30, 20, 20], 5, "many")
    both = usual_latencies(pl.concat([few, many]))
    assert both.get_column("source").to_list() == [LatencySource.KIND.value, LatencySource.GROUP.value]
    assert both.get_column("typical_ns").to_list() == [20.0, 20.0]
    for samples, lowest, source in ((2, 80.0, LatencySource.LOWEST), (0, 0.0, LatencySource.NONE)):
        alone = usual_latencies(_rows([90, 80, 70], samples))
        assert alone.select("typical_ns", "source").row(0) == (lowest, source.value)


def test_waits_that_are_not_recorded_do_not_pass_as_latency() -> None:
    found = usual_latencies(_rows([10, 11, 12, 13, 9_000, 9_000, 9_000, 9_000, 9_000], 9))
    assert found.get_column("typical_ns").item() < 4 * 13
    assert found.get_column("high_ns").item() == 9_000


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=30), st.data())
def test_an_edge_shows_a_latency_alone_if_no_other_was_ready_later(
    pairs: list[tuple[int, int]], data: st.DataObject
) -> None:
    after = np.array([pair[0] + 10 for pair in pairs])
    before = np.array([pair[1] for pair in pairs])
    times = np.sort(np.array(data.draw(st.lists(st.integers(0, 50), min_size=16, max_size=16))))
    most = np.array(data.draw(st.lists(st.integers(0, 9), min_size=len(pairs), max_size=len(pairs))))
    edges = EdgeList.of(before, after, int(EdgeKind.LAUNCH), after)
    alone = waited_for_alone(edges, times, most)
    for edge in range(len(pairs)):
        others = [
            times[before[i]] + most[i] for i in range(len(pairs)) if i != edge and after[i] == after[edge]
        ]
        assert alone[edge] == all(times[before[edge]] >= ready for ready in others)


@pytest.mark.parametrize("samples", [MIN_SAMPLES - 1, MIN_SAMPLES])
def test_a_median_needs_samples(samples: int) -> None:
    source = usual_latencies(_rows([5, 6, 7, 8, 9, 10], samples)).get_column("source").item()
    assert (source == LatencySource.GROUP.value) == (samples >= MIN_SAMPLES)
