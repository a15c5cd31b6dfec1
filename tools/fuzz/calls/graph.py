"""Calls upon the dependency graph of a job: coverage, critical path, what-if, sweep, stragglers."""

from __future__ import annotations

import random
from math import isfinite
from pathlib import Path

import numpy as np
import polars as pl

import tracebraid
from tools.fuzz.calls.changes import odd_change
from tools.fuzz.calls.commands import run_command
from tools.fuzz.calls.tables import finite, not_below_0, require
from tools.fuzz.calls.values import odd_text
from tools.fuzz.model import Call
from tracebraid.errors import ArgumentError
from tracebraid.model.answers.graph.sweep import SweepBy
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.replay import replay

__all__ = ["GRAPH_CALLS"]

_ANSWERS = 2
"""How many answers of a graph are asked for: most of the time is that of the graph."""


def _graph(folder: Path, rng: random.Random) -> None:
    """The graph holds what every graph does, and so do some of its answers."""
    graph = tracebraid.dependency_graph(tracebraid.open(folder))
    _check_graph(graph)
    for answer in rng.sample((_path, _what_if, _same, _sweep, _stragglers), _ANSWERS):
        answer(graph, rng)


def _check_graph(graph: DependencyGraph) -> None:
    """No cycle, nothing negative, the measured times by replay, and rows of coverage that add up."""
    moments, edges = graph.moments, graph.edges
    require(len(moments) == 2 * graph.activities.height, "moments are not two for each activity")
    require(bool((edges.before < graph.after).all()), "an edge comes from a later moment")
    require(edges.work_ns.min(initial=0) >= 0, "work is below 0")
    require(moments.residual_ns.min(initial=0) >= 0, "a residual is below 0")
    require(int(edges.first[-1]) == len(edges), "edges are not all of a moment")
    replayed = replay(edges.first, edges.before, edges.work_ns, moments.residual_ns)
    earliest = moments.time_ns.min(initial=np.iinfo(np.int64).max)
    require(bool((replayed == moments.time_ns - earliest).all()), "a replay gives other times")
    covered = finite("coverage", tracebraid.graph_coverage(graph))
    not_below_0("coverage", covered, "ns", "share")
    total = covered.group_by("step", "rank", "track").agg(pl.col("ns").sum(), pl.col("share").sum())
    apart = total.filter((pl.col("ns") > 0) & ((pl.col("share") - 1).abs() > 1e-6))
    require(apart.is_empty(), f"shares of coverage do not add up: {apart.rows()[:3]}")


def _path(graph: DependencyGraph, rng: random.Random) -> None:
    path = tracebraid.critical_path(graph, replays=rng.choice((0, 1, 5)))
    for name in ("steps", "segments", "totals", "hops", "slack", "stability"):
        finite(f"critical path {name}", getattr(path, name))
    not_below_0("path steps", path.steps, "span_ns", "path_ns", "residual_ns", "waiting_ns")
    not_below_0("path segments", path.segments, "duration_ns", "work_ns", "residual_ns")
    not_below_0("slack", path.slack, "duration_ns", "work_ns", "slack_ns")
    parts = path.steps.select(pl.col("path_ns") + pl.col("residual_ns") - pl.col("span_ns")).to_series()
    require(bool((parts == 0).all()), "path and residual are not the span")
    segments = path.segments.sort("order").group_by("step", maintain_order=True)
    lengths = dict(path.steps.select("step", "span_ns").iter_rows())
    for (step,), own in segments:
        length = own.get_column("duration_ns").sum()
        require(length == lengths[step], f"segments of step {step} are {length} of {lengths[step]} ns")
        ends = (own.get_column("start_ns") + own.get_column("duration_ns"))[:-1]
        require(bool((ends == own.get_column("start_ns")[1:]).all()), f"segments of step {step} have gaps")


