"""Exported jobs are run again: by our replay in their measured times, and by a script of ASTRA-sim."""

from __future__ import annotations

import json
import os
import subprocess
from itertools import count
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

import tracebraid
from tests.captures import CAPTURES
from tests.chakra_nodes import communication_of
from tests.planted import PlannedJob
from tests.planted.chakra_graphs import Made
from tests.planted.chakra_lists import Listed, rank_of
from tracebraid.chakra import (
    Algorithm,
    CollectiveCommType,
    CollectiveSettings,
    Detail,
    Dimension,
    MissingRanks,
    Network,
    NodeDeps,
    ReplayedStep,
    SimulatorOptions,
    Topology,
)
from tracebraid.chakra.exporting import export
from tracebraid.chakra.exporting.astra_sim import (
    RUN_SCRIPT,
    SimulatorTraces,
    command_line,
    for_astra_sim,
    simulator_files,
    write_simulator_files,
)
from tracebraid.chakra.exporting.rank_nodes import rank_nodes
from tracebraid.chakra.exporting.replay import (
    MOST_ERROR_NS,
    MOST_ERROR_SHARE,
    ReplayPart,
    replay_part,
    replayed,
)
from tracebraid.chakra.running.network import GIB_S
from tracebraid.errors import ArgumentError, OutputError
from tracebraid.model.graph import EdgeKind

_EXACT_NS = 0
_TRANSFER_NS, _NOTED_LATE_NS = 3_000_000, 2_000_000


def parts_of(*begins: int, names: tuple[str, ...] = ("reduce", "next")) -> list[ReplayPart]:
    """Ranks with a kernel and all-reduces behind it, which begin at these times and end together."""
    parts = []
    for rank, begin in enumerate(begins):
        made = Made()
        made.host("launch", 0, 10)
        made.work("kernel", 20, begin)
        made.edge(EdgeKind.LAUNCH, "launch", "kernel", 10)
        before = "kernel"
        for number, name in enumerate(names):
            starts = begin if number == 0 else 200 + 50 * number
            made.work(name, starts, 230 + 50 * number, stream=8, kind="communication")
            made.edge(EdgeKind.EVENT_WAIT, before, name)
            before = name
        graph = made.graph()
        nodes = rank_nodes(graph, communication_of(graph), Detail.MERGED)
        parts.append(replay_part(replace(nodes, rank=rank)))
    return parts


def test_ranks_alone_take_their_measured_times() -> None:
    found = replayed(parts_of(100), {}, single_lane=True)
    assert [(row.step, row.measured_ns, row.error_ns) for row in found.rows] == [(None, 280, 0)]
    assert found.is_within


def test_members_wait_for_the_last() -> None:
    """Without knowing the other, each rank lets its transfer last from its own start: the later one moves both."""
    found = replayed(parts_of(100, 160, names=("reduce",)), {}, single_lane=True)
    assert [row.error_ns for row in found.rows] == [60, 0]


def test_what_meets_nobody_never_ends() -> None:
    first, second = parts_of(100, 160)
    short = replace(second, communication=second.communication.head(0))
    found = replayed([first, short], {}, single_lane=True)
    worst = found.worst
    assert worst is not None
    assert (worst.rank, worst.replayed_ns, worst.error_ns, found.is_within) == (0, None, None, False)


