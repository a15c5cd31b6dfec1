"""Runs of Chakra traces beside ASTRA-sim's: cycle counts, and speed."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.inputs import DEMO, Given
from benchmarks.measure import ROOT, Row, command
from tests.chakra_jobs import random_job
from tests.chakra_ranks import collective, compute, rank_of
from tracebraid import chakra
from tracebraid.chakra import (
    Algorithm,
    ChakraRank,
    CollectiveCommType,
    CollectiveSettings,
    Detail,
    Dimension,
    Lanes,
    Network,
    NodeDeps,
    SimulatorOptions,
    Topology,
)
from tracebraid.chakra.exporting.astra_sim import RUN_SCRIPT, SimulatorTraces, write_simulator_files
from tracebraid.chakra.job_files import find_chakra_files, read_comm_groups
from tracebraid.chakra.options import ring_of_examples
from tracebraid.chakra.running.meetings import Groups
from tracebraid.chakra.running.run_ranks import run_ranks
from tracebraid.chakra.schema import CHAKRA_NODES

BINARY = "ASTRA_SIM"
"""The environment variable that names the binary."""
_FINISHED = re.compile(r"sys\[(\d+)\] finished, (\d+) cycles, exposed communication (\d+) cycles")
_TIMEOUT_S = 300

Cycles = list[tuple[int, int]]
"""The cycle in which each rank ended, and its exposed communication."""


def astra_sim(
    ranks: Sequence[ChakraRank], groups: Mapping[str, Sequence[int]], options: SimulatorOptions
) -> Cycles | None:
    """Run ASTRA-sim."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, rank in enumerate(ranks):
            chakra.write(folder / f"job.{number}.et", rank)
        (folder / "comm_groups.json").write_text(json.dumps(groups))
        traces = SimulatorTraces(len(ranks), "job", "comm_groups.json" if groups else None)
        write_simulator_files(folder, traces, options)
        done = subprocess.run(
            [f"./{RUN_SCRIPT}"],
            cwd=folder,
            capture_output=True,
            check=False,
            timeout=_TIMEOUT_S,
            env=os.environ,
        )
        text = (folder / "astra_sim.txt").read_text(errors="replace")
    found = {int(rank): (int(cycles), int(exposed)) for rank, cycles, exposed in _FINISHED.findall(text)}
    if done.returncode != 0 or len(found) != len(ranks):
        return None
    return [found[number] for number in range(len(ranks))]


RECORDED = ROOT / "tests/unit/chakra/astra_sim_run_cycles.json"
GIB_S = 2**30 / 1e9
TOPOLOGIES = {"Ring": Topology.RING, "Switch": Topology.SWITCH, "FullyConnected": Topology.FULLY_CONNECTED}
GROUP_ENDPOINT_NS = 25
"""Endpoint delay of the recorded runs of groups."""
SPEED_NODES = 200_000
SPEED_RANKS = (1, 8)
KB = 1024
COLLECTIVE_EVERY = 20
"""Nodes of a speed run from one collective to the next."""

Case = tuple[list[ChakraRank], Mapping[str, tuple[int, ...]], SimulatorOptions]


def _difference(case: Case) -> float:
    """The largest difference of a rank's end, as a share; infinite where ASTRA-sim did not finish."""
    ranks, groups, options = case
    theirs = astra_sim(ranks, groups, options)
    named = [(f"job.{number}.et", rank) for number, rank in enumerate(ranks)]
    ours = run_ranks(named, Groups("", groups), [options.network], options.settings, Lanes.ASTRA_SIM)
    if theirs is None or not ours.is_finished:
        return float("inf")
    rows = ours.ranks.select("end_ns", "not_computing_ns").rows()
    ends: list[float] = [
        max(abs(own - other) / max(other, 1) for own, other in zip(row, cycles, strict=True))
        for row, cycles in zip(rows, theirs, strict=True)
    ]
    return max(ends)


def _golden() -> Case:
    nodes = [compute(0, us=100), collective(1, 0, size=1 << 20), compute(2, 1, us=50)]
    return [rank_of(number, nodes) for number in range(4)], {}, SimulatorOptions()


def _all_ranks(recorded: Mapping[str, list[list[int]]]) -> Iterator[Case]:
    for key, rows in recorded.items():
        topology, algorithm, kind = key.split()
        network = Network("", (_dimension(topology, 50, 500),))
        for ranks, size, _ in rows:
            yield _same([kind, size], ranks), {}, SimulatorOptions(network, _settings(algorithm))


def _dimensions(recorded: Sequence[Any]) -> Iterator[Case]:
    for topologies, ranks, bandwidths, latencies, algorithm, chunks, active, kind, size, _ in recorded:
        network = Network("", tuple(map(_dimension, topologies, bandwidths, latencies, ranks)))
        settings = _settings(algorithm, chunks=chunks, active_chunks=active)
        yield _same([kind, size], prod(ranks)), {}, SimulatorOptions(network, settings)


def _groups(recorded: Sequence[Any]) -> Iterator[Case]:
    for topology, algorithm, groups, kind, size, cycles in recorded:
        named = {str(number): tuple(members) for number, members in enumerate(groups, start=1)}
        of_rank = {rank: name for name, members in named.items() for rank in members}
        nodes = [
            [collective(0, size=size, group=of_rank[rank], comm_type=kind)] for rank in range(len(cycles))
        ]
        network = Network("", (_dimension(topology, 50, 500),))
        settings = _settings(algorithm, endpoint_delay_ns=GROUP_ENDPOINT_NS)
        yield (
            [rank_of(rank, own) for rank, own in enumerate(nodes)],
            named,
            SimulatorOptions(network, settings),
        )


