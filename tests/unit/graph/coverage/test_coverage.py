"""The parts of time add up to the time of threads and streams."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.planted import PlannedJob
from tests.planted.graphs import graph_of
from tracebraid.model.graph.dependency_graph import DependencyGraph


def spans(graph: DependencyGraph) -> dict[tuple[int, str], int]:
    """From the first moment of each thread or stream to its last, by rank and track."""
    times, moment_of = graph.moments.time_ns, graph.moment_of
    by_lane = (
        graph.activities.select("rank", "lane", "stream")
        .with_columns(
            pl.Series("start", times[moment_of[:, 0]], dtype=pl.Int64),
            pl.Series("end", times[moment_of[:, 1]], dtype=pl.Int64),
            track=pl.when(pl.col("stream").is_null()).then(pl.lit("host")).otherwise(pl.lit("device")),
        )
        .drop_nulls("lane")
        .group_by("rank", "lane", "track")
        .agg((pl.col("end").max() - pl.col("start").min()).alias("ns"))
    )
    summed = by_lane.group_by("rank", "track").agg(pl.col("ns").sum())
    return {(rank, track): ns for rank, track, ns in summed.iter_rows() if ns}


def check(graph: DependencyGraph) -> pl.DataFrame:
    found = tracebraid.graph_coverage(graph).with_columns(pl.col("track", "part", "kind").cast(pl.String))
    assert found.is_empty() or found.get_column("ns").min() > 0  # type: ignore[operator]
    every = found.filter(pl.col("step").is_null()).group_by("rank", "track").agg(pl.col("ns").sum())
    assert {(rank, track): ns for rank, track, ns in every.iter_rows()} == spans(graph)
    shares = found.group_by("step", "rank", "track").agg(pl.col("share").sum())
    assert shares.get_column("share").to_list() == pytest.approx([1.0] * shares.height)
    return found


def test_parts_add_up_and_name_what_was_planted() -> None:
    job = PlannedJob(2)
    for number in (1, 2):
        with job.step(number):
            job.compute(100_000)
            job.compute(400_000, [1])
            job.collective(transfer=60_000)
    graph = graph_of(job)
    found = check(graph)
    rows = {
        tuple(row)
        for row in found.filter(pl.col("step").is_not_null() & (pl.col("track") == "device"))
        .select("step", "rank", "part", "kind", "ns")
        .iter_rows()
    }
    for step in ("ProfilerStep#1", "ProfilerStep#2"):
        assert {(step, 0, "work", "transfer", 60_000), (step, 1, "work", "transfer", 60_000)} <= rows
        assert {(step, 0, "work", "kernel", 100_000), (step, 1, "work", "kernel", 500_000)} <= rows
        waited = [
            ns
            for name, rank, part, kind, ns in rows
            if (name, rank, part, kind) == (step, 0, "waiting", "transfer")
        ]
        assert waited == pytest.approx([400_000], abs=20_000)


def test_the_main_threads_part_of_a_step_is_the_step(demo: Path) -> None:
    graph = tracebraid.dependency_graph(tracebraid.open(demo), steps=4)
    found = tracebraid.graph_coverage(graph)
    assert found.filter(pl.col("step") == "ProfilerStep#4").height == found.height / 2
    steps = graph.steps.filter(pl.col("rank") == 0)
    span = (
        graph.moments.time_ns[steps.item(0, "host_end_moment")]
        - graph.moments.time_ns[steps.item(0, "start_moment")]
    )
    assert found.filter(pl.col("rank") == 0).get_column("ns").sum() >= 2 * span


def test_the_demo_adds_up(demo: Path) -> None:
    check(tracebraid.dependency_graph(tracebraid.open(demo)))
