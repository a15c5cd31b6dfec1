"""Calls upon the dependency graph."""

from __future__ import annotations

import random
import re
from math import isfinite
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import polars as pl

import tracebraid
from tools.fuzz.calls.commands import finite, not_below_0, odd_text, require, run_command
from tools.fuzz.model import Call, FailureError, FailureKind
from tracebraid.errors import ArgumentError
from tracebraid.model.answers.graph import SweepBy
from tracebraid.model.graph import DependencyGraph, Where
from tracebraid.simulation.changes.verbs import Value, verbs
from tracebraid.simulation.replay import replay

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_REST = re.compile(r"[\w\s\[\]{}=,;>.\-]*")
_SPACE = "{http://graphml.graphdrawing.org/xmlns}"


def dot_graph(text: str) -> None:
    """Fail where a text is no graph in DOT: a quote that does not end, or anything outside of one."""
    require(text.startswith(("digraph", "strict digraph", "graph")), f"no DOT: {text[:60]!r}")
    rest = _QUOTED.sub("q", text)
    odd = _REST.match(rest)
    require(odd is not None and odd.end() == len(rest), f"no DOT: {rest[odd.end() if odd else 0 :][:80]!r}")
    require(
        rest.count("{") == rest.count("}") and rest.count("[") == rest.count("]"), "brackets are not closed"
    )


def xml_graph(content: bytes) -> None:
    """Fail where a text is no GraphML: no XML, a node twice, or an edge of a node that is not there."""
    try:
        root = ET.fromstring(content)
    except ET.ParseError as error:
        raise FailureError(FailureKind.INVALID_OUTPUT, f"no XML: {error}") from error
    names = [node.get("id") for node in root.iter(f"{_SPACE}node")]
    require(len(set(names)) == len(names), "a node of GraphML is there twice")
    ends = {edge.get(end) for edge in root.iter(f"{_SPACE}edge") for end in ("source", "target")}
    require(ends <= set(names), "an edge of GraphML is of no node")


_VALUES = {
    Value.FACTOR: ("0", "0.5", "1", "2", "50%", "1e3", "3x", "100000000000000000000", "0.000000000001"),
    Value.TIME: ("0us", "10us", "1ns", "1.5ms", "3s", "9223372036854775807ns", "100000000000000s"),
    Value.SIZE: ("1B", "25MB", "1kB", "100GB", "100000000000000000000GB"),
    Value.COUNT: ("1", "2", "3", "4", "64", "1000", "1000000", "100000000000000000000"),
    Value.STREAM: ("0", "7", "20", "99", "9223372036854775807", "9223372036854775808"),
    Value.SIZES: (
        "1->2",
        "2->1",
        "8->64",
        "64->96",
        "512->1024",
        "0->1",
        "3->3",
        "1->100000000000000000000",
        "4-8",
        "->2",
    ),
}
_WHERE = {
    "rank": ("0", "1", "0-1", "5", "0-99999999999"),
    "step": ("1", "2", "1-2", "ProfilerStep#1", "ProfilerStep*"),
    "kind": ("op", "kernel", "call", "communication", "collective", "thread", "copy", "python", "annotation"),
    "name": ("*", "aten::*", "cuda*", "/.*/", "/(/", "nccl*", "sgemm*"),
    "op": ("*", "aten::mm", "aten::*", "c10d::*"),
    "within": ("*", "aten::*", "ProfilerStep*"),
    "module": ("*", "Model_0", "Linear*"),
    "shapes": ("[[64, 1024], [1024, 1024]]", "[]", "*"),
    "family": ("gemm", "communication", "elementwise", "copy", "other"),
    "stream": ("7", "0-100", "20"),
    "group": ("0", "*", "pair", "default_pg"),
    "collective": ("all_reduce", "send", "*", "no such"),
    "bytes": ("4kB", "1MB-25MB", "1MiB-", "-64kB", "-"),
}
_ODD = 0.08
"""Share of values and keys that are anything at all."""


def odd_change(rng: random.Random) -> str:
    """A change: most are such as people ask for, at limits; some are not."""
    verb = rng.choice(list(verbs().values()))
    values = () if verb.value is None else _VALUES[verb.value]
    none = () if values and verb.default is None else ("",)
    words = [verb.name, rng.choice((*values, *none))]
    keys = rng.sample(Where.__struct_fields__, rng.choice((0, 0, 1, 1, 2)))
    words += [f'{key}="{rng.choice(_WHERE[key])}"' for key in keys]
    if verb.factor and rng.random() < 0.3:
        words.append(f"factor={rng.choice(('0', '0.5', '1', '2', '100000000000000000000'))}")
    if rng.random() < _ODD:
        words[rng.randrange(len(words))] = odd_text(rng)
    return " ".join(word for word in words if word)


_EXACT_NS = 2**53
"""104 days: in longer traces gains of many replays, which are floats, are off by a few hundred ns."""

_ANSWERS = 2
"""Answers requested of a graph: most of the time is that of the graph."""


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
    """Replay unchanged durations: they take as long as they did."""
    found = tracebraid.what_if(graph, "scale 1")
    gains = found.steps.get_column("gain_ns").to_list()
    require(not any(gains), f"scale 1 gains {gains}")


def _sweep(graph: DependencyGraph, rng: random.Random) -> None:
    by = rng.sample([kind.value for kind in SweepBy], rng.randint(0, 3))
    found = finite("sweep", tracebraid.sweep(graph, by=by, groups=rng.choice((1, 3, 1000))))
    gains = ("gain_10_ns", "gain_50_ns", "gain_100_ns")
    not_below_0("sweep", found, "total_ns", "on_path_ns", "on_path")
    times = graph.moments.time_ns
    if times.max(initial=0) - times.min(initial=times.max(initial=0)) > _EXACT_NS:
        return
    not_below_0("sweep", found, *gains)
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
    graph = tracebraid.dependency_graph(tracebraid.open(folder).with_annotation(name))
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
"""Questions about the dependency graph of the job in a folder."""
