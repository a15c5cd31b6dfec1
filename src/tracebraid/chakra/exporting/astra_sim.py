"""Adapt nodes for ASTRA-sim, and write its inputs beside them: network, system, memory, topology, command.

What each file may say was probed on ASTRA-sim's analytical backend that knows no congestion (docs/chakra/run.md).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from math import prod
from pathlib import Path

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracebraid.chakra.codes import NodeType
from tracebraid.chakra.options import SimulatorOptions
from tracebraid.chakra.running.network import (
    GIB_S,
    IMPLEMENTATIONS,
    LEAST_RANKS,
    TOPOLOGIES,
    Network,
)
from tracebraid.chakra.schema import ChakraRank, NodeDeps
from tracebraid.errors import ArgumentError
from tracebraid.files import writing


def for_astra_sim(rank: ChakraRank) -> ChakraRank:
    """Adapt a rank for ASTRA-sim: host work on the compute lane, chained collectives, and at least one FLOP with bytes.

    ASTRA-sim has a lane for nodes with `is_cpu_op`, times them, and fails when it adds up what it did (`Only GPU and
    COMM types are supported`). Without that mark they are run like kernels, one at a time with them: a rank whose host
    works beside its device takes longer than it did. With `Detail.MERGED` none has the mark.

    With its roofline it divides FLOPs by the rate that their share of bytes allows: 0 by 0 if there are bytes alone.
    With one FLOP the time is that of the bytes.

    It has one lane for communication, and collectives meet by the order in which each rank issues them: of two that are
    ready at once the wrong one would be issued forever. Each waits for the one before it, as it would in the lane.
    """
    rank = replace(rank, nodes=rank.nodes.with_columns(_least_num_ops()), data_deps=_chained(rank))
    marked = rank.nodes.get_column("is_cpu_op").sum()
    if not marked:
        return rank
    nodes = rank.nodes.with_columns(pl.lit(None, dtype=pl.Boolean).alias("is_cpu_op"))
    return replace(
        rank, nodes=nodes, attributes=(*rank.attributes, ("host_nodes_in_compute_lane", int(marked)))
    )


def _chained(rank: ChakraRank) -> NodeDeps:
    """Dependencies of nodes; each collective also depends on the previous one."""
    is_collective = pl.col("type") == NodeType.COMM_COLL_NODE.name
    rows = rank.nodes.select(is_collective.alias("found")).to_series().arg_true().to_numpy()
    deps = rank.data_deps
    before = np.concatenate([deps.node_id, rows[:-1].astype(np.int64)])
    after = np.concatenate([deps.rows(), rows[1:].astype(np.int64)])
    return NodeDeps.of_pairs(before, after, rank.nodes.get_column("node_id").to_numpy())


def _least_num_ops() -> pl.Expr:
    moves = (pl.col("tensor_size") > 0) & (pl.col("num_ops").fill_null(0) == 0)
    return pl.when(moves).then(pl.lit(1, dtype=pl.Int64)).otherwise("num_ops").alias("num_ops")


_NETWORK, _SYSTEM, _MEMORY = "network.yml", "system.json", "memory.json"
_LOGICAL_TOPOLOGY = "logical_topology.json"
RUN_SCRIPT = "run.sh"
"""Name of the script that runs ASTRA-sim and says whether all ranks finished."""
_NAMES = {topology: name for name, topology in TOPOLOGIES.items()}
_LEAST_SIGNAL_CODE = 128
"""Exit code base of a shell for signals: 128 + n for signal n."""
_NO_GROUPS = "empty"
"""ASTRA-sim interprets any comm-group path that contains this word as none."""


class SimulatorTraces(Struct, frozen=True):
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
    """The content of each file, by name."""
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
    """Write them to a folder that exists; the script can be executed."""
    paths = []
    for name, text in simulator_files(traces, options).items():
        path = folder / name
        with writing(path):
            path.write_text(text, encoding="utf-8", newline="\n")
            path.chmod(0o755 if name == RUN_SCRIPT else 0o644)
        paths.append(path)
    return tuple(paths)


def command_line(traces: SimulatorTraces) -> tuple[str, ...]:
    """The options of ASTRA-sim's command, for the folder of its files."""
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
    """Return how many ranks each dimension has."""
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
    """Remove rounding errors of a unit conversion from a number."""
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
        "roofline-enabled": int(settings.roofline),
        "peak-perf": settings.peak_tflops,
        "replay-only": int(options.replay),
    }


def _json(content: Mapping[str, object]) -> str:
    return json.dumps(content, indent=4) + "\n"


def _script(traces: SimulatorTraces) -> str:
    """The command, and whether it did all: ASTRA-sim ends with exit code 0 if ranks wait for each other forever.

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
