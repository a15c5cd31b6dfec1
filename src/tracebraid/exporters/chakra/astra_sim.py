"""What ASTRA-sim needs beside traces: its network, system, memory and logical topology, and the command that runs it.

What each file may say was probed on ASTRA-sim's analytical backend that knows no congestion (docs/chakra_astra_sim.md).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

from tracebraid.errors import ArgumentError
from tracebraid.files import writing
from tracebraid.model.chakra.astra_sim_words import GIB_S, IMPLEMENTATIONS, LEAST_RANKS, TOPOLOGIES
from tracebraid.model.chakra.network import CollectiveSettings, Dimension, Network, Topology

__all__ = [
    "RUN_SCRIPT",
    "SimulatorOptions",
    "SimulatorTraces",
    "command_line",
    "ring_of_examples",
    "simulator_files",
    "write_simulator_files",
]

_LINK_GIB_S = 50.0
_LINK_LATENCY_NS = 500.0
"""Bandwidth and latency of a link in ASTRA-sim's own examples (examples/network/analytical/Ring_4npus.yml)."""
_PEAK_TFLOPS = 900.0
"""`peak-perf` in ASTRA-sim's own examples; read only where the roofline is enabled."""

_NETWORK, _SYSTEM, _MEMORY = "network.yml", "system.json", "memory.json"
_LOGICAL_TOPOLOGY = "logical_topology.json"
RUN_SCRIPT = "run.sh"
"""Name of the script that runs ASTRA-sim and says whether all ranks finished."""
_NAMES = {topology: name for name, topology in TOPOLOGIES.items()}
_LEAST_SIGNAL_CODE = 128
"""Of a shell: a program that ended by signal n has this code and n more."""
_NO_GROUPS = "empty"
"""ASTRA-sim takes any comm-group path that holds this word for none."""


def ring_of_examples() -> Network:
    """A ring of all ranks with the links of ASTRA-sim's own examples: 50 GiB/s, 500 ns."""
    return Network("ring", (Dimension(Topology.RING, _LINK_GIB_S * GIB_S, _LINK_LATENCY_NS),))


@dataclass(frozen=True)
class SimulatorOptions:
    """On what ASTRA-sim is to run the traces.

    Args:
        network: its dimensions, the innermost first.
        settings: how collectives are done.
        replay: whether communication lasts as long as the traces say, on no network; ranks then wait for no other.
        peak_tflops: what a device computes at most, for whoever enables the roofline.
    """

    network: Network = field(default_factory=ring_of_examples)
    settings: CollectiveSettings = field(default_factory=CollectiveSettings)
    replay: bool = False
    peak_tflops: float = _PEAK_TFLOPS


@dataclass(frozen=True)
class SimulatorTraces:
    """The traces that are to be run.

    Args:
        ranks: how many there are.
        prefix: path of the traces without `.RANK.et`, from the folder of the simulator's files.
        comm_groups: path of the comm-group file, from the same folder; None: there are no groups.
    """

    ranks: int
    prefix: str
    comm_groups: str | None = None


def simulator_files(traces: SimulatorTraces, options: SimulatorOptions) -> dict[str, str]:
    """The content of each file, by name.

    Args:
        traces: what is run.
        options: on what.

    Raises:
        ArgumentError: ASTRA-sim cannot run so many ranks on such a network, or would not find the groups.
    """
    counts = _ranks_of_dimensions(traces.ranks, options.network)
    return {
        _NETWORK: _network(options.network, counts),
        _SYSTEM: _json(_system(options, len(counts))),
        _MEMORY: _json({"memory-type": "NO_MEMORY_EXPANSION"}),
        _LOGICAL_TOPOLOGY: _json({"logical-dims": [str(count) for count in counts]}),
        RUN_SCRIPT: _script(traces),
    }


def write_simulator_files(
    folder: Path, traces: SimulatorTraces, options: SimulatorOptions
) -> tuple[Path, ...]:
    """Write them to a folder that is there; the script can be executed.

    Args:
        folder: where to.
        traces: what is run; its paths start in the folder.
        options: on what.

    Returns:
        The files.

    Raises:
        ArgumentError: as `simulator_files` raises it.
        OutputError: a file cannot be written.
    """
    paths = []
    for name, text in simulator_files(traces, options).items():
        path = folder / name
        with writing(path):
            path.write_text(text, encoding="utf-8", newline="\n")
            path.chmod(0o755 if name == RUN_SCRIPT else 0o644)
        paths.append(path)
    return tuple(paths)


def command_line(traces: SimulatorTraces) -> tuple[str, ...]:
    """The options of ASTRA-sim's command, for the folder of its files.

    Args:
        traces: what is run.

    Raises:
        ArgumentError: ASTRA-sim would take the path of the comm-group file for none.
    """
    groups = traces.comm_groups
    if groups is not None and _NO_GROUPS in groups:
        raise ArgumentError(
            f"ASTRA-sim reads no comm-group file whose path holds `{_NO_GROUPS}`, as {groups} does; name it otherwise"
        )
    return (
        f"--workload-configuration={traces.prefix}",
        *(() if groups is None else (f"--comm-group-configuration={groups}",)),
        f"--system-configuration={_SYSTEM}",
        f"--network-configuration={_NETWORK}",
        f"--remote-memory-configuration={_MEMORY}",
        f"--logical-topology-configuration={_LOGICAL_TOPOLOGY}",
    )


