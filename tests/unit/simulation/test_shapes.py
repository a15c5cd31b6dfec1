"""Changes of shape: planted programs whose time at another shape is known, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import tracebraid
from tests.planted import PlannedJob, Scene, Thread, device_scene
from tracebraid import dependency_graph
from tracebraid.errors import ArgumentError
from tracebraid.model.answers.graph import ShapeBasis
from tracebraid.model.graph import DependencyGraph
from tracebraid.simulation.changes.verbs import change_of, text_of
from tracebraid.simulation.scaling import Amount, Call, Rates, amount_of, call_of
from tracebraid.simulation.structure import Run, repeated_runs

INPUT, CLASSES = 384, 12
LATENCY_NS, BYTES_PER_NS = 5_000, 10
NETWORK = "network=10GB/s,5us"
EVALUATE = "autograd::engine::evaluate_function: "


@dataclass(frozen=True)
class Program:
    """A planted training program: linear layers of one width.

    Ops take 2 us, and 10 ps for each byte; products 40 ps for a byte, and 10 ps for each FLOP.
    """

    batch: int = 64
    layers: int = 3
    width: int = 256
    steps: int = 2
    micro_batches: int = 1
    backward: bool = True
    shapes: bool = True
    tensor: int = 1

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Inputs and outputs of each layer: of pairs, outputs are divided, then inputs; the last layer is whole."""
        whole = [(INPUT, self.width), *[(self.width, self.width)] * self.layers, (self.width, CLASSES)]
        by_columns, by_rows = (1, self.tensor), (self.tensor, 1)
        parts = [by_rows if number % 2 else by_columns for number in range(len(whole) - 1)] + [(1, 1)]
        return [(given // a, found // b) for (given, found), (a, b) in zip(whole, parts, strict=True)]

    def graph(self) -> DependencyGraph:
        scene = Scene(devices=())
        host = scene.thread()
        for number in range(self.steps):
            with host.step(number + 1, 0):
                for _ in range(self.micro_batches):
                    self.forward(host)
                    if self.backward:
                        self.back(host)
                with host.annotation("Optimizer.step#SGD.step"):
                    for given, found in self.sizes if self.backward else ():
                        for shape in ((found, given), (found,)):
                            self.run(host, "aten::add_", [shape, shape, ()])
        return dependency_graph(scene.linked())

    def run(self, host: Thread, name: str, dims: Sequence[Sequence[int]]) -> None:
        """An op that takes as long as its amount says."""
        amount = amount_of(Call(name, tuple(tuple(each) or None for each in dims)))
        is_product = name in ("aten::addmm", "aten::mm")
        cost = amount.flops + 4 * amount.size_bytes if is_product else amount.size_bytes
        given: dict[str, Any] = {"dims": [list(each) for each in dims]} if self.shapes else {}
        host.run(name, 2_000 + round(cost / 100), **given)

    def forward(self, host: Thread) -> None:
        for number, (given, found) in enumerate(self.sizes):
            with host.op("aten::linear", 0, **self.dims([(self.batch, given), (found, given), (found,)])):
                self.run(host, "aten::addmm", [(found,), (self.batch, given), (given, found), (), ()])
                if number % 2:
                    self.add_up(host, self.batch * found)
            self.run(host, "aten::gelu", [(self.batch, found)])

    def back(self, host: Thread) -> None:
        with host.op(f"{EVALUATE}MeanBackward0", 0):
            self.run(host, "aten::div", [(self.batch, CLASSES), ()])
        for number, (given, found) in reversed(list(enumerate(self.sizes))):
            with host.op(f"{EVALUATE}GeluBackward0", 0):
                self.run(host, "aten::gelu_backward", [(self.batch, found), (self.batch, found)])
            with host.op(f"{EVALUATE}AddmmBackward0", 0):
                self.run(host, "aten::mm", [(self.batch, found), (found, given)])
                if number % 2 == 0 and number < self.layers + 1:
                    self.add_up(host, self.batch * given)
                self.run(host, "aten::mm", [(found, self.batch), (self.batch, given)])
            for shape in ((found, given), (found,)):
                with host.op(f"{EVALUATE}torch::autograd::AccumulateGrad", 500):
                    host.run("torch::autograd::AccumulateGrad", 1_000, **self.dims([shape]))

    def add_up(self, host: Thread, elements: int) -> None:
        """Wait for an all-reduce round a ring."""
        if self.tensor > 1:
            moved_ns = 4 * elements / self.tensor / BYTES_PER_NS
            with host.annotation("all_reduce", round(2 * (self.tensor - 1) * (LATENCY_NS + moved_ns))):
                pass

    def dims(self, shapes: Sequence[Sequence[int]]) -> dict[str, Any]:
        return {"dims": [list(each) for each in shapes]} if self.shapes else {}


def step_ns(program: Program) -> float:
    return tracebraid.what_if(program.graph(), "scale 1").before_ns


@pytest.mark.parametrize(
    ("program", "change", "other"),
    [
        pytest.param(Program(), "scale-batch 2", {"batch": 128}, id="batch"),
        pytest.param(Program(batch=256), "scale-batch 0.25", {"batch": 64}, id="smaller batch"),
        pytest.param(Program(), "layers 3->7", {"layers": 7}, id="layers"),
        pytest.param(Program(layers=6), "layers 6->2", {"layers": 2}, id="fewer layers"),
        pytest.param(Program(), "hidden 256->512", {"width": 512}, id="hidden"),
        pytest.param(Program(width=256), "hidden 256->128", {"width": 128}, id="narrower"),
        pytest.param(Program(backward=False), "layers 3->6", {"layers": 6}, id="layers of inference"),
        pytest.param(Program(backward=False), "scale-batch 4", {"batch": 256}, id="batch of inference"),
        pytest.param(Program(micro_batches=2), "layers 3->6", {"layers": 6}, id="layers of micro-batches"),
        pytest.param(Program(), f"tensor 1->2 {NETWORK}", {"tensor": 2}, id="tensor"),
        pytest.param(Program(), f"tensor 1->8 {NETWORK}", {"tensor": 8}, id="tensor over more"),
        pytest.param(
            Program(backward=False), f"tensor 1->2 {NETWORK}", {"tensor": 2}, id="tensor of inference"
        ),
        pytest.param(
            Program(micro_batches=3), f"tensor 1->4 {NETWORK}", {"tensor": 4}, id="tensor of micro-batches"
        ),
    ],
)
def test_a_prediction_is_the_step_at_the_other_shape(
    program: Program, change: str, other: dict[str, Any]
) -> None:
    found = tracebraid.what_if(program.graph(), change)
    expected = step_ns(replace(program, **other))
    assert found.before_ns == step_ns(program)
    assert found.after_ns == pytest.approx(expected, rel=0.03)
    assert found.before_ns - found.gain_high_ns <= found.after_ns <= found.before_ns - found.gain_low_ns


def test_intervals_lie_around_predictions_by_basis() -> None:
    found = tracebraid.what_if(Program().graph(), "scale-batch 2")
    rows = found.shape_basis
    assert rows.filter(pl.col("change") != "scale-batch 2").is_empty()
    assert (rows.get_column("low_ns") <= rows.get_column("after_ns")).all()
    assert (rows.get_column("after_ns") <= rows.get_column("high_ns")).all()
    by_class = {row["what"]: row for row in rows.iter_rows(named=True)}
    assert by_class["matrix products"]["basis"] == ShapeBasis.FITTED.value
    assert by_class["aten::add_"]["basis"] == ShapeBasis.UNCHANGED.value
    assert by_class["aten::add_"]["after_ns"] == by_class["aten::add_"]["before_ns"]
    assert found.changes.row(0, named=True)["activities"] > 0


def test_a_batch_of_kernels_leaves_the_host_as_it_is() -> None:
    graph = device_graph()
    found = tracebraid.what_if(graph, "scale-batch 2")
    kernels = found.shape_basis.filter(pl.col("what") == "matrix products").row(0, named=True)
    # A line through 4 columns in 10 us and 512 in 1,000 us begins at 2.205 us; what is beyond that doubles.
    overhead_ns = 10_000 - 4 * 990_000 / 508
    grows_ns = 1_010_000 - 2 * overhead_ns
    assert kernels["before_ns"] == 2 * 1_010_000
    assert kernels["after_ns"] == pytest.approx(2 * (1_010_000 + grows_ns), abs=4)
    assert found.after_ns - found.before_ns == pytest.approx(grows_ns, abs=2)


def device_graph() -> DependencyGraph:
    scene, host, stream = device_scene()
    for number in (1, 2):
        with host.step(number, 1_000):
            for rows, kernel_ns in ((64, 1_000_000), (64, 10_000)):
                dims = [[rows, 512], [512, 512 if kernel_ns > 20_000 else 4]]
                with host.op("aten::mm", 1_000, dims=dims):
                    host.launch(stream, "gemm", kernel_ns)
            for weight in ([512, 512], [512, 4]):
                host.run("torch::autograd::AccumulateGrad", 1_000, dims=[weight])
            host.synchronize(stream)
    return dependency_graph(scene.linked())


@pytest.mark.parametrize(
    ("program", "change", "says"),
    [
        pytest.param(Program(shapes=False), "scale-batch 2", "record_shapes", id="no shapes"),
        pytest.param(Program(), "scale-batch 0.3", "no whole number", id="part of a sample"),
        pytest.param(Program(), "layers 4->8", "3 (", id="other number of layers"),
        pytest.param(Program(layers=1), "layers 2->4", "repeats no block", id="no repeated block"),
        pytest.param(Program(), "hidden 128->256", "256 (", id="other width"),
        pytest.param(Program(), "data-parallel 8->64", "gradients of all", id="no gradient collectives"),
        pytest.param(Program(), "data-parallel 1->8", "give one", id="replicas on an unknown network"),
        pytest.param(
            Program(backward=False),
            f"data-parallel 1->8 {NETWORK}",
            "accumulates",
            id="replicas of inference",
        ),
        pytest.param(Program(), "pipeline 2->4", "1->N", id="stages that are not there"),
        pytest.param(Program(backward=False), "pipeline 1->4", "backward", id="pipeline of inference"),
        pytest.param(Program(layers=4), "pipeline 1->5", "at most 1->4", id="more stages than blocks"),
        pytest.param(Program(), "tensor 1->2", "give a network", id="tensor on an unknown network"),
        pytest.param(Program(), f"tensor 1->3 {NETWORK}", "256 columns", id="parts of columns"),
        pytest.param(Program(), "tensor 2->4", "give FROM as 1", id="no tensor parallelism"),
    ],
)
def test_too_little_evidence_is_an_error_that_says_what_is_missing(
    program: Program, change: str, says: str
) -> None:
    with pytest.raises(ArgumentError, match=re.escape(says)):
        tracebraid.what_if(program.graph(), change)


@pytest.mark.parametrize(
    "change",
    [
        "scale-batch 2",
        "layers 2->4",
        "hidden 4->8",
        "pipeline 1->2",
        f"tensor 1->2 {NETWORK}",
        f"data-parallel 1->2 {NETWORK}",
    ],
)
def test_shapes_of_fused_code_alone_are_too_little(change: str) -> None:
    scene = Scene(devices=())
    host = scene.thread()
    with host.step(1, 0):
        host.run("triton_poi_fused_gelu_0", 1_000, dims=[[64, 64]])
    with pytest.raises(ArgumentError):
        tracebraid.what_if(dependency_graph(scene.linked()), change)


def test_rows_without_a_common_size_are_refused() -> None:
    scene = Scene(devices=())
    host = scene.thread()
    with host.step(1, 0):
        for rows in (32, 77):
            host.run("aten::mm", 1_000, dims=[[rows, 64], [64, 64]])
        host.run("torch::autograd::AccumulateGrad", 10, dims=[[64, 64]])
    with pytest.raises(ArgumentError, match="no common batch"):
        tracebraid.what_if(dependency_graph(scene.linked()), "scale-batch 2")


@pytest.mark.parametrize(
    "text",
    [
        "layers 24",
        "layers 24-36",
        "layers 24->",
        "layers ->36",
        "layers 0->4",
        "layers 4->0",
        "layers -4->8",
        "layers 2.5->5",
        "layers 4->1e30",
        "layers 3->6 name=aten::mm",
        "scale 1->2",
        "scale-batch 0",
        "scale-batch -1",
        "scale-batch",
        "hidden 64->256 factor=2",
        "hidden 64->256 network=50GB/s,5us",
        "tensor 1->2 network=50GB/s",
        "tensor 1->2 network=50GB,5us",
        "tensor 1->2 network=0GB/s,5us",
        "tensor 1->2 network=5us,50GB/s",
    ],
)
def test_malformed_sizes_are_errors(text: str) -> None:
    with pytest.raises(ArgumentError):
        change_of(text)


@pytest.mark.parametrize(
    "text",
    [
        "layers 24->36",
        "scale-batch 2",
        "hidden 4096->5120",
        "data-parallel 8->64",
        "tensor 1->8 network=50GB/s,5us",
    ],
)
def test_sizes_are_written_as_they_are_read(text: str) -> None:
    assert text_of(change_of(text)) == text


def test_networks_are_given_in_bits_too() -> None:
    bits, size = (change_of(f"tensor 1->8 network={each},5us") for each in ("100Gbit/s", "12.5GB/s"))
    assert bits == size


def test_a_huge_batch_is_an_error() -> None:
    with pytest.raises(ArgumentError):
        tracebraid.what_if(Program().graph(), "scale-batch 1e18")


@pytest.mark.parametrize(
    ("stages", "passes", "updates"),
    [
        # 1F1B: 4 micro-batches and 4 stages take 4 + 4 - 1 turns of a quarter of a pass each.
        pytest.param(4, 7 / 16, 1 / 4, id="a block each"),
        pytest.param(3, (1 + 3 / 2) / 4, 1 / 2, id="the longest has two of four blocks"),
    ],
)
def test_pipeline_stages_wait_for_each_other(stages: int, passes: float, updates: float) -> None:
    program = Program(micro_batches=4, layers=4)
    found = tracebraid.what_if(program.graph(), f"pipeline 1->{stages}")
    rows = {row["what"]: row for row in found.shape_basis.iter_rows(named=True)}
    for phase in ("forward passes", "backward passes"):
        assert rows[phase]["after_ns"] == pytest.approx(rows[phase]["before_ns"] * passes, rel=1e-3)
    assert rows["updates"]["after_ns"] == pytest.approx(rows["updates"]["before_ns"] * updates, rel=1e-3)


WIDTH, ROWS = 256, 64


def linear(host: Thread, given: int, found: int) -> None:
    host.run("aten::addmm", 50_000, dims=[[found], [ROWS, given], [given, found], [], []])


SDPA, FLASH = "aten::_scaled_dot_product_flash_attention_for_cpu", "aten::_flash_attention_forward"


def attention_block(host: Thread, heads: int, attention: str, *, wide: bool) -> None:
    """A block of a transformer: attention, and a feed-forward network whose gate meets its other half."""
    for _ in range(3):
        linear(host, WIDTH, WIDTH)
    # Odd lengths of sequences are no heads.
    size = (
        [1, ROWS - 1, heads, WIDTH // heads] if attention == FLASH else [1, heads, ROWS - 1, WIDTH // heads]
    )
    host.run(attention, 40_000, dims=[size, size, size])
    linear(host, WIDTH, WIDTH)
    host.run("aten::add", 5_000, dims=[[ROWS, WIDTH], [ROWS, WIDTH], []])
    inner = 4 * WIDTH
    linear(host, WIDTH, inner)
    if not wide:
        host.run("triton_poi_fused_silu_0", 8_000, dims=[[ROWS, inner]])
    if wide:
        host.run("aten::silu", 8_000, dims=[[ROWS, inner]])
        linear(host, WIDTH, inner)
        host.run("aten::mul", 8_000, dims=[[ROWS, inner], [ROWS, inner]])
    linear(host, inner, WIDTH)


def attention_graph(heads: int, attention: str, *, wide: bool) -> DependencyGraph:
    scene = Scene(devices=())
    host = scene.thread()
    with host.step(1, 0):
        attention_block(host, heads, attention, wide=wide)
        linear(host, WIDTH, 1000)
    return dependency_graph(scene.linked())


@pytest.mark.parametrize(("name", "wide"), [(SDPA, False), (FLASH, True)])
def test_attention_and_gates_lie_in_pairs(name: str, wide: bool) -> None:
    graph = attention_graph(8, name, wide=wide)
    found = tracebraid.what_if(graph, f"tensor 1->4 {NETWORK}").shape_basis
    rows = found.group_by("what").agg(pl.col("activities", "before_ns", "after_ns").sum())
    by_class = {row["what"]: row for row in rows.iter_rows(named=True)}
    attention = by_class[name]
    assert attention["after_ns"] < 0.5 * attention["before_ns"]
    # One behind the output of attention, one behind the feed-forward network; the head is whole.
    size = 4 * ROWS * WIDTH
    ring_ns = 2 * 3 * (LATENCY_NS + size / 4 / BYTES_PER_NS)
    assert by_class["tensor all_reduce"]["activities"] == 2
    assert by_class["tensor all_reduce"]["after_ns"] == pytest.approx(2 * ring_ns, rel=1e-3)
    assert by_class["aten::add"]["after_ns"] == by_class["aten::add"]["before_ns"]


def test_heads_are_not_split() -> None:
    with pytest.raises(ArgumentError, match="4 heads"):
        tracebraid.what_if(attention_graph(4, SDPA, wide=True), f"tensor 1->8 {NETWORK}")


SIZES = (ROWS * WIDTH, 4 * ROWS * WIDTH)


@pytest.fixture
def divided_layers(tmp_path: Path) -> tracebraid.Job:
    """Two ranks that divide two layers, and add up what each makes."""
    job = PlannedJob(2, devices=[])
    for number in range(4):
        with job.step(number + 1):
            for nelems in SIZES:
                for rank in range(2):
                    linear(job.threads[rank], WIDTH, WIDTH // 2)
                    job.threads[rank].run("aten::gelu", 10_000, dims=[[ROWS, WIDTH // 2]])
                    linear(job.threads[rank], WIDTH // 2, WIDTH)
                job.collective(nelems=nelems, transfer=10_000 + nelems // 10)
    return tracebraid.open(job.write(tmp_path))


def test_groups_of_tensor_parallelism_get_other_ranks(divided_layers: tracebraid.Job) -> None:
    with pytest.raises(ArgumentError, match="group as FROM"):
        tracebraid.what_if(divided_layers, f"tensor 1->2 {NETWORK}")
    found = tracebraid.what_if(divided_layers, "tensor 2->8").shape_basis
    rows = {row["what"]: row for row in found.iter_rows(named=True)}
    # A ring of 8 has 7 links instead of 1, and each passes an eighth instead of a half.
    expected_ns = 8 * sum(7 * 10_000 + nelems / 10 * (7 / 8) / (1 / 2) for nelems in SIZES)
    assert rows["all_reduce"]["after_ns"] == pytest.approx(expected_ns, rel=0.02)
    assert rows["matrix products"]["after_ns"] < 0.5 * rows["matrix products"]["before_ns"]
    assert "tensor all_reduce" not in rows


def test_layers_repeat_what_ranks_do_together_in_them(divided_layers: tracebraid.Job) -> None:
    found = tracebraid.what_if(divided_layers, "layers 2->6")
    layers_ns = sum(2 * 50_000 + 10_000 + 10_000 + nelems // 10 for nelems in SIZES)
    assert 2 * layers_ns < found.after_ns - found.before_ns < 2 * found.before_ns


@pytest.mark.parametrize("ranks", [2, 8])
def test_replicas_of_one_add_up_gradients_behind_the_last_backward_pass(ranks: int) -> None:
    """The first bucket is full with the second weight, and hidden by the rest of the pass; the other is behind it."""
    program = Program(width=512, micro_batches=2)
    sizes = [4 * size for given, found in reversed(program.sizes) for size in (given * found, found)]
    found = tracebraid.what_if(program.graph(), f"data-parallel 1->{ranks} {NETWORK}")
    rings_ns = [
        2 * (ranks - 1) * (LATENCY_NS + sum(part) / ranks / BYTES_PER_NS) for part in (sizes[:3], sizes[3:])
    ]
    (row,) = found.shape_basis.iter_rows(named=True)
    assert (row["what"], row["basis"], row["activities"]) == (
        "data-parallel all_reduce",
        "given",
        2 * program.steps,
    )
    assert row["after_ns"] == pytest.approx(program.steps * sum(rings_ns), abs=2 * program.steps)
    assert found.after_ns - found.before_ns == pytest.approx(rings_ns[1], abs=2)


def test_layers_change_what_replicas_of_one_add_up() -> None:
    changes = (f"data-parallel 1->4 {NETWORK}", "layers 3->7")
    graph = Program(width=128).graph()
    either = [tracebraid.what_if(graph, *order).after_ns for order in (changes, changes[::-1])]
    seven = tracebraid.what_if(Program(width=128, layers=7).graph(), changes[0]).after_ns
    assert either[0] == either[1] == pytest.approx(seven, rel=0.02)


def test_replicas_on_devices_add_up_beside_kernels() -> None:
    """The kernels behind the gradients of the second layer take longer than the all-reduce of both."""
    scene, host, stream = device_scene()
    kernel_ns = 1_000_000
    with host.step(1, 1_000):
        for shape in ([1024, 1024], [512, 512]):
            with host.op(f"{EVALUATE}AddmmBackward0", 1_000):
                host.launch(stream, "gemm", kernel_ns)
            # A gradient that is the first is not added: no kernel.
            with host.op(f"{EVALUATE}torch::autograd::AccumulateGrad", 500):
                host.run("torch::autograd::AccumulateGrad", 500, dims=[shape])
        with (
            host.annotation("Optimizer.step#SGD.step"),
            host.op("aten::add_", 1_000, dims=[[1024, 1024]] * 2),
        ):
            host.launch(stream, "add", 100_000)
        host.synchronize(stream)
    graph = dependency_graph(scene.linked())
    found = tracebraid.what_if(graph, "data-parallel 1->2 network=50GB/s,5us")
    first_ns, second_ns = (2 * (5_000 + 4 * size * size / 2 / 50) for size in (1024, 512))
    assert first_ns < kernel_ns
    assert found.after_ns - found.before_ns == pytest.approx(second_ns, rel=0.01)


def test_kernels_of_pairs_are_divided_and_wait_for_the_sum() -> None:
    scene, host, stream = device_scene()
    with host.step(1, 1_000):
        for name, dims, kernel_ns in (
            ("aten::mm", [[ROWS, WIDTH], [WIDTH, 4 * WIDTH]], 1_000_000),
            ("aten::gelu", [[ROWS, 4 * WIDTH]], 1_000_000),
            ("aten::mm", [[ROWS, 4 * WIDTH], [4 * WIDTH, WIDTH]], 1_000_000),
            ("aten::add", [[ROWS, WIDTH], [ROWS, WIDTH]], 1_000_000),
            ("aten::add", [[1], [1]], 2_000),
        ):
            with host.op(name, 1_000, dims=dims):
                host.launch(stream, name, kernel_ns)
        host.synchronize(stream)
    graph = dependency_graph(scene.linked())
    found = tracebraid.what_if(graph, "tensor 1->2 network=50GB/s,100us")
    rows = {row["what"]: row for row in found.shape_basis.iter_rows(named=True)}
    size = 4 * ROWS * WIDTH
    assert rows["tensor all_reduce"]["after_ns"] == pytest.approx(2 * (100_000 + size / 2 / 50), abs=1)
    assert rows["matrix products"]["after_ns"] == pytest.approx(1_000_000, rel=0.05)
    # What comes behind waits for the sum.
    assert found.before_ns - found.after_ns == sum(
        row["before_ns"] - row["after_ns"] for row in rows.values()
    )
    assert rows["tensor all_reduce"]["low_ns"] < 0.75 * rows["tensor all_reduce"]["after_ns"]


@pytest.mark.parametrize(
    ("tokens", "runs"),
    [
        ([], []),
        ([1, 2, 3], []),
        ([9, 1, 2, 1, 2, 1, 2, 8], [Run(1, 2, 3)]),
        ([5, 5, 1, 2, 3, 1, 2, 3, 1, 2, 3], [Run(0, 1, 2), Run(2, 3, 3)]),
        ([0, 1, 1, 2, 0, 1, 1, 2], [Run(0, 4, 2), Run(1, 1, 2, 4), Run(5, 1, 2, 4)]),
    ],
)
def test_repeated_blocks(tokens: list[int], runs: list[Run]) -> None:
    assert repeated_runs(np.array(tokens, dtype=np.int64)) == runs


def test_a_fit_follows_flops_and_bytes() -> None:
    def sample(rows: int, columns: int) -> tuple[Call, Amount, float]:
        call = Call("aten::mm", ((rows, 64), (64, columns)))
        amount = amount_of(call)
        return call, amount, 5_000 + amount.flops / 50 + amount.size_bytes / 4

    samples = [sample(rows, columns) for rows in (16, 64, 256) for columns in (64, 512)]
    rates = Rates.of(samples)
    call, amount, time_ns = samples[0]
    _, after, expected = sample(1024, 64)
    found = rates.scaled(call, amount, after, time_ns)
    assert found.basis is ShapeBasis.FITTED
    assert found.factor * time_ns == pytest.approx(expected, rel=1e-6)
    assert found.low < found.factor < found.high


def test_without_several_shapes_time_beyond_the_overhead_follows_the_work() -> None:
    call = Call("aten::mm", ((16, 64), (64, 64)))
    small = Call("aten::add", ((4,), (4,)))
    rates = Rates.of([(call, amount_of(call), 9_000.0), (small, amount_of(small), 1_000.0)])
    other = Call("aten::mm", ((48, 64), (64, 64)))
    found = rates.scaled(call, amount_of(call), amount_of(other), 9_000.0)
    assert found.basis is ShapeBasis.SCALED
    assert found.factor * 9_000 == pytest.approx(1_000 + 8_000 * 3)


@pytest.mark.parametrize("shapes", ["", "[", "{}", "[[[[[1]]]]]", '["a", null, [true], [-1], [1.5]]'])
def test_damaged_shapes_are_no_error(shapes: str) -> None:
    call = call_of("aten::mm", shapes)
    assert call is None or amount_of(call).flops == 0


@pytest.mark.full
@pytest.mark.parametrize(
    ("change", "basis"),
    [
        ("scale-batch 2", {"matrix products": "fitted"}),
        ("hidden 32->64", {"matrix products": "fitted", "all_reduce": "fitted"}),
        ("layers 2->4", {"forward block": "repeated", "backward block": "repeated"}),
        ("data-parallel 2->8", {"all_reduce": "fitted"}),
        ("data-parallel 2->8 network=1GB/s,1ms", {"all_reduce": "given"}),
        ("pipeline 1->2", {"updates": "scaled"}),
        ("tensor 1->2", {"all_reduce": "fitted", "tensor all_reduce": "fitted"}),
    ],
)
def test_a_captured_job_of_two_ranks_changes_its_shape(change: str, basis: dict[str, str]) -> None:
    found = tracebraid.what_if(tracebraid.open(tracebraid.demo_path()), change)
    bases = dict(found.shape_basis.select("what", "basis").rows())
    assert {what: bases[what] for what in basis} == basis
    grows = not change.startswith("pipeline")
    assert (found.after_ns > found.before_ns) == grows
    assert found.gain_low_ns <= found.gain_ns <= found.gain_high_ns
    memory = found.shape_memory
    assert memory.get_column("rank").to_list() == [0, 1]
    kept = change.startswith("data-parallel")
    assert memory.select((pl.col("after_bytes") == pl.col("before_bytes")).all()).item() == kept
