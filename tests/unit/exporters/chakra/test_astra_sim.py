"""ASTRA-sim's files say what the network is, and the script tells a run that ended from a deadlock."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tracebraid.errors import ArgumentError, OutputError
from tracebraid.exporters.chakra.astra_sim import (
    RUN_SCRIPT,
    SimulatorOptions,
    SimulatorTraces,
    command_line,
    simulator_files,
    write_simulator_files,
)
from tracebraid.model.chakra.astra_sim_words import GIB_S
from tracebraid.model.chakra.codes import CollectiveCommType
from tracebraid.model.chakra.network import Algorithm, CollectiveSettings, Dimension, Network, Topology

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


def test_the_script_is_content_where_every_rank_finished(tmp_path: Path) -> None:
    write_simulator_files(tmp_path, SimulatorTraces(2, HOSTILE, HOSTILE), SimulatorOptions())
    done = ran(tmp_path, finished(0, 1))
    assert (done.returncode, done.stderr) == (0, "")
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert f"--workload-configuration={HOSTILE}" in arguments
    assert f"--comm-group-configuration={HOSTILE}" in arguments
    assert arguments[-1] == "--extra=1"
    assert not (tmp_path / "broken").exists()


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


def test_a_crash_behind_the_end_of_all_ranks_is_named_and_no_failure(tmp_path: Path) -> None:
    write_simulator_files(tmp_path, SimulatorTraces(2, "job"), SimulatorOptions())
    done = ran(tmp_path, finished(0, 1), 134)
    assert done.returncode == 0
    assert "crashed" in done.stderr


def test_the_script_asks_for_the_binary(tmp_path: Path) -> None:
    write_simulator_files(tmp_path, TRACES, SimulatorOptions())
    done = subprocess.run(
        [tmp_path / RUN_SCRIPT],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "ASTRA_SIM" in done.stderr


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="absent"):
        write_simulator_files(tmp_path / "absent", TRACES, SimulatorOptions())