def _ranks_of_dimensions(ranks: int, network: Network) -> tuple[int, ...]:
    """How many ranks each dimension has.

    Raises:
        ArgumentError: they are not those of the job, or too few, or there are no dimensions.
    """
    if ranks < LEAST_RANKS:
        raise ArgumentError(
            f"ASTRA-sim simulates {LEAST_RANKS} ranks at least, and this job has {ranks}: let more replicate it "
            "(missing replicate, world size 2)"
        )
    if network.is_measured:
        raise ArgumentError(f"ASTRA-sim needs a network with dimensions, and {network.name} has none")
    known = prod(dimension.ranks for dimension in network.dimensions if dimension.ranks is not None)
    counts = tuple(
        ranks // known if dimension.ranks is None else dimension.ranks for dimension in network.dimensions
    )
    if prod(counts) != ranks or min(counts) < LEAST_RANKS:
        written = " x ".join(map(str, counts))
        raise ArgumentError(
            f"the network's dimensions have {written} ranks, and the job has {ranks}: name dimensions of at least "
            f"{LEAST_RANKS} ranks whose product is {ranks}"
        )
    return counts


def _network(network: Network, counts: tuple[int, ...]) -> str:
    each = network.dimensions
    rows = {
        "topology": [_NAMES[dimension.topology] for dimension in each],
        "npus_count": [str(count) for count in counts],
        "bandwidth": [_number(dimension.bandwidth_bytes_per_ns / GIB_S) for dimension in each],
        "latency": [_number(dimension.latency_ns) for dimension in each],
    }
    units = {"bandwidth": "  # of a link, GiB/s", "latency": "  # of a link, ns"}
    return "".join(f"{name}: [ {', '.join(row)} ]{units.get(name, '')}\n" for name, row in rows.items())


def _number(value: float) -> str:
    """A number without what the conversion of its unit added."""
    return f"{value:.12g}"


def _system(options: SimulatorOptions, dimensions: int) -> dict[str, object]:
    settings = options.settings
    # Of a list that is shorter than the network has dimensions ASTRA-sim silently leaves the other dimensions out.
    implementations = {
        name: [settings.algorithm(kind, dimension).value for dimension in range(dimensions)]
        for name, kind in IMPLEMENTATIONS.items()
    }
    return {
        "scheduling-policy": "LIFO",
        "endpoint-delay": settings.endpoint_delay_ns,
        "active-chunks-per-dimension": settings.active_chunks,
        "preferred-dataset-splits": settings.chunks,
        **implementations,
        "collective-optimization": "localBWAware",
        "local-mem-bw": settings.memory_bytes_per_ns,
        "boost-mode": 0,
        "roofline-enabled": 0,
        "peak-perf": options.peak_tflops,
        "replay-only": int(options.replay),
    }


def _json(content: Mapping[str, object]) -> str:
    return json.dumps(content, indent=4) + "\n"


def _script(traces: SimulatorTraces) -> str:
    """The command, and whether it did all: ASTRA-sim ends with exit code 0 where ranks wait for each other for ever.

    Where a rank is in several groups that are less than all ranks, ASTRA-sim frees an object twice as it ends, and may
    crash then: all ranks have finished, and all results are there.
    """
    options = " \\\n    ".join(shlex.quote(option) for option in command_line(traces))
    return f"""\
#!/bin/sh
# Runs ASTRA-sim, whose binary the environment variable ASTRA_SIM names, on these {traces.ranks} ranks.
# The exit code is 0 only if every rank finished: that of ASTRA-sim is 0 after a deadlock, too.
set -u
cd "$(dirname "$0")" || exit 1
: "${{ASTRA_SIM:?let it name the binary, such as .../bin/AstraSim_Analytical_Congestion_Unaware}}"
"$ASTRA_SIM" \\
    {options} \\
    "$@" > astra_sim.txt 2>&1
code=$?
finished=$(grep -c 'sys\\[[0-9]*\\] finished,' astra_sim.txt)
grep -E 'sys\\[[0-9]*\\] finished,|\\[critical\\]' astra_sim.txt
if [ "$finished" -eq {traces.ranks} ] && ! grep -qF '[critical]' astra_sim.txt; then
    [ "$code" -eq 0 ] && exit 0
    if [ "$code" -gt {_LEAST_SIGNAL_CODE} ]; then
        echo "every rank finished; ASTRA-sim crashed as it freed its memory (exit code $code)" >&2
        exit 0
    fi
fi
echo "exit code $code, $finished of {traces.ranks} ranks finished; astra_sim.txt has all of it" >&2
exit 1
"""
