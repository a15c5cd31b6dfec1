"""Real programs on a GPU, captured with a fault whose cost was measured without a profiler."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.captures import CAPTURES
from tracebraid.api.graphing import graph_beside
from tracebraid.model.engine import Job
from tracebraid.model.graph import DependencyGraph
from tracebraid.reports.verdict import verdict
from tracebraid.simulation.unrecorded import UnrecordedJob, without_recording

FOLDER = CAPTURES / "gpu"


@dataclass(frozen=True)
class Program:
    """What is known of a program.

    Args:
        step_ms: its step with the fault, without a profiler.
        fault_ms: what the fault costs of it.
        within: by what share the captured process may differ from those that were timed.
        says: what the verdict names.
        first: the first item; "": none of 5 % or more.
        place: what it names.
        is_inside: whether its interval reaches what the fault costs.
    """

    step_ms: float
    fault_ms: float
    within: float
    says: str
    first: str = ""
    place: str = ""
    is_inside: bool = True


PROGRAMS = {
    # The host runs ahead: as long as the device is behind, its steps say nothing.
    "products_in_float32": Program(30.32, 25.1, 0.01, "compute", "full-precision-products", "train_step"),
    # Recorded, the host is slower than the device; without a profiler it is not.
    "attends_to_grown_cache": Program(1.98, 1.02, 0.05, "mostly copy (62"),
    "dense_embedding_gradient": Program(0.88, 0.34, 0.5, "host code", "dense-gradient", "train_step"),
    # Each product takes what the one before made: none can be batched.
    "small_layers_eager": Program(2.54, 2.09, 0.1, "host code", "launch-bound", "infer"),
    "noise_from_host": Program(36.7, 34.6, 0.3, "host code", "host-op", "noisy", is_inside=False),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_bounds_the_program_without_a_profiler_is_what_is_said(name: str) -> None:
    program, advice = PROGRAMS[name], tracebraid.advise(tracebraid.open(FOLDER / name))
    assert advice.own_step_ns / 1e6 == pytest.approx(program.step_ms, rel=program.within)
    assert program.says in " ".join(verdict(advice))
    large = advice.items.filter(pl.col("share") >= 0.05)
    if not program.first:
        assert large.is_empty()
        return
    first = large.row(0, named=True)
    assert first["detector"] == program.first
    assert program.place in first["call_site"]
    low, high = (first[f"saving_{end}_per_step_ns"] / 1e6 for end in ("low", "high"))
    assert low <= program.fault_ms
    assert (high >= program.fault_ms) is program.is_inside


def graph_of(name: str) -> DependencyGraph:
    graph = graph_beside(Job.of(tracebraid.open(FOLDER / name)), {})
    assert graph is not None
    return graph


def unrecorded(name: str) -> UnrecordedJob:
    found = without_recording(graph_of(name))
    assert found is not None
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_the_recording_a_device_works_as_long_and_a_host_no_longer(name: str) -> None:
    found = unrecorded(name)
    long = (pl.col("end_ns") - pl.col("start_ns")).alias("ns")
    was, then = (graph.activities.select(long, "stream", "kind") for graph in (found.recorded, found.graph))
    on_device = was.get_column("stream").is_not_null()
    assert on_device.any()
    assert was.filter(on_device).equals(then.filter(on_device))
    of_ops = (frame.filter(pl.col("kind").cast(pl.String) == "op").get_column("ns") for frame in (was, then))
    recorded, found_ns = of_ops
    assert found_ns.sum() <= recorded.sum()
    assert (then.get_column("ns") >= 0).all()


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_moved_comes_back(name: str) -> None:
    """But where the device no longer pauses, so that one moment stands for two."""
    found = unrecorded(name)
    events = found.recorded.activities.filter(
        pl.col("event_id").is_not_null() & pl.col("stream").is_not_null()
    )
    rows = found.recorded.ranks.unaligned(
        events.select("rank", "event_id", "start_ns", "end_ns"), "start_ns", "end_ns"
    )
    moved = found.moved(rows)
    assert (moved.get_column("end_ns") - moved.get_column("start_ns")).equals(
        rows.get_column("end_ns") - rows.get_column("start_ns")
    )
    alone = ~moved.get_column("start_ns").is_in(moved.get_column("end_ns").implode())
    alone &= ~moved.get_column("end_ns").is_in(moved.get_column("start_ns").implode())
    assert alone.any()
    assert found.recorded_at(moved).filter(alone).equals(rows.filter(alone))


def test_a_saving_of_minutes_shrinks_with_its_time() -> None:
    found = unrecorded("small_layers_eager")
    ops = found.recorded.activities.filter(
        pl.col("kind").cast(pl.String) == "op", pl.col("event_id").is_not_null()
    )
    start_ns, long_ns = int(found.recorded.moments.time_ns.min()), 100 * 10**9
    row = (
        ops.select("rank", "event_id")
        .head(1)
        .with_columns(
            pl.lit(start_ns).alias("start_ns"),
            pl.lit(start_ns + long_ns).alias("end_ns"),
            pl.lit(long_ns).alias("saving_ns"),
            pl.lit("host-work").alias("detector"),
            pl.lit(value=False).alias("on_device"),
        )
    )
    then = found.occurrences(row, [])
    (left_ns,) = then.get_column("saving_ns")
    assert left_ns == then.select(pl.col("end_ns") - pl.col("start_ns")).item()
    assert long_ns - 10**8 < left_ns < long_ns


def test_steps_that_nobody_measured_are_as_they_were_recorded(demo: Path) -> None:
    graph = graph_beside(Job.of(tracebraid.open(demo)), {})
    assert graph is not None
    assert without_recording(graph) is None
