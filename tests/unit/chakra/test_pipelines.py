"""Exports of a job that becomes a pipeline: work is divided, in the order of 1F1B, and stages send to each other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.planted import PlannedJob
from tests.planted.events import Planted
from tests.planted.scene import Scene
from tests.planted.threads import Thread
from tracebraid.chakra import ChakraOptions, Detail
from tracebraid.errors import ArgumentError
from tracebraid.model.pipeline import positions_of_passes
from tracebraid.results import Exported

STEPS, MICRO_BATCHES, BLOCKS = (1, 2), 4, 4
ROWS, WIDTH, INNER = 64, 256, 512
FORWARD_NS, BACKWARD_NS, UPDATE_NS = 100_000, 200_000, 400_000
"""Of a block, and of the updates of a step."""
END_NS, ACCUMULATE_NS = 1_000, 1_000
"""Little: before and behind the blocks, and of the host behind each of two products of a block's backward pass."""
SENT_BYTES = 4 * ROWS * WIDTH
PARAMETERS = ((INNER, WIDTH), (WIDTH, INNER))
EVALUATE = "autograd::engine::evaluate_function: "
GIVEN = "network=50GB/s,5us"


class Program:
    """Blocks of two linear layers with a residual, trained with micro-batches; on a device backward has a thread."""

    def __init__(self, scene: Scene, host: Thread) -> None:
        self.scene, self.host, self.on_device = scene, host, bool(scene.devices)
        self.back = scene.thread() if self.on_device else host

    def run(self, thread: Thread, name: str, ns: int, dims: Sequence[Sequence[int]]) -> Planted:
        given, sequence = [list(each) for each in dims], self.scene.count("sequence")
        if not self.on_device:
            return thread.run(name, ns, dims=given, sequence=sequence)
        with thread.op(name, 500, dims=given, sequence=sequence) as op:
            thread.launch(self.scene.stream(7), name, ns)
        return op

    def step(self) -> Iterator[None]:
        """A step, up to the end of each block's forward pass."""
        for _ in range(MICRO_BATCHES):
            self.run(self.host, "aten::embedding", END_NS, [(1_000, WIDTH), (ROWS,)])
            ops = []
            for _ in range(BLOCKS):
                ops.append(self.forward())
                yield
            loss = self.run(self.host, "aten::mean", END_NS, [(ROWS, WIDTH)])
            self.back.until(self.host.now)
            with self.back.backward("MeanBackward0", loss, self.host):
                self.run(self.back, "aten::div", END_NS, [(ROWS, WIDTH), ()])
            for of_block in reversed(ops):
                self.backward(of_block)
            self.host.until(self.back.now)
        with self.host.annotation("Optimizer.step#SGD.step"):
            for shape in PARAMETERS * 2:
                self.run(self.host, "aten::add_", UPDATE_NS // 4, [shape, shape])

    def forward(self) -> tuple[Planted, Planted]:
        rows, inner = (ROWS, WIDTH), (ROWS, INNER)
        first = self.run(self.host, "aten::addmm", FORWARD_NS // 4, [(INNER,), rows, (WIDTH, INNER), (), ()])
        self.run(self.host, "aten::gelu", FORWARD_NS // 4, [inner])
        second = self.run(
            self.host, "aten::addmm", FORWARD_NS // 4, [(WIDTH,), inner, (INNER, WIDTH), (), ()]
        )
        self.run(self.host, "aten::add", FORWARD_NS // 4, [rows, rows])
        return second, first

    def backward(self, ops: tuple[Planted, Planted]) -> None:
        rows, inner = (ROWS, WIDTH), (ROWS, INNER)
        sizes = ((rows, inner, (WIDTH, INNER)), (inner, rows, (INNER, WIDTH)))
        for op, (given, found, shape) in zip(ops, sizes, strict=True):
            with self.back.backward("AddmmBackward0", op, self.host):
                for dims in ([given, shape], [found[::-1], given]):
                    self.run(self.back, "aten::mm", (BACKWARD_NS - 2 * ACCUMULATE_NS) // 4, dims)
            with self.back.op(f"{EVALUATE}torch::autograd::AccumulateGrad"):
                self.back.run("torch::autograd::AccumulateGrad", ACCUMULATE_NS, dims=[list(shape[::-1])])


def job(
    tmp_path: Path,
    *,
    on_device: bool = False,
    reduced: bool = False,
    gathered: bool = False,
    often: int = 1,
    ranks: int = 1,
    trained: int | None = None,
) -> Path:
    """Traces of the program, whose ranks may reduce all gradients of a step, or gather what each block computes.

    Args:
        tmp_path: where the traces go.
        on_device: whether a device computes.
        reduced: whether gradients are reduced behind the passes of a step.
        gathered: whether each block gathers in its forward pass.
        often: how often a step does all of it.
        ranks: ranks of the job.
        trained: ranks that run the program; None: all.
    """
    planned = PlannedJob(ranks) if on_device else PlannedJob(ranks, devices=())
    programs = [Program(*each) for each in zip(planned.scenes, planned.threads, strict=True)][:trained]
    for number in STEPS:
        with planned.step(number):
            for _ in range(often):
                for _ in zip(*(program.step() for program in programs), strict=True):
                    if gathered:
                        planned.collective("_allgather_base", transfer=10_000)
            for rows, columns in PARAMETERS * BLOCKS if reduced else ():
                planned.collective(nelems=rows * columns, transfer=10_000)
    traces = tmp_path / "traces"
    traces.mkdir()
    return planned.write(traces)


def exported(traces: Path, out: Path, *changes: str, **options: object) -> Exported:
    chakra = ChakraOptions(changes=changes, **options)  # type: ignore[arg-type]
    return tracebraid.export(tracebraid.open(traces), out, "chakra", tracebraid.ExportOptions(chakra=chakra))


def nodes_of(out: Path, rank: int) -> pl.DataFrame:
    nodes = tracebraid.chakra.read(out / f"job.{rank}.et").nodes
    return nodes.with_columns(pl.col("name", "type", "step", "kind").cast(pl.String))


def ends_ns(done: Exported) -> int:
    assert done.replay is not None
    ends = [row.replayed_ns for row in done.replay.rows if row.step is None]
    assert None not in ends
    return max(filter(None, ends))


@pytest.mark.parametrize(
    ("stages", "batches", "order"),
    [
        (1, 3, [[0, 1, 2, 3, 4, 5]]),
        (2, 3, [[0, 2, 1, 4, 3, 5], [0, 1, 2, 3, 4, 5]]),
        (3, 2, [[0, 2, 1, 3], [0, 2, 1, 3], [0, 1, 2, 3]]),
        (4, 1, [[0, 1]] * 4),
    ],
)
def test_each_stage_does_as_many_forward_passes_ahead_as_stages_follow(
    stages: int, batches: int, order: list[list[int]]
) -> None:
    """Passes by their number in the order of one stage: forward, backward, forward of the next, and so on."""
    turns = positions_of_passes(stages, batches)
    assert turns.argsort(axis=1).tolist() == order


@pytest.mark.parametrize("detail", list(Detail))
@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("on_device", [False, True], ids=["host", "device"])
def test_a_pipeline_takes_as_long_as_1f1b(
    on_device: bool, stages: int, detail: Detail, tmp_path: Path
) -> None:
    traces = job(tmp_path, on_device=on_device)
    done = exported(traces, tmp_path / "out", f"pipeline 1->{stages}", detail=detail)
    turn_ns = BLOCKS // stages * (FORWARD_NS + BACKWARD_NS)
    expected_ns = len(STEPS) * ((MICRO_BATCHES + stages - 1) * turn_ns + UPDATE_NS / stages)
    # Calls of the host come before the first kernels.
    assert ends_ns(done) == pytest.approx(expected_ns, rel=0.01)
    checked = tracebraid.chakra.check(tmp_path / "out")
    assert checked.findings == ()


def test_work_is_divided_and_messages_go_between_neighbours(tmp_path: Path) -> None:
    traces = job(tmp_path)
    exported(traces, tmp_path / "as_traced")
    exported(traces, tmp_path / "out", "pipeline 1->3")
    passes_ns = len(STEPS) * MICRO_BATCHES * (FORWARD_NS + BACKWARD_NS)
    messages = len(STEPS) * MICRO_BATCHES
    # Of four blocks the first stage has two.
    for rank, (blocks, peers) in enumerate([(2, [1]), (1, [0, 2]), (1, [1])]):
        nodes = nodes_of(tmp_path / "out", rank)
        work = nodes.filter(pl.col("type") == "COMP_NODE").get_column("duration_ns").sum()
        assert work == pytest.approx(blocks * passes_ns + len(STEPS) * UPDATE_NS * blocks / BLOCKS, rel=0.01)
        for kind, column in (("COMM_SEND_NODE", "comm_dst"), ("COMM_RECV_NODE", "comm_src")):
            found = nodes.filter(pl.col("type") == kind)
            assert sorted(found.get_column(column)) == sorted(peers * messages)
            assert set(found.get_column("comm_size")) == {SENT_BYTES}


@pytest.mark.parametrize("detail", list(Detail))
def test_gradients_are_reduced_by_the_replicas_of_a_stage(detail: Detail, tmp_path: Path) -> None:
    traces = job(tmp_path, reduced=True, ranks=2)
    exported(traces, tmp_path / "out", "pipeline 1->2", detail=detail, simulator="astra-sim")
    facts = json.loads((tmp_path / "out" / "export.json").read_text())
    assert [rank["source"] for rank in facts["ranks"]] == [0, 1, 0, 1]
    assert [group["ranks"] for group in facts["groups"]] == [[0, 1], [2, 3]]
    sizes = [4 * rows * columns // 2 for rows, columns in PARAMETERS * BLOCKS]
    for rank in range(4):
        reduced = nodes_of(tmp_path / "out", rank).filter(pl.col("type") == "COMM_COLL_NODE")
        assert reduced.get_column("comm_size").to_list() == sizes * len(STEPS)
        assert set(reduced.get_column("pg_name")) == {str(rank // 2 + 1)}
    assert tracebraid.chakra.check(tmp_path / "out").findings == ()


@pytest.mark.parametrize("on_device", [False, True], ids=["host", "device"])
def test_a_stage_has_the_communication_of_its_blocks(on_device: bool, tmp_path: Path) -> None:
    traces = job(tmp_path, gathered=True, ranks=2, on_device=on_device)
    exported(traces, tmp_path / "out", "pipeline 1->3")
    counts = [
        nodes_of(tmp_path / "out", rank).filter(pl.col("type") == "COMM_COLL_NODE").height
        for rank in range(6)
    ]
    passes = len(STEPS) * MICRO_BATCHES
    # Of four blocks the first stage has two.
    assert counts == [2 * passes, 2 * passes, passes, passes, passes, passes]
    assert tracebraid.chakra.check(tmp_path / "out").findings == ()


def test_one_process_becomes_replicas_of_stages_of_divided_layers(tmp_path: Path) -> None:
    traces = job(tmp_path)
    changes = ("pipeline 1->2", f"data-parallel 1->2 {GIVEN}", f"tensor 1->2 {GIVEN}")
    exported(traces, tmp_path / "out", *changes, simulator="astra-sim")
    facts = json.loads((tmp_path / "out" / "export.json").read_text())
    groups: dict[str, list[list[int]]] = {}
    for group in facts["groups"]:
        groups.setdefault(group["name"], []).append(group["ranks"])
    groups = {name: sorted(ranks) for name, ranks in groups.items()}
    assert groups == {
        "tensor": [[0, 1], [2, 3], [4, 5], [6, 7]],
        "data-parallel": [[0, 2], [1, 3], [4, 6], [5, 7]],
    }
    # Of each parameter a rank has half, and of all blocks a stage does; passes add up the outputs of divided layers.
    parameters = BLOCKS * sum(rows * columns for rows, columns in PARAMETERS)
    sums = [SENT_BYTES] * (len(STEPS) * MICRO_BATCHES * BLOCKS)
    for rank in range(8):
        nodes = nodes_of(tmp_path / "out", rank).filter(pl.col("comm_type") == "ALL_REDUCE")
        sizes = nodes.group_by("pg_name").agg("comm_size").get_column("comm_size").to_list()
        assert sums in sizes
        assert [sum(each) for each in sizes if each != sums] == [len(STEPS) * 4 * parameters // 4]
    peers = [
        nodes_of(tmp_path / "out", rank).get_column("comm_dst").drop_nulls().unique() for rank in range(8)
    ]
    assert [each.to_list() for each in peers] == [[4], [5], [6], [7], [0], [1], [2], [3]]
    assert tracebraid.chakra.check(tmp_path / "out").findings == ()


def test_messages_follow_the_batch(tmp_path: Path) -> None:
    exported(job(tmp_path), tmp_path / "out", "pipeline 1->2", "scale-batch 2")
    sent = nodes_of(tmp_path / "out", 0).filter(pl.col("type") == "COMM_SEND_NODE")
    assert set(sent.get_column("comm_size")) == {2 * SENT_BYTES}


def test_chosen_steps_are_those_of_each_stage(tmp_path: Path) -> None:
    traces = job(tmp_path)
    whole, one = (
        exported(traces, tmp_path / name, "pipeline 1->2", **options)
        for name, options in (("whole", {}), ("one", {"steps": "ProfilerStep#2", "repeat": 2}))
    )
    assert ends_ns(one) * len(STEPS) == pytest.approx(ends_ns(whole), rel=1e-3)
    sent = nodes_of(tmp_path / "one", 0).filter(pl.col("type") == "COMM_SEND_NODE")
    assert sent.height == 2 * MICRO_BATCHES


@pytest.mark.parametrize(
    ("changes", "options", "said"),
    [
        (("pipeline 1->5",), {}, "at most 1->4"),
        (("pipeline 2->4",), {}, "give 1->N"),
        (("pipeline 1->2", "pipeline 1->4"), {}, "both make stages"),
        (("pipeline 1->2",), {"often": 2}, "updated between the passes"),
        (("pipeline 1->2",), {"ranks": 2, "trained": 1}, "ranks 1 have no backward pass"),
    ],
)
def test_what_cannot_be_divided_is_refused(
    changes: tuple[str, ...], options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ArgumentError, match=said):
        exported(job(tmp_path, **options), tmp_path / "out", *changes)
    assert not (tmp_path / "out").exists()