@pytest.mark.parametrize(
    ("measured_ns", "error_ns", "is_within"),
    [
        (1_000_000, MOST_ERROR_NS, True),
        (1_000_000, -MOST_ERROR_NS - 1, False),
        (10**9, int(MOST_ERROR_SHARE * 10**9), True),
        (10**9, int(MOST_ERROR_SHARE * 10**9) + 1, False),
    ],
)
def test_the_bound_is_a_time_or_a_share(measured_ns: int, error_ns: int, is_within: bool) -> None:
    assert ReplayedStep(0, None, measured_ns, measured_ns + error_ns).is_within is is_within


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("detail", list(Detail))
@pytest.mark.parametrize(
    "name", ["all_to_all3", "collectives4", "ddp4", "fsdp4", "groups4", "pipeline2", "pipeline4"]
)
def test_captured_jobs_replay_exactly(name: str, detail: Detail, tmp_path: Path) -> None:
    options = tracebraid.chakra.ChakraOptions(detail, allow_alone=True)
    done = tracebraid.export(
        tracebraid.open(CAPTURES / name), tmp_path / "out", "chakra", tracebraid.ExportOptions(chakra=options)
    )
    assert done.replay is not None
    assert {row.error_ns for row in done.replay.rows} == {_EXACT_NS}
    assert {row.rank for row in done.replay.rows} == set(range(int(name[-1])))
    run = tracebraid.chakra.run(
        tmp_path / "out", hardware=tracebraid.chakra.ChakraHardware(lanes="unlimited")
    )
    # Our player reads the same from the files; a send or a collective may take no lane there.
    ends_ns = {row.rank: row.replayed_ns for row in done.replay.rows if row.step is None}
    assert dict(run.ranks.select("rank", "end_ns").iter_rows()) == ends_ns


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks that begin their steps apart: one of them works on after the communication."""
    job = PlannedJob(2, devices=())
    for number in (1, 2, 3):
        with job.step(number):
            job.collective()
            job.compute(300_000 * number, [number % 2])
    return job.write(tmp_path_factory.mktemp("uneven"))


@pytest.mark.parametrize("detail", list(Detail))
@pytest.mark.parametrize(("steps", "unknown"), [("2..3", 0), ("3", 0), ("1,3", 4)])
def test_selected_steps_of_ranks_that_begin_them_apart_replay_exactly(
    uneven: Path, detail: Detail, steps: str, unknown: int, tmp_path: Path
) -> None:
    """Behind a step that is left out nothing is comparable."""
    options = tracebraid.chakra.ChakraOptions(detail, steps=steps)
    done = tracebraid.export(
        tracebraid.open(uneven), tmp_path / "out", "chakra", tracebraid.ExportOptions(chakra=options)
    )
    assert done.replay is not None
    errors_ns = [row.error_ns for row in done.replay.rows]
    assert (errors_ns.count(_EXACT_NS), errors_ns.count(None)) == (len(errors_ns) - unknown, unknown)
    assert done.replay.is_within


@pytest.mark.parametrize("detail", list(Detail))
def test_communication_that_a_busy_host_notes_late_replays_exactly(detail: Detail, tmp_path: Path) -> None:
    """A rank goes on 2 ms before its thread of gloo notes the end; the graph knows, and so must the plan."""
    job = PlannedJob(2, devices=[])
    for number in (1, 2, 3):
        with job.step(number):
            job.compute(100_000)
            late = job.collective(transfer=_TRANSFER_NS)
            job.compute(_TRANSFER_NS)
            job.collective(transfer=_TRANSFER_NS)
        if number == 2:
            (event,) = (event for event in job.scenes[1].events if event.event_id == late.event_ids[1])
            event.dur += _NOTED_LATE_NS
    folder = tmp_path / "job"
    folder.mkdir()
    opened = tracebraid.open(job.write(folder))
    options = tracebraid.chakra.ChakraOptions(detail)
    done = tracebraid.export(opened, tmp_path / "out", "chakra", tracebraid.ExportOptions(chakra=options))
    assert done.replay is not None
    assert {row.error_ns for row in done.replay.rows} == {_EXACT_NS}
    assert len({row.measured_ns for row in done.replay.rows if row.step is not None}) == 1


@pytest.mark.full
def test_ranks_that_replicate_others_replay_exactly(demo: Path, tmp_path: Path) -> None:
    options = tracebraid.chakra.ChakraOptions(Detail.MERGED, missing=MissingRanks.REPLICATE, world_size=4)
    done = tracebraid.export(
        tracebraid.open(demo), tmp_path / "out", "chakra", tracebraid.ExportOptions(chakra=options)
    )
    assert done.replay is not None
    assert np.ptp([row.error_ns for row in done.replay.rows]) == _EXACT_NS
    assert done.replay.is_within


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("detail", list(Detail))
@pytest.mark.parametrize("name", ["groups4", "ddp4"])
def test_replicas_have_the_nodes_of_a_rank_built_for_itself(
    name: str, detail: Detail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a rank that others replicate nodes are built once, and take the peers of each."""
    options = tracebraid.chakra.ChakraOptions(
        detail, missing=MissingRanks.REPLICATE, world_size=16, allow_alone=True
    )
    numbers = count()
    for out in ("shared", "each"):
        job = tracebraid.open(CAPTURES / name, engine="in-process")
        tracebraid.export(job, tmp_path / out, "chakra", tracebraid.ExportOptions(chakra=options))
        monkeypatch.setattr(
            export, "_without_peers", lambda table: table.with_columns(own=pl.lit(next(numbers)))
        )
    shared, each = (
        {path.name: path.read_bytes() for path in (tmp_path / out).glob("*.et")} for out in ("shared", "each")
    )
    assert len(shared) == 16
    assert shared == each


