"""Changes of what-if: how they are written, what they select, and what they predict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import tracebraid
from tests.planted import CALL_NS, PlannedJob, Scene, Stream, Thread, device_scene
from tests.planted.graphs import graph_of
from tests.planted.random_scenes import scenes
from tracebraid import dependency_graph
from tracebraid.errors import ArgumentError
from tracebraid.model.graph import Change, DependencyGraph, WhatIfNote, Where
from tracebraid.simulation.changes.apply import changed
from tracebraid.simulation.changes.move import selected
from tracebraid.simulation.changes.verbs import change_of, checked, text_of
from tracebraid.simulation.replay import replay


@pytest.fixture(scope="module")
def graph() -> DependencyGraph:
    scene, host, stream = device_scene()
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "expected"),
    [("3", [[0, 1]]), ("mesh_tp", [[0, 1], [2, 3]]), ("3 (mesh_tp) ranks 0,1", [[0, 1]]), ("mesh_*", None)],
)
def test_groups_are_selected_by_name_or_description(group: str, expected: list[list[int]] | None) -> None:
    job = PlannedJob(4)
    made = {"3": [0, 1], "4": [2, 3], "5": [0, 2], "6": [1, 3]}
    for name, ranks in made.items():
        job.group(name, ranks)
        job.collective("allreduce", name)
    found = graph_of(job)
    texts = {
        f"{name} (mesh_{'tp' if int(name) < 5 else 'dp'}) ranks {r[0]},{r[1]}": r for name, r in made.items()
    }
    of_name = {text.split(" ")[0]: text for text in texts}
    own = found.activities.get_column("group").cast(pl.String)
    named = own.map_elements(lambda text: of_name[text.split(" ")[0]], return_dtype=pl.String)
    renamed = replace(found, activities=found.activities.with_columns(named.alias("group")))
    chosen = renamed.activities.filter(pl.Series(selected(renamed, Where(group=group))))
    members = {tuple(texts[text]) for text in chosen.get_column("group").drop_nulls()}
    assert sorted(map(list, members)) == (sorted(made.values()) if expected is None else expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "communication", "other_work"),
    [
        ({"collective": "all_reduce"}, 18, 0),
        ({"collective": "all_*", "rank": "0", "step": "3"}, 3, 0),
        ({"bytes": "33536"}, 6, 3),
        ({"bytes": "33.9kB-"}, 12, 6),
        ({"bytes": "-33.6kB,34176", "rank": "0-1"}, 12, 0),
        ({"kind": "communication", "within": "## backward ##"}, 18, 0),
        ({"within": "c10d::allreduce_"}, 18, 18),
        ({"collective": "all_reduce", "within": "## backward ##", "bytes": "-33.6kB", "rank": "1"}, 3, 0),
        ({"within": "## optimizer ##"}, 0, 1152),
    ],
)
def test_communication_of_the_backend_s_threads_is_selected(
    job: DependencyGraph, where: dict[str, str], communication: int, other_work: int
) -> None:
    kinds = job.activities.filter(pl.Series(selected(job, Where(**where)))).get_column("kind").cast(pl.String)
    assert (kinds == "communication").sum() == communication
    assert (kinds != "communication").sum() == other_work


@pytest.fixture(scope="module")
def job() -> DependencyGraph:
    return dependency_graph(tracebraid.open(tracebraid.demo_path()))


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
        {"collective": "all_reduce"},
        {"bytes": "1kB"},
        {"bytes": "-"},
        {"bytes": "9-2"},
        {"bytes": "many"},
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
        ("scale 50% family=gemm", Change("scale", 0.5, Where(family="gemm"))),
        ("set 1.5ms name='a b'", Change("set", 1.5e6, Where(name="a b"))),
        ("merge 25MB", Change("merge", 25e6)),
        ("move 0 name=a", Change("move", 0.0, Where(name="a"))),
        ("merge 1MiB group=0", Change("merge", 2.0**20, Where(group="0"))),
        ("offload name=*DataLoader*", Change("offload", 1.0, Where(name="*DataLoader*"))),
        ("fuse 4 factor=0.5 op=a", Change("fuse", 4.0, Where(op="a"), 0.5)),
        (r"no-sync name=/#\d+$/", Change("no-sync", None, Where(name=r"/#\d+$/"))),
    ],
)
def test_grammar(text: str, change: Change) -> None:
    assert change_of(text) == change
    assert change_of(text_of(change)) == change


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
        checked(Change("scale", value))


@pytest.mark.parametrize(
    "text", ["bandwidth 2", "early", "as-median rank=0", "merge 1MB", "ranks 8", "move 7", "move 9 kind=op"]
)
def test_what_cannot_be_is_an_error(graph: DependencyGraph, text: str) -> None:
    with pytest.raises(ArgumentError):
        tracebraid.what_if(graph, text)


@pytest.mark.parametrize("text", ["offload", "offload rank=0"])
def test_another_thread_does_not_take_all_of_the_host_work(text: str) -> None:
    scene = Scene()
    host = scene.thread()
    for number in range(1, STEPS + 1):
        with host.step(number, 1_000):
            host.run("aten::mul", 8_000_000)
    with pytest.raises(ArgumentError, match="select part of it"):
        tracebraid.what_if(scene.linked(), text)


def test_a_key_that_the_trace_lacks_says_what_records_it(graph: DependencyGraph) -> None:
    with pytest.raises(ArgumentError, match="capture --stacks"):
        tracebraid.what_if(graph, "scale 0.5 module=Linear_0")


def test_no_change_and_no_events_are_errors(graph: DependencyGraph) -> None:
    with pytest.raises(ArgumentError):
        tracebraid.what_if(graph)
    with pytest.raises(ArgumentError):
        tracebraid.what_if(Scene().linked(), "scale 0.5")


@pytest.mark.slow
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


@pytest.mark.full
@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(scene=scenes(), text=st.sampled_from(ANY))
def test_every_change_gives_a_graph(scene: Scene, text: str) -> None:
    """Edges go forward, work and residuals are not negative; what only gets faster ends no later."""
    graph = dependency_graph(scene.linked())
    try:
        after = changed(graph, change_of(text)).graph
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


STEPS = 3
AT_ONCE = -CALL_NS
"""The latency of a launch whose kernel starts with the call."""


@dataclass(frozen=True)
class Case:
    """A program's step, without the change and with it."""

    change: str
    step: Callable[[Thread, Stream, Stream, bool], None]
    waits: bool = True
    """Whether each step waits for the device at its end."""