def _random(seed: int) -> Case:
    job = random_job(seed)
    topology = list(TOPOLOGIES)[seed % len(TOPOLOGIES)]
    network = Network("", (_dimension(topology, 50, 500),))
    ranks = [rank_of(rank, own) for rank, own in enumerate(job.ranks)]
    return ranks, job.groups, SimulatorOptions(network)


def _exported() -> Iterator[Case]:
    """The bundled traces, as `export --to chakra` writes them."""
    for detail in Detail:
        with tempfile.TemporaryDirectory() as name:
            words = (
                "export",
                str(DEMO),
                "--to",
                "chakra",
                "--detail",
                detail.value,
                "--simulator",
                "astra-sim",
            )
            folder = Path(name) / "out"
            command([sys.executable, "-m", "tracebraid", *words, "-o", str(folder)])
            yield _written(folder)


def _generated() -> Iterator[Case]:
    """Transformers of 8 and 32 ranks with tensor, pipeline and data parallelism."""
    for words in (("--tensor", "2", "--data", "2"), ("--tensor", "4", "--data", "4")):
        with tempfile.TemporaryDirectory() as name:
            shape = (
                "--layers",
                "8",
                "--hidden",
                "2048",
                "--heads",
                "16",
                "--sequence",
                "2048",
                "--pipeline",
                "2",
            )
            made = ("chakra", "generate", "transformer", *shape, *words, "--micro-batches", "4")
            folder = Path(name) / "out"
            command([sys.executable, "-m", "tracebraid", *made, "-o", str(folder)])
            yield _written(folder)


def _written(folder: Path) -> Case:
    files = find_chakra_files([str(folder)])
    groups = read_comm_groups(files.groups_path) if files.groups_path else {}
    named = {name: tuple(members) for name, members in groups.items()}
    return [chakra.read(file.path) for file in files.files], named, SimulatorOptions()


def _same(what: Sequence[Any], ranks: int) -> list[ChakraRank]:
    kind, size = what
    return [rank_of(rank, [collective(0, size=size, comm_type=kind)]) for rank in range(ranks)]


def _dimension(topology: str, bandwidth: float, latency: float, ranks: int | None = None) -> Dimension:
    return Dimension(TOPOLOGIES[topology], bandwidth * GIB_S, latency, ranks)


def _settings(algorithm: str, **others: Any) -> CollectiveSettings:
    named = {kind: (Algorithm(algorithm),) for kind in CollectiveCommType}
    if algorithm == Algorithm.HALVING_DOUBLING.value:
        named[CollectiveCommType.ALL_TO_ALL] = (Algorithm.RING,)
    return CollectiveSettings(algorithms=named, **others)


def _measured(ranks: int) -> tuple[float, int]:
    """The time of a run, and by how much the most memory grew; a small run compiles before."""
    hardware = (Groups("", {}), [ring_of_examples()], CollectiveSettings(), Lanes.ASTRA_SIM)
    run_ranks([("job.0.et", _long_rank(0, COLLECTIVE_EVERY))], *hardware)
    made = [(f"job.{rank}.et", _long_rank(rank, SPEED_NODES)) for rank in range(ranks)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    run_ranks(made, *hardware)
    taken = time.perf_counter() - begin
    return taken, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * KB


def _long_rank(rank: int, count: int) -> ChakraRank:
    made = np.random.default_rng(rank)
    ids = np.arange(count)
    meets = ids % COLLECTIVE_EVERY == COLLECTIVE_EVERY - 1
    frame = pl.DataFrame({"node_id": ids, "duration_micros": made.integers(1, 50, count)}).with_columns(
        pl.lit("node").alias("name"),
        pl.Series("meets", meets),
        pl.Series("size", 1 << (10 + ids // COLLECTIVE_EVERY % 12)),
    )
    frame = frame.with_columns(
        pl.when("meets").then(pl.lit("COMM_COLL_NODE")).otherwise(pl.lit("COMP_NODE")).alias("type"),
        pl.when("meets").then(pl.lit("ALL_REDUCE")).alias("comm_type"),
        pl.when("meets").then("size").alias("comm_size"),
    )
    nodes = CHAKRA_NODES.conform(frame, fill_missing=True)
    deps = NodeDeps.of_pairs(ids[:-1], ids[1:], ids)
    return ChakraRank(rank, "0.0.4", (), nodes, deps, NodeDeps.none(count))


def chakra_run(given: Given) -> Iterator[Row]:
    """Cycle counts of `chakra run` and of ASTRA-sim, which ASTRA_SIM names, on recorded, random and exported jobs.

    `equal` counts runs whose cycle counts are the same on all ranks, `worst` is the largest difference of a rank's end.
    With `speed`, the time of a run by the number of nodes, and the memory that it took beside the nodes."""
    if given.speed:
        for ranks in SPEED_RANKS:
            seconds, grown = _measured(ranks)
            figures = {"bytes a node": grown / (ranks * SPEED_NODES)}
            yield Row("chakra_run", f"{ranks} x {SPEED_NODES:,} nodes", seconds, figures=figures)
        return
    if BINARY not in os.environ:
        raise SystemExit(f"let {BINARY} name ASTRA-sim's binary")
    recorded = json.loads(RECORDED.read_text())
    groups = {
        "golden": iter([_golden()]),
        "all ranks": _all_ranks(recorded["all_ranks"]),
        "dimensions": _dimensions(recorded["dimensions"]),
        "groups": _groups(recorded["groups"]),
        "random jobs": map(_random, range(given.jobs)),
        "exported": _exported(),
        "generated": _generated(),
    }
    for name, cases in groups.items():
        if given.only is None or name in given.only:
            compared = [_difference(case) for case in cases]
            equal = sum(difference == 0 for difference in compared)
            figures = {"runs": len(compared), "equal": equal, "worst": max(compared)}
            yield Row("chakra_run", name, figures=figures)