TRACES = SimulatorTraces(4, "../job", "../comm_groups.json")
HOSTILE = '../it\'s $(touch broken) `touch broken`; "x"'


def grid(*ranks: int | None) -> SimulatorOptions:
    shapes = (Topology.FULLY_CONNECTED, Topology.SWITCH, Topology.RING)
    dimensions = tuple(
        Dimension(shape, 25.0 * GIB_S, 10.5, count) for shape, count in zip(shapes, ranks, strict=False)
    )
    return SimulatorOptions(Network("grid", dimensions))


def ran(folder: Path, says: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """The script with a simulator that says and ends so."""
    fake = folder / "fake"
    fake.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > arguments\ncat <<'END'\n{says}\nEND\nexit {code}\n")
    fake.chmod(0o755)
    return subprocess.run(
        [folder / RUN_SCRIPT, "--extra=1"],
        env=os.environ | {"ASTRA_SIM": str(fake)},
        capture_output=True,
        text=True,
        check=False,
    )


def finished(*ranks: int) -> str:
    return "\n".join(f"[workload] [info] sys[{rank}] finished, 193000 cycles, exposed" for rank in ranks)


def test_the_network_is_the_ring_of_astra_sims_examples_where_nothing_is_said() -> None:
    network = simulator_files(TRACES, SimulatorOptions())["network.yml"]
    assert [line.split("  #")[0] for line in network.splitlines()] == [
        "topology: [ Ring ]",
        "npus_count: [ 4 ]",
        "bandwidth: [ 50 ]",
        "latency: [ 500 ]",
    ]


def test_a_dimension_without_a_number_of_ranks_has_those_that_are_left() -> None:
    files = simulator_files(SimulatorTraces(24, "job"), grid(4, None, 2))
    assert "npus_count: [ 4, 3, 2 ]" in files["network.yml"]
    assert "topology: [ FullyConnected, Switch, Ring ]" in files["network.yml"]
    assert "bandwidth: [ 25, 25, 25 ]" in files["network.yml"]
    assert json.loads(files["logical_topology.json"]) == {"logical-dims": ["4", "3", "2"]}


def test_every_dimension_has_an_implementation_of_each_collective() -> None:
    algorithms = {CollectiveCommType.ALL_TO_ALL: (Algorithm.DIRECT, Algorithm.RING)}
    options = SimulatorOptions(grid(2, 2, 2).network, CollectiveSettings(chunks=2, algorithms=algorithms))
    system = json.loads(simulator_files(SimulatorTraces(8, "job"), options)["system.json"])
    assert system["all-to-all-implementation"] == ["direct", "ring", "ring"]
    assert system["all-reduce-implementation"] == ["ring", "ring", "ring"]
    assert system["preferred-dataset-splits"] == 2


@pytest.mark.parametrize(
    ("ranks", "options"),
    [
        (1, SimulatorOptions()),
        (8, grid(3, None)),
        (8, grid(16, None)),
        (8, grid(8, None)),
        (8, grid(4)),
        (8, SimulatorOptions(Network("measured", ()))),
    ],
)
def test_what_astra_sim_would_refuse_is_refused(ranks: int, options: SimulatorOptions) -> None:
    with pytest.raises(ArgumentError, match=str(ranks) if options.network.dimensions else "measured"):
        simulator_files(SimulatorTraces(ranks, "job"), options)


def test_a_path_of_groups_that_astra_sim_takes_for_none_is_refused() -> None:
    with pytest.raises(ArgumentError, match="empty"):
        command_line(SimulatorTraces(4, "job", "../my empty/groups.json"))
    assert not any("comm-group" in option for option in command_line(SimulatorTraces(4, "job")))


@pytest.mark.full
def test_the_script_is_content_where_every_rank_finished(tmp_path: Path) -> None:
    write_simulator_files(tmp_path, SimulatorTraces(2, HOSTILE, HOSTILE), SimulatorOptions())
    done = ran(tmp_path, finished(0, 1))
    assert (done.returncode, done.stderr) == (0, "")
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert f"--workload-configuration={HOSTILE}" in arguments
    assert f"--comm-group-configuration={HOSTILE}" in arguments
    assert arguments[-1] == "--extra=1"
    assert not (tmp_path / "broken").exists()


@pytest.mark.full
@pytest.mark.parametrize(
    ("says", "code"),
    [
        (finished(0), 0),
        (finished(0), 134),
        (finished(0, 1), 1),
        (finished(0, 1) + "\n[system] [critical] warning!", 0),
    ],
)
def test_the_script_fails_where_ranks_wait_for_ever(tmp_path: Path, says: str, code: int) -> None:
    write_simulator_files(tmp_path, SimulatorTraces(2, "job"), SimulatorOptions())
    done = ran(tmp_path, says, code)
    assert done.returncode == 1
    assert "of 2 ranks finished" in done.stderr


@pytest.mark.full
def test_a_crash_behind_the_end_of_all_ranks_is_named_and_no_failure(tmp_path: Path) -> None:
    write_simulator_files(tmp_path, SimulatorTraces(2, "job"), SimulatorOptions())
    done = ran(tmp_path, finished(0, 1), 134)
    assert done.returncode == 0
    assert "crashed" in done.stderr


@pytest.mark.full
def test_the_script_asks_for_the_binary(tmp_path: Path) -> None:
    write_simulator_files(tmp_path, TRACES, SimulatorOptions())
    done = subprocess.run(
        [tmp_path / RUN_SCRIPT], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "ASTRA_SIM" in done.stderr


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="absent"):
        write_simulator_files(tmp_path / "absent", TRACES, SimulatorOptions())


def test_what_moves_bytes_alone_has_a_flop() -> None:
    rank = rank_of([Listed(name) for name in "abcd"])
    costs = [pl.Series("num_ops", [None, 0, 7, None]), pl.Series("tensor_size", [64, 64, 64, None])]
    found = for_astra_sim(replace(rank, nodes=rank.nodes.with_columns(costs)))
    assert found.nodes.get_column("num_ops").to_list() == [1, 1, 7, None]
    assert found.nodes.schema == rank.nodes.schema


def test_each_collective_waits_for_the_one_before_it() -> None:
    """Of two that are ready at once, ASTRA-sim may issue another first than on the other ranks."""
    rank = rank_of([Listed(name) for name in "abcd"])
    kinds = pl.Series("type", ["COMM_COLL_NODE", "COMP_NODE", "COMM_COLL_NODE", "COMM_COLL_NODE"])
    deps = NodeDeps.of_pairs(np.array([0, 1]), np.array([1, 2]), np.arange(4))
    found = for_astra_sim(replace(rank, nodes=rank.nodes.with_columns(kinds), data_deps=deps)).data_deps
    pairs = set(zip(found.node_id.tolist(), found.rows().tolist(), strict=True))
    assert pairs == {(0, 1), (1, 2), (0, 2), (2, 3)}
