"""Exports of jobs after changes: as long as `what_if` says, with other sizes, and on other networks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tracebraid
from tests.captures import CAPTURES
from tests.planted import PlannedJob
from tests.planted.synthetic import transformer
from tracebraid.chakra import (
    ChakraHardware,
    ChakraOptions,
    CollectiveSettings,
    Detail,
    Lanes,
    Parallelism,
)
from tracebraid.errors import ArgumentError
from tracebraid.model.graph import Ring
from tracebraid.results import Exported
from tracebraid.simulation.changes.communication import ring_ns

RANKS = 4
PARAMETERS = ((512, 512), (256, 512), (1024, 512), (512, 1024), (128, 128))
PARAMETER_BYTES = tuple(4 * rows * columns for rows, columns in PARAMETERS)
LEFT_BY_TWO = 1 - sum(PARAMETER_BYTES[2:4]) / sum(PARAMETER_BYTES) / 2
DIVIDED_BYTES = tuple(round(size * LEFT_BY_TWO) for size in PARAMETER_BYTES)
ROWS = 64
SUM_BYTES = 4 * ROWS * 512
NETWORK = "ring,1GB/s,5us"
GIVEN = "network=1GB/s,5us"
STEPS = (1, 2, 3)


def exported(traces: Path, out: Path, *changes: str, **options: object) -> Exported:
    """Export a job after changes."""
    chakra = ChakraOptions(changes=changes, **options)  # type: ignore[arg-type]
    return tracebraid.export(tracebraid.open(traces), out, "chakra", tracebraid.ExportOptions(chakra=chakra))


def training(transfers_ns: tuple[int, ...], ranks: int = RANKS) -> PlannedJob:
    """Ranks that multiply by two parameters, accumulate a gradient of each, and may reduce them over gloo."""
    job = PlannedJob(ranks, devices=())
    for number in STEPS:
        with job.step(number):
            for thread in job.threads:
                for (found, given), name in zip(PARAMETERS[2:4], ("gelu", "add"), strict=True):
                    product = [[found], [ROWS, given], [given, found], [], []]
                    thread.run("aten::addmm", 100_000, dims=product)
                    thread.run(f"aten::{name}", 10_000, dims=[[ROWS, found]])
            for shape in PARAMETERS:
                for thread in job.threads:
                    accumulates = "torch::autograd::AccumulateGrad"
                    with thread.op(f"autograd::engine::evaluate_function: {accumulates}", 500):
                        thread.run(accumulates, 1_000, dims=[list(shape)])
            job.compute(200_000)
            for (rows, columns), transfer_ns in zip(PARAMETERS, transfers_ns, strict=False):
                job.collective(nelems=rows * columns, transfer=transfer_ns)
    return job


@pytest.fixture(scope="module")
def of_network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The training job, whose all-reduces take what ASTRA-sim's ring of four lets them take."""
    folder = tmp_path_factory.mktemp("of_network")
    transfers = []
    for number, (rows, columns) in enumerate(PARAMETERS):
        one = PlannedJob(RANKS, devices=())
        with one.step(1):
            one.collective(nelems=rows * columns)
        traces = folder / f"one_{number}"
        traces.mkdir()
        exported(one.write(traces), folder / f"out_{number}")
        ran = tracebraid.chakra.run(folder / f"out_{number}", NETWORK)
        transfers.append(ran.collectives.get_column("transfer_ns").item() // RANKS)
    traces = folder / "traces"
    traces.mkdir()
    return training(tuple(transfers)).write(traces)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks with devices: kernels, and a collective of which one rank is late."""
    job = PlannedJob(2)
    for number in STEPS:
        with job.step(number):
            job.compute(300_000)
            job.compute(100_000 * number, [1])
            job.collective()
            job.compute(200_000)
    return job.write(tmp_path_factory.mktemp("kernels"))


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("detail", list(Detail))
@pytest.mark.parametrize("name", ["ddp4", "fsdp4", "groups4", "pipeline2"])
def test_without_an_effect_nodes_are_those_of_the_traces(name: str, detail: Detail, tmp_path: Path) -> None:
    for out, changes in (("as_traced", ()), ("changed", ("scale 1",))):
        exported(CAPTURES / name, tmp_path / out, *changes, detail=detail, allow_alone=True)
    for rank in range(int(name[-1])):
        traced, changed = (tmp_path / out / f"job.{rank}.et" for out in ("as_traced", "changed"))
        assert traced.read_bytes() == changed.read_bytes()


@pytest.mark.parametrize("detail", list(Detail))
@pytest.mark.parametrize(
    "changes",
    [
        ("scale 0.5 kind=kernel",),
        ("remove name=aten::mm rank=1",),
        ("bandwidth 4",),
        ("defer name=cudaDeviceSynchronize",),
        ("fuse 2 kind=kernel",),
        ("graph-launch kind=kernel",),
        ("as-median rank=1",),
    ],
)
def test_a_changed_job_takes_as_long_as_what_if_says(
    kernels: Path, changes: tuple[str, ...], detail: Detail, tmp_path: Path
) -> None:
    done = exported(kernels, tmp_path / "out", *changes, detail=detail)
    assert done.replay is not None
    assert {row.error_ns for row in done.replay.rows} == {0}
    found = tracebraid.what_if(tracebraid.open(kernels), *changes)
    ends_ns = [row.replayed_ns for row in done.replay.rows if row.step is None]
    assert max(filter(None, ends_ns)) == sum(
        found.steps.filter(pl.col("rank").is_null()).get_column("after_ns")
    )


def replayed_ns(done: Exported) -> int:
    """How long the last rank takes, where the replay is exact."""
    assert done.replay is not None
    assert {row.error_ns for row in done.replay.rows} == {0}
    return max(row.replayed_ns or 0 for row in done.replay.rows if row.step is None)


@pytest.mark.full(keep=8)
@pytest.mark.parametrize("detail", list(Detail))
@pytest.mark.parametrize(
    ("changes", "ranks", "sizes"),
    [
        (("merge 4MB",), RANKS, [sum(PARAMETER_BYTES[:3]), sum(PARAMETER_BYTES[3:])]),
        (("merge 1GB",), RANKS, [sum(PARAMETER_BYTES)]),
        (("merge 1GB", "scale-batch 2"), RANKS, [sum(PARAMETER_BYTES)]),
        (("merge 1GB", "remove kind=communication"), RANKS, []),
        (("offload name=aten::mm",), RANKS, PARAMETER_BYTES),
        ((f"tensor 1->2 {GIVEN}",), 2 * RANKS, [SUM_BYTES, *DIVIDED_BYTES]),
        ((f"tensor 1->2 {GIVEN}", "scale-batch 2"), 2 * RANKS, [2 * SUM_BYTES, *DIVIDED_BYTES]),
        (("scale-batch 2", f"tensor 1->2 {GIVEN}"), 2 * RANKS, [2 * SUM_BYTES, *DIVIDED_BYTES]),
        ((f"tensor 1->2 {GIVEN}", "data-parallel 4->8"), 16, [SUM_BYTES, *DIVIDED_BYTES]),
        ((f"tensor 1->2 {GIVEN}", "merge 1GB"), 2 * RANKS, [SUM_BYTES, sum(DIVIDED_BYTES)]),
        ((f"tensor 1->2 {GIVEN}", "remove kind=communication"), 2 * RANKS, []),
    ],
)
def test_a_job_with_other_communication_takes_as_long_as_what_if_says(
    of_network: Path,
    changes: tuple[str, ...],
    ranks: int,
    sizes: Sequence[int] | None,
    detail: Detail,
    tmp_path: Path,
) -> None:
    done = exported(of_network, tmp_path / "out", *changes, detail=detail)
    found = tracebraid.what_if(tracebraid.open(of_network), *changes)
    assert replayed_ns(done) == sum(found.steps.filter(pl.col("rank").is_null()).get_column("after_ns"))
    assert len(list((tmp_path / "out").glob("job.*.et"))) == ranks
    for rank in (0, ranks - 1):
        nodes = tracebraid.chakra.read(tmp_path / "out" / f"job.{rank}.et").nodes
        of_step = nodes.filter(pl.col("step").cast(pl.String) == f"ProfilerStep#{STEPS[-1]}")
        if sizes is not None:
            assert of_step.get_column("comm_size").drop_nulls().to_list() == list(sizes)


def test_wider_gradients_are_added_up_in_the_same_number_whatever_the_order(of_network: Path) -> None:
    """Each parameter has an all-reduce of its own: their latency stays, on the network that a change gives."""
    changes = (f"data-parallel {RANKS}->16 {GIVEN}", "hidden 512->1024")
    found = [tracebraid.what_if(tracebraid.open(of_network), *order) for order in (changes, changes[::-1])]
    assert found[0].after_ns == found[1].after_ns
    alone = tracebraid.what_if(tracebraid.open(of_network), changes[1])
    wider = [1024 * 1024, 256 * 1024, 2048 * 1024, 1024 * 2048, 128 * 128]
    of_network_ns = len(STEPS) * 2 * 15 * (len(wider) * 5_000 + 4 * sum(wider) / 16)
    transfers = found[0].paths.filter(pl.col("kind") == "transfer").get_column("after_ns").item()
    assert transfers == pytest.approx(of_network_ns, rel=1e-4)
    assert found[0].after_ns > alone.after_ns


def test_ranks_that_divide_one_are_next_to_each_other(of_network: Path, tmp_path: Path) -> None:
    exported(of_network, tmp_path / "out", f"tensor 1->2 {GIVEN}", "data-parallel 4->8")
    facts = json.loads((tmp_path / "out" / "export.json").read_text())
    assert [rank["source"] for rank in facts["ranks"]] == [number // 2 % RANKS for number in range(16)]
    groups = [(group["name"], group["ranks"]) for group in facts["groups"]]
    replicas = [list(range(first, 16, 2)) for first in range(2)]
    assert [ranks for name, ranks in groups if name != "tensor"] == replicas
    assert [ranks for name, ranks in groups if name == "tensor"] == [[n, n + 1] for n in range(0, 16, 2)]


@pytest.mark.parametrize("ranks", [2, 8])
@pytest.mark.parametrize("detail", list(Detail))
def test_a_rank_alone_is_divided_over_a_network(ranks: int, detail: Detail, tmp_path: Path) -> None:
    """Kernels in pairs; the simulator runs the all-reduces behind them on the network that was given."""
    job = PlannedJob(1)
    (scene,), (host,) = job.scenes, job.threads
    for number in STEPS:
        with job.step(number):
            for name, dims in (
                ("aten::mm", [[ROWS, 512], [512, 1024]]),
                ("aten::gelu", [[ROWS, 1024]]),
                ("aten::mm", [[ROWS, 1024], [1024, 512]]),
                ("aten::add", [[ROWS, 512], [ROWS, 512]]),
            ):
                with host.op(name, 1_000, dims=dims):
                    host.launch(scene.stream(7), name, 500_000)
    traces = tmp_path / "traces"
    traces.mkdir()
    change = f"tensor 1->{ranks} {GIVEN}"
    done = exported(job.write(traces), tmp_path / "out", change, detail=detail, simulator="astra-sim")
    predicted_ns = tracebraid.what_if(tracebraid.open(traces), change).after_ns
    assert replayed_ns(done) == pytest.approx(len(STEPS) * predicted_ns, rel=1e-3)
    hardware = ChakraHardware(
        lanes=Lanes.UNLIMITED, settings=CollectiveSettings(chunks=1, endpoint_delay_ns=0)
    )
    ran = tracebraid.chakra.run(tmp_path / "out", NETWORK, hardware=hardware)
    simulated = ran.steps.filter(pl.col("rank").is_null()).get_column("duration_ns").to_list()
    assert simulated == pytest.approx([predicted_ns] * len(STEPS), rel=1e-3)


@pytest.mark.parametrize("detail", list(Detail))
def test_one_process_becomes_replicas_of_divided_layers(detail: Detail, tmp_path: Path) -> None:
    job = training((), ranks=1)
    traces = tmp_path / "traces"
    traces.mkdir()
    changes = (f"data-parallel 1->4 {GIVEN}", f"tensor 1->2 {GIVEN}")
    done = exported(job.write(traces), tmp_path / "out", *changes, detail=detail)
    found = tracebraid.what_if(tracebraid.open(traces), *reversed(changes))
    assert replayed_ns(done) == sum(found.steps.filter(pl.col("rank").is_null()).get_column("after_ns"))
    facts = json.loads((tmp_path / "out" / "export.json").read_text())
    groups: dict[str, list[list[int]]] = {}
    for group in facts["groups"]:
        groups.setdefault(group["name"], []).append(group["ranks"])
    assert groups == {
        "tensor": [[0, 1], [2, 3], [4, 5], [6, 7]],
        "data-parallel": [[0, 2, 4, 6], [1, 3, 5, 7]],
    }
    nodes = tracebraid.chakra.read(tmp_path / "out" / "job.7.et").nodes
    of_step = nodes.filter(pl.col("step").cast(pl.String) == f"ProfilerStep#{STEPS[-1]}")
    # The first parameter fills the first bucket.
    buckets = [PARAMETER_BYTES[0], sum(PARAMETER_BYTES[1:])]
    sizes = [SUM_BYTES, *(round(size * LEFT_BY_TWO) for size in buckets)]
    assert of_step.get_column("comm_size").drop_nulls().to_list() == sizes


def test_a_group_that_is_all_ranks_gets_more(tmp_path: Path) -> None:
    job = PlannedJob(2, devices=())
    for number in STEPS:
        with job.step(number):
            for size in (1, 4):
                for thread in job.threads:
                    thread.run("aten::mm", 50_000, dims=[[size * ROWS, 512], [512, 256]])
                    thread.run("aten::gelu", 10_000, dims=[[size * ROWS, 256]])
                    thread.run("aten::mm", 50_000, dims=[[size * ROWS, 256], [256, 512]])
                job.collective(nelems=size * ROWS * 512, transfer=10_000 + size * 4_000)
    traces = tmp_path / "traces"
    traces.mkdir()
    done = exported(job.write(traces), tmp_path / "out", "tensor 2->8")
    found = tracebraid.what_if(tracebraid.open(traces), "tensor 2->8")
    assert replayed_ns(done) == sum(found.steps.filter(pl.col("rank").is_null()).get_column("after_ns"))
    facts = json.loads((tmp_path / "out" / "export.json").read_text())
    assert [group["ranks"] for group in facts["groups"]] == [list(range(8))]


@pytest.mark.parametrize("replicas", [8, 64])
def test_replicas_take_as_long_as_on_the_network(of_network: Path, replicas: int, tmp_path: Path) -> None:
    """The prediction has a fit to four ranks; the simulator runs each collective of all on the network itself."""
    change = f"data-parallel {RANKS}->{replicas}"
    done = exported(of_network, tmp_path / "out", change)
    assert done.replay is not None
    assert len({row.rank for row in done.replay.rows}) == replicas
    ran = tracebraid.chakra.run(tmp_path / "out", NETWORK, hardware=ChakraHardware(lanes=Lanes.UNLIMITED))
    predicted_ns = tracebraid.what_if(tracebraid.open(of_network), change).after_ns
    simulated = ran.steps.filter(pl.col("rank").is_null()).get_column("duration_ns").to_list()
    assert simulated == pytest.approx([predicted_ns] * len(STEPS), rel=1e-3)


@pytest.mark.parametrize("stages", [2, 4])
def test_stages_take_as_long_as_those_of_a_generated_job(stages: int, tmp_path: Path) -> None:
    """With m micro-batches (m + p - 1) / (m p) of the passes, and 1 / p of the updates, where sends take no time."""
    batches, updates_ns, ends_ns = 4, {}, {}
    for count in (1, stages):
        out = tmp_path / str(count)
        tracebraid.chakra.generate(transformer(Parallelism(pipeline=count, data=2)), out)
        ran = tracebraid.chakra.run(out, "ring,1000000GB/s,0ns")
        ends_ns[count] = ran.runs.get_column("end_ns").item()
        nodes = tracebraid.chakra.read(out / "job.0.et").nodes
        is_update = pl.col("name").cast(pl.String).str.ends_with("/optimizer")
        updates_ns[count] = nodes.filter(is_update).get_column("duration_ns").sum()
    passes_ns = ends_ns[1] - updates_ns[1]
    predicted_ns = passes_ns * (batches + stages - 1) / (batches * stages) + updates_ns[1] / stages
    assert ends_ns[stages] == pytest.approx(predicted_ns, rel=0.05)


@pytest.mark.parametrize("ranks", [4, 8])
def test_divided_layers_take_as_long_as_those_of_a_generated_job(ranks: int, tmp_path: Path) -> None:
    """Work by the number of ranks, and a ring for each all-reduce: as `tensor 2->N` predicts."""
    works_ns, sums, ends_ns = {}, {}, {}
    hardware = ChakraHardware(settings=CollectiveSettings(chunks=1, endpoint_delay_ns=0))
    for count in (2, ranks):
        out = tmp_path / str(count)
        tracebraid.chakra.generate(transformer(Parallelism(tensor=count)), out)
        ran = tracebraid.chakra.run(out, "ring,50GB/s,5us", hardware=hardware)
        ends_ns[count] = ran.runs.get_column("end_ns").item()
        nodes = tracebraid.chakra.read(out / "job.0.et").nodes
        works_ns[count] = nodes.get_column("duration_ns").sum()
        sums[count] = nodes.get_column("comm_size").drop_nulls().to_numpy().astype(np.float64)
    assert sorted(sums[ranks]) == sorted(sums[2])
    added_up_ns = ring_ns(Ring(50e9, 5_000), ranks, sums[2]).sum()
    assert ends_ns[ranks] == pytest.approx(works_ns[2] * 2 / ranks + added_up_ns, rel=0.05)


@pytest.mark.full
@pytest.mark.parametrize(
    ("change", "of_bytes", "of_flops"),
    [
        ("scale-batch 2", 1.0, 2.0),
        ("hidden 64->128", 1.327, 1.6),
        ("layers 2->4", 1.673, 1.8),
    ],
)
def test_sizes_and_flops_follow_the_shape(
    demo: Path, change: str, of_bytes: float, of_flops: float, tmp_path: Path
) -> None:
    totals: dict[str, tuple[int, int]] = {}
    for out, changes in (("as_traced", ()), ("changed", (change,))):
        exported(demo, tmp_path / out, *changes)
        nodes = tracebraid.chakra.read(tmp_path / out / "job.0.et").nodes
        products = nodes.filter(pl.col("name").cast(pl.String).is_in(["aten::mm", "aten::addmm"]))
        totals[out] = (
            int(nodes.get_column("comm_size").sum()),
            int(products.get_column("num_ops").sum()),
        )
    ratios = [new / old for old, new in zip(totals["as_traced"], totals["changed"], strict=True)]
    assert ratios[0] == pytest.approx(of_bytes, rel=0.002)
    assert ratios[1] == pytest.approx(of_flops, rel=0.05)


@pytest.mark.parametrize("lacks", [(), (1,)], ids=["all ranks", "a rank without the others"])
def test_removed_communication_is_not_simulated(lacks: tuple[int, ...], tmp_path: Path) -> None:
    job = PlannedJob(2)
    with job.step(1):
        job.compute(100_000)
        job.collective()
    traces = tmp_path / "traces"
    traces.mkdir()
    job.write(traces, missing=lacks)
    options = {"missing": "shrink", "allow_alone": True}
    communicates = {}
    for out, changes in (("as_traced", ()), ("changed", ("remove kind=communication",))):
        exported(traces, tmp_path / out, *changes, **options)
        nodes = tracebraid.chakra.read(tmp_path / out / "job.0.et").nodes
        communicates[out] = nodes.get_column("comm_type").drop_nulls().len()
    assert communicates == {"as_traced": 1, "changed": 0}


@pytest.mark.parametrize(
    ("changes", "options", "said"),
    [
        (("ranks 8",), {}, "data-parallel"),
        (("data-parallel 4->2",), {}, "ranks are added, not removed"),
        (("data-parallel 2->8",), {}, "groups of 2 of 4 ranks"),
        ((f"tensor 1->2 {GIVEN}",), {"world_size": 9}, "--world-size 9 is no multiple"),
        ((f"tensor 1->2 {GIVEN}", "data-parallel 4->8"), {"world_size": 8}, "a job of 16 ranks"),
        (("data-parallel 4->8",), {"world_size": 16}, "a job of 8 ranks, which is not --world-size 16"),
        (("data-parallel 4->8",), {"missing": "shrink"}, "leaves out those without"),
        (("scale 0.5 name=nothing",), {}, "nothing"),
        (("speed 2",), {}, "there is no change speed"),
    ],
)
def test_changes_that_no_export_shows_are_refused(
    of_network: Path, changes: tuple[str, ...], options: dict[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ArgumentError, match=said):
        exported(of_network, tmp_path / "out", *changes, **options)
    assert not (tmp_path / "out").exists()