def kernels(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    for _ in range(3):
        with host.op("aten::mm", 2_000):
            host.launch(stream, "sgemm", 20_000 if made else 40_000)
    with host.op("aten::add", 2_000):
        host.launch(stream, "elementwise", 10_000)


def set_duration(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    host.run("aten::item", 7_000 if made else 30_000)
    host.run("aten::mul", 9_000)


def removed_op(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    with host.op("aten::mm", 2_000):
        host.launch(stream, "sgemm", 40_000)
    if not made:
        with host.op("aten::nonzero", 3_000), host.op("aten::sum", 1_000):
            host.launch(stream, "reduce", 25_000)
    with host.op("aten::mm", 2_000):
        host.launch(stream, "sgemm", 40_000)


def removed_between_gaps(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    """The device is behind, and idle for 2 us from each kernel to the next: one such gap goes, the other stays."""
    for name in ("sgemm", "reduce", "sgemm"):
        if name == "sgemm" or not made:
            with host.op("aten::mm" if name == "sgemm" else "aten::sum", 2_000):
                host.launch(stream, name, 90_000)
            stream.free += 2_000


def called_by_python(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    """Python takes 3 us before each op, once 90 us: that much it computes itself, and it stays but for 3 us."""
    product, total = ("aten::mm", 3_000), ("aten::sum", 3_000)
    for name, ns in (product, total, product, product, ("aten::sum", 90_000)):
        if name != "aten::sum" or not made:
            host.spend(ns)
            host.run(name, 20_000)
        elif ns > 3_000:
            host.spend(ns - 3_000)


def emptied(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    """An op that only calls the removed one goes with it; one that calls another, too, stays."""
    host.run("aten::mul", 5_000)
    if not made:
        with host.op("aten::norm", 4_000), host.op("aten::sum", 2_000):
            host.launch(stream, "reduce", 25_000)
    with host.op("aten::var", 4_000):
        host.run("aten::mul", 5_000)
        if not made:
            with host.op("aten::sum", 2_000):
                host.launch(stream, "reduce", 25_000)


def requested(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    """The ops that request a collective go with it."""
    host.run("aten::mul", 5_000)
    if not made:
        host.collective(other, 30_000)
    with host.op("aten::mm", 2_000):
        host.launch(stream, "sgemm", 90_000, latency=AT_ONCE)


def requested_in_backward(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    """Without an op of its own a collective goes with its call; the op around them works for others, too."""
    with host.op("torch::autograd::AccumulateGrad", 3_000):
        host.run("aten::add_", 5_000)
        if not made:
            host.launch(other, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 30_000)
    with host.op("aten::mm", 2_000):
        host.launch(stream, "sgemm", 90_000, latency=AT_ONCE)


def host_waits(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    with host.op("aten::mm", 2_000):
        host.launch(stream, "sgemm", 100_000, latency=AT_ONCE)
    recorded = host.record(stream)
    if not made:
        host.synchronize_event(recorded)
    host.run("aten::mul", 50_000)
    with host.op("aten::mm", 2_000):
        host.launch(stream, "sgemm", 100_000, latency=AT_ONCE)


def wait_for_loss(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    for _ in range(3):
        with host.op("aten::mm", 2_000):
            host.launch(stream, "sgemm", 40_000, latency=AT_ONCE)
    recorded = host.record(stream)
    if not made:
        host.synchronize_event(recorded)
    host.run("aten::mul", 50_000)
    if made:
        host.synchronize_event(recorded)


def launches(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    with host.op("aten::mm", 2_000):
        first = host.launch(stream, "sgemm", 4_000, latency=AT_ONCE)
    for duration in (4_000, 4_000, 4_000, 30_000):
        if made:
            stream.run("sgemm", duration, call=first.call)
        else:
            with host.op("aten::mm", 2_000):
                host.launch(stream, "sgemm", duration, latency=AT_ONCE)
    host.run("aten::mul", 1_000)


def late_communication(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    with host.op("aten::mm", 2_000):
        product = host.launch(stream, "sgemm", 40_000)
    recorded = host.record(stream)
    host.wait_event(other, recorded)
    if not made:
        host.run("aten::mul", 90_000)
    host.collective(other, 200_000, at=max(host.now, product.end))
    if made:
        host.run("aten::mul", 90_000)
    host.synchronize()


def fusable(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    with host.op("aten::mm", 2_000):
        host.launch(stream, "sgemm", 80_000)
    with host.op("aten::add", 2_000):
        host.launch(stream, "add_0", 18_000 if made else 10_000)
    for number in (1, 2):
        with host.op("aten::add", 2_000):
            if not made:
                host.launch(stream, f"add_{number}", 10_000)
    with host.op("aten::mm", 2_000):
        host.launch(stream, "sgemm", 30_000)


def loader(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    """Loads take 30 us, the rest of a step 40 us: with a worker ahead, only the first load is waited for."""
    if not made or len(host.scene.of("enumerate(DataLoader)")) == 0:
        host.run("enumerate(DataLoader)", 30_000)
    else:
        host.run("enumerate(DataLoader)", 0)
    host.run("aten::mul", 40_000)


def two_queues(host: Thread, stream: Stream, other: Stream, made: bool) -> None:
    """Copies between kernels, each queued behind the one before; on another stream they run beside the kernels."""
    for number in range(3):
        with host.op("aten::mm", 2_000):
            host.launch(stream, "sgemm", 60_000)
        with host.op("aten::copy_", 2_000):
            host.launch(other if made else stream, f"copy_{number}", 25_000 * (number + 1))
    if made:
        host.synchronize(other)


CASES = {
    "move": Case("move 20 name=copy_*", two_queues),
    "no-sync": Case("no-sync name=cudaEventSynchronize", host_waits),
    "defer": Case("defer name=cudaEventSynchronize", wait_for_loss, waits=False),
    "graph-launch": Case("graph-launch name=sgemm", launches),
    "early": Case("early kind=communication", late_communication, waits=False),
    "fuse": Case("fuse 3 factor=0.6 name=add_*", fusable),
    "offload": Case("offload name=*DataLoader*", loader),
    "scale": Case("scale 0.5 name=sgemm", kernels),
    "split": Case("split 2 name=sgemm", kernels),
    "set": Case("set 7us name=aten::item", set_duration),
    "remove": Case("remove op=aten::nonzero", removed_op),
    "remove with Python": Case("remove name=aten::sum", called_by_python),
    "remove emptied": Case("remove name=aten::sum", emptied, waits=False),
    "remove between gaps": Case("remove op=aten::sum", removed_between_gaps),
    "remove communication": Case("remove kind=communication", requested),
    "remove without op": Case("remove kind=communication", requested_in_backward),
}


def planted(case: Case, made: bool) -> Scene:
    scene = Scene()
    host, stream, other = scene.thread(), scene.stream(7), scene.stream(20)
    for number in range(1, STEPS + 1):
        with host.step(number, 1_000):
            case.step(host, stream, other, made)
            if case.waits:
                host.synchronize(stream)
    return scene


def job_steps(found: tracebraid.results.WhatIf, column: str) -> list[int]:
    return found.steps.filter(pl.col("rank").is_null()).get_column(column).to_list()


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_prediction_is_the_other_trace(name: str) -> None:
    case = CASES[name]
    found = tracebraid.what_if(planted(case, False).linked(), case.change)
    truth = tracebraid.what_if(planted(case, True).linked(), "scale 1")
    assert job_steps(found, "after_ns") == job_steps(truth, "before_ns")
    assert job_steps(found, "before_ns") != job_steps(found, "after_ns")


ALPHA_NS, NS_PER_BYTE = 10_000, 2
SIZES = (1_000, 4_000, 2_000, 8_000)
"""Elements, of 4 bytes, of the collective of each step."""

ROUNDING_NS = 5


def transfer(elements: int, alpha: float = 1.0, slope: float = 1.0) -> int:
    return round(ALPHA_NS * alpha + 4 * elements * NS_PER_BYTE * slope)


def planted_job(
    folder: Path, alpha: float = 1.0, slope: float = 1.0, slow_ns: int = 0, parts: int = 1, launch_ns: int = 0
) -> tracebraid.Job:
    """A job whose steps compute, then reduce, in so many parts; the last rank is slower."""
    ranks = 3
    job = PlannedJob(ranks)
    for number, elements in enumerate(SIZES, start=1):
        with job.step(number):
            for rank in range(ranks):
                job.threads[rank].run("aten::mul", 200_000 + slow_ns * (rank == ranks - 1))
                job.threads[rank].spend(launch_ns)
            for _ in range(parts):
                job.collective(nelems=elements // parts, transfer=transfer(elements // parts, alpha, slope))
    folder.mkdir()
    return tracebraid.open(job.write(folder))


def steps(found: tracebraid.results.WhatIf, column: str) -> list[int]:
    return found.steps.filter(pl.col("rank").is_null()).get_column(column).to_list()


def close(found: Sequence[int], truth: Sequence[int]) -> bool:
    return all(abs(a - b) <= ROUNDING_NS for a, b in zip(found, truth, strict=True))


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "alpha", "slope"),
    [("bandwidth 2", 1.0, 0.5), ("latency 0.5", 0.5, 1.0), ("ranks 9", 8 / 2, (8 / 9) / (2 / 3))],
)
def test_costs_of_communication(tmp_path: Path, change: str, alpha: float, slope: float) -> None:
    found = tracebraid.what_if(planted_job(tmp_path / "a"), change)
    truth = tracebraid.what_if(planted_job(tmp_path / "b", alpha, slope), "scale 1")
    assert close(steps(found, "after_ns"), steps(truth, "before_ns"))
    assert not close(steps(found, "before_ns"), steps(found, "after_ns"))
    assert tracebraid.results.WhatIfNote.LATENCY_UNKNOWN not in found.notes


@pytest.mark.slow
def test_a_delay_does_not_depend_on_the_bandwidth(tmp_path: Path) -> None:
    """Of a collective that is late once, what its size takes is halved, and the delay stays."""

    def job(name: str, slope: float) -> tracebraid.Job:
        planned = PlannedJob(2)
        for number, elements in enumerate(3 * SIZES, start=1):
            with planned.step(number):
                planned.compute(200_000)
                delay_ns = 90_000 * (number == 6)
                planned.collective(nelems=elements, transfer=transfer(elements, slope=slope) + delay_ns)
        (tmp_path / name).mkdir()
        return tracebraid.open(planned.write(tmp_path / name))

    before = job("before", 1.0)
    found = tracebraid.what_if(before, "bandwidth 2")
    truth = tracebraid.what_if(job("after", 0.5), "scale 1")
    assert close(steps(found, "after_ns"), steps(truth, "before_ns"))
    # One rank waits for nothing.
    assert tracebraid.what_if(before, "ranks 1").changes.get_column("after_ns").to_list() == [0]


@pytest.mark.slow
def test_a_batch_of_a_worker_is_received(tmp_path: Path) -> None:
    """A loader without workers takes 5 ms of each step; with a worker ahead, 1 ms."""
    scene = Scene()
    host = scene.thread()
    for number in range(1, STEPS + 1):
        with host.step(number, 1_000):
            host.run("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 5_000_000)
            host.run("aten::mul", 8_000_000)
    found = tracebraid.what_if(scene.linked(), "offload name=enumerate*")
    gains_ns = np.subtract(job_steps(found, "before_ns"), job_steps(found, "after_ns")).tolist()
    assert gains_ns == [-1_000_000] + (STEPS - 1) * [4_000_000]


@pytest.mark.slow
def test_the_shortest_transfers_tell_how_times_grow_with_sizes_where_delays_hide_it(tmp_path: Path) -> None:
    job = PlannedJob(2, devices=[])
    for number, delay_ns in enumerate((0, 900_000, 800_000, 0), start=1):
        with job.step(number):
            job.collective(nelems=25_000, transfer=40_000 + delay_ns)
            job.collective(nelems=250_000, transfer=400_000)
    traces = tracebraid.open(job.write(tmp_path))
    faster = tracebraid.what_if(traces, "bandwidth 2")
    assert faster.gain_ns == pytest.approx((40_000 + 400_000) / 2, rel=0.02)
    assert WhatIfNote.NOTHING_CHANGES not in faster.notes
    without = tracebraid.what_if(traces, "latency 0")
    assert (without.gain_ns, WhatIfNote.NOTHING_CHANGES in without.notes) == (0, True)
    assert WhatIfNote.NO_GAIN not in without.notes


def test_merged_collectives_have_one_latency(tmp_path: Path) -> None:
    """The host asks for the bucket once: one call, and one latency are gone."""
    graph = dependency_graph(planted_job(tmp_path / "a", parts=2))
    found = tracebraid.what_if(graph, "merge 25MB")
    truth = tracebraid.what_if(planted_job(tmp_path / "b"), "scale 1")
    assert close(steps(found, "after_ns"), steps(truth, "before_ns"))
    gains = np.subtract(steps(found, "before_ns"), steps(found, "after_ns"))
    assert (np.abs(gains - ALPHA_NS) <= ROUNDING_NS).all()


@pytest.mark.slow
def test_a_rank_as_fast_as_the_median(tmp_path: Path) -> None:
    found = tracebraid.what_if(planted_job(tmp_path / "a", slow_ns=70_000), "as-median rank=2")
    truth = tracebraid.what_if(planted_job(tmp_path / "b"), "scale 1")
    assert close(steps(found, "after_ns"), steps(truth, "before_ns"))
    assert found.gain_ns == pytest.approx(70_000, rel=0.01)


@pytest.mark.slow
def test_without_a_fit_the_answer_says_so(tmp_path: Path) -> None:
    job = PlannedJob(2)
    with job.step(1):
        job.compute(10_000)
        job.collective(transfer=80_000)
    traces = tracebraid.open(job.write(tmp_path))
    found = tracebraid.what_if(traces, "bandwidth 2")
    assert tracebraid.results.WhatIfNote.LATENCY_UNKNOWN in found.notes
    assert found.gain_ns == 40_000
    with pytest.raises(tracebraid.ArgumentError):
        tracebraid.what_if(traces, "latency 0.5")


def on_hosts(folder: Path, parts: int, transfer_ns: int) -> tracebraid.Job:
    """Ranks on CPUs, which wait for each part of what they reduce before they ask for the next."""
    job = PlannedJob(2, devices=[])
    for number in range(1, 4):
        with job.step(number):
            job.compute(200_000)
            for _ in range(parts):
                job.collective("allreduce", nelems=1_000, transfer=transfer_ns)
    folder.mkdir()
    return tracebraid.open(job.write(folder))


@pytest.mark.slow
def test_merged_collectives_of_hosts_are_waited_for_once(tmp_path: Path) -> None:
    """No alpha is known: transfers take as long together, and what each wait costs beside its transfer is gained."""
    parts, transfer_ns = 4, 100_000
    found = tracebraid.what_if(on_hosts(tmp_path / "a", parts, transfer_ns), "merge 25MB")
    truth = tracebraid.what_if(on_hosts(tmp_path / "b", 1, parts * transfer_ns), "scale 1")
    overhead = np.subtract(steps(found, "after_ns"), steps(truth, "before_ns"))
    assert (overhead >= 0).all()
    assert (overhead <= np.subtract(steps(found, "before_ns"), steps(truth, "before_ns"))).all()
    assert tracebraid.results.WhatIfNote.LATENCY_UNKNOWN in found.notes


@pytest.mark.slow
def test_of_merged_collectives_times_below_the_fitted_latency_make_up_for_those_above(tmp_path: Path) -> None:
    """Their times do not depend on their sizes: a bucket takes as long as one of them."""
    job = PlannedJob(2)
    for number in range(1, 5):
        with job.step(number):
            job.compute(10_000)
            for elements, microseconds in ((1_000, 50), (2_000, 150), (2_000, 50), (1_000, 150)):
                job.collective(nelems=elements, transfer=microseconds * 1_000)
    found = tracebraid.what_if(tracebraid.open(job.write(tmp_path)), "merge 25MB")
    before_ns, after_ns = found.changes.select("before_ns", "after_ns").row(0)
    assert after_ns == pytest.approx(before_ns / 4, rel=0.01)