def _what_if(graph: DependencyGraph, rng: random.Random) -> None:
    """Changes of every kind; the odd ones are refused."""
    for _ in range(3):
        changes = [odd_change(rng) for _ in range(rng.choice((1, 1, 2)))]
        try:
            found = tracebraid.what_if(graph, *changes)
        except ArgumentError:
            continue
        for name in ("steps", "changes", "paths", "interference"):
            finite(f"what-if {changes} {name}", getattr(found, name))
        not_below_0(f"what-if {changes} steps", found.steps, "before_ns", "after_ns")
        gains = (found.gain, found.gain_low_ns, found.gain_high_ns)
        require(all(map(isfinite, gains)), f"a gain of {changes} is not finite")
        require(bool(found.gain_low_ns <= found.gain_high_ns), f"the low gain of {changes} is the higher")


def _same(graph: DependencyGraph, _: random.Random) -> None:
    """What is as long as it was takes as long as it did."""
    found = tracebraid.what_if(graph, "scale 1")
    gains = found.steps.get_column("gain_ns").to_list()
    require(not any(gains), f"scale 1 gains {gains}")


def _sweep(graph: DependencyGraph, rng: random.Random) -> None:
    by = rng.sample([kind.value for kind in SweepBy], rng.randint(0, 3))
    found = finite("sweep", tracebraid.sweep(graph, by=by, groups=rng.choice((1, 3, 1000))))
    gains = ("gain_10_ns", "gain_50_ns", "gain_100_ns")
    not_below_0("sweep", found, "total_ns", "on_path_ns", "on_path", *gains)
    falling = found.filter(
        (pl.col("gain_10_ns") > pl.col("gain_50_ns") + 1) | (pl.col("gain_50_ns") > pl.col("gain_100_ns") + 1)
    )
    require(falling.is_empty(), f"more is gained by less: {falling.rows()[:2]}")


def _stragglers(graph: DependencyGraph, _: random.Random) -> None:
    found = finite("stragglers", tracebraid.straggler_metrics(graph))
    not_below_0("stragglers", found, "step_ns", "ideal_ns")


def _steps(folder: Path, rng: random.Random) -> None:
    """The graph of some steps, and its critical path."""
    steps = rng.choice((1, 2, range(1, 3), "ProfilerStep#2", "1", [2, 1], (), [""], [1, 1], -1, 10**30))
    graph = tracebraid.dependency_graph(tracebraid.open(folder), steps=steps)
    _check_graph(graph)
    _path(graph, rng)


def _annotation(folder: Path, rng: random.Random) -> None:
    """Steps that anything else marks."""
    name = rng.choice(("aten::mm", "train.py(10): step", "Optimizer.step#SGD.step", odd_text(rng)))
    graph = tracebraid.dependency_graph(tracebraid.open(folder), annotation=name)
    _check_graph(graph)
    _path(graph, rng)
    _sweep(graph, rng)


def _path_command(folder: Path, rng: random.Random) -> None:
    options = rng.choice(
        (
            *(["--json"], ["--csv"], [], ["--top", "1"], ["--step", "1"], ["--step", "2", "--json"]),
            *(["--rank", "0"], ["--rank", "1", "--json"], ["-o", folder / "out" / "path.json"]),
        )
    )
    (folder / "out").mkdir(exist_ok=True)
    run_command("critical-path", folder, "--replays", rng.choice("013"), *options)


def _what_if_command(folder: Path, rng: random.Random) -> None:
    asked = rng.choice((["--sweep"], ["--stragglers"], ["--change", odd_change(rng)]))
    run_command("what-if", folder, *asked, *rng.choice(([], ["--json"], ["--csv"], ["--top", "1"])))


GRAPH_CALLS = (
    Call("graph", _graph),
    Call("graph of steps", _steps),
    Call("graph by annotation", _annotation),
    Call("critical-path", _path_command),
    Call("what-if", _what_if_command),
)
"""What is asked of the dependency graph of the job in a folder."""
