"""Which activities are meant, the grammar of changes, and what is refused."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracebraid
from tests.planted import Scene
from tests.planted.random_scenes import scenes
from tracebraid.api.graphing import dependency_graph
from tracebraid.errors import ArgumentError
from tracebraid.model.graph.change import Change, Verb, Where
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.changes.apply import changed
from tracebraid.simulation.changes.parse import change_of, checked
from tracebraid.simulation.changes.select import selected
from tracebraid.simulation.replay import replay


@pytest.fixture(scope="module")
def graph() -> DependencyGraph:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    for number in (1, 2):
        with host.step(number, 1_000):
            with host.op("aten::linear", 1_000), host.op("aten::addmm", 1_000):
                host.launch(stream, "sgemm<128, 64>", 20_000)
            with host.op("aten::add", 1_000):
                host.launch(stream, "vectorized<add>", 10_000)
            host.synchronize(stream)
    return dependency_graph(scene.linked())


def names(graph: DependencyGraph, **where: str) -> list[str]:
    found = selected(graph, Where(**where))
    return sorted(set(graph.activities.filter(pl.Series(found)).get_column("name").cast(pl.String)))


def test_selection(graph: DependencyGraph) -> None:
    assert names(graph, name="aten::add,aten::lin*") == ["aten::add", "aten::linear"]
    assert names(graph, name="sgemm<128, 64>") == ["sgemm<128, 64>"]
    assert names(graph, name="/^aten::a/") == ["aten::add", "aten::addmm"]
    assert names(graph, op="aten::add") == ["aten::add", "cudaLaunchKernel", "vectorized<add>"]
    assert names(graph, within="aten::linear") == [
        "aten::addmm",
        "aten::linear",
        "cudaLaunchKernel",
        "sgemm<128, 64>",
    ]
    assert names(graph, kind="kernel", family="gemm") == ["sgemm<128, 64>"]
    assert names(graph, stream="0-7", rank="0") == ["sgemm<128, 64>", "vectorized<add>"]
    assert names(graph, step="2", name="Profiler*") == ["ProfilerStep#2"]


@pytest.mark.parametrize(
    "where",
    [
        {"name": "aten::mul"},
        {"rank": "7"},
        {"rank": "first"},
        {"kind": "gemm"},
        {"family": "matmul"},
        {"name": "/(/"},
        {"step": "9"},
        {"group": "0"},
        {"module": "Linear_0"},
        {"kind": "kernel", "name": "aten::add"},
    ],
)
def test_nothing_selected_is_an_error(graph: DependencyGraph, where: dict[str, str]) -> None:
    with pytest.raises(ArgumentError):
        selected(graph, Where(**where))


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("scale 50% family=gemm", Change(Verb.SCALE, 0.5, Where(family="gemm"))),
        ("set 1.5ms name='a b'", Change(Verb.SET, 1.5e6, Where(name="a b"))),
        ("merge 25MB", Change(Verb.MERGE, 25e6)),
        ("move 0 name=a", Change(Verb.MOVE, 0.0, Where(name="a"))),
        ("merge 1MiB group=0", Change(Verb.MERGE, 2.0**20, Where(group="0"))),
        ("offload name=*DataLoader*", Change(Verb.OFFLOAD, 1.0, Where(name="*DataLoader*"))),
        ("fuse 4 factor=0.5 op=a", Change(Verb.FUSE, 4.0, Where(op="a"), 0.5)),
        (r"no-sync name=/#\d+$/", Change(Verb.NO_SYNC, None, Where(name=r"/#\d+$/"))),
    ],
)
def test_grammar(text: str, change: Change) -> None:
    assert change_of(text) == change
    assert change_of(change.text) == change


@pytest.mark.parametrize(
    "text",
    [
        "",
        "faster 2",
        "scale",
        "scale two",
        "scale -1",
        "scale 0.5 0.5",
        "scale 0.5 color=red",
        "scale 0.5 name=a name=b",
        "scale 0.5 factor=2 name=a",
        "set 10 name=a",
        "set 10MB name=a",
        "remove 2",
        "fuse 1.5",
        "move 1.5",
        "move 7us",
        "bandwidth 0",
        "split 0",
        "scale 0.5 name='a",
    ],
)
def test_what_is_not_of_the_grammar_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError):
        change_of(text)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_values_that_make_no_sense_are_refused(value: float) -> None:
    with pytest.raises(ArgumentError):
        checked(Change(Verb.SCALE, value))


@pytest.mark.parametrize(
    "text", ["bandwidth 2", "early", "as-median rank=0", "merge 1MB", "ranks 8", "move 7", "move 9 kind=op"]
)
def test_what_cannot_be_is_an_error(graph: DependencyGraph, text: str) -> None:
    with pytest.raises(ArgumentError):
        tracebraid.what_if(graph, text)


def test_no_change_and_no_events_are_errors(graph: DependencyGraph) -> None:
    with pytest.raises(ArgumentError):
        tracebraid.what_if(graph)
    with pytest.raises(ArgumentError):
        tracebraid.what_if(Scene().linked(), "scale 0.5")


def test_a_cycle_is_an_error() -> None:
    """The host waits for the first collective before it launches the second: they cannot be a bucket."""
    scene = Scene()
    host, stream, network = scene.thread(), scene.stream(7), scene.stream(20)
    with host.step(1, 1_000):
        host.launch(stream, "sgemm", 10_000)
        for _ in range(2):
            host.collective(network, 30_000)
            host.synchronize(network)
    with pytest.raises(ArgumentError):
        tracebraid.what_if(scene.linked(), "merge 25MB")


ANY = [
    "scale 0.3",
    "set 5us",
    "remove kind=op",
    "no-sync",
    "defer",
    "graph-launch",
    "offload kind=op",
    "move 9 kind=kernel",
    "fuse 3 factor=0.5",
]


@settings(max_examples=15, deadline=None)
@given(scene=scenes(), text=st.sampled_from(ANY))
def test_every_change_gives_a_graph(scene: Scene, text: str) -> None:
    """Edges go forward, work and residuals are not negative; what only gets faster ends no later."""
    graph = dependency_graph(scene.linked())
    try:
        after, _ = changed(graph, change_of(text))
    except ArgumentError:
        return
    edges = after.edges
    assert (edges.before < after.after).all()
    assert edges.work_ns.min(initial=0) >= 0
    assert after.moments.residual_ns.min(initial=0) >= 0
    assert np.array_equal(after.moments.activity[after.moment_of[:, 0]], np.arange(after.activities.height))
    assert after.moments.point[after.moment_of[:, 1]].all()
    if not text.startswith(("set", "move")):
        ends = [
            replay(g.edges.first, g.edges.before, g.edges.work_ns, g.moments.residual_ns).max(initial=0)
            for g in (graph, after)
        ]
        assert ends[1] <= ends[0]
