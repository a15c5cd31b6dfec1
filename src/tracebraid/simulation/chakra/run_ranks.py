"""Chakra's traces run on networks: the answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl

from tracebraid.model.answers.chakra import (
    CHAKRA_RUN_CHAIN,
    CHAKRA_RUN_COLLECTIVES,
    CHAKRA_RUN_RANKS,
    CHAKRA_RUN_STEPS,
    CHAKRA_RUN_WAITS,
    CHAKRA_RUNS,
)
from tracebraid.model.chakra.chakra_rank import ChakraRank
from tracebraid.model.chakra.chakra_run import ChakraRun
from tracebraid.model.chakra.network import CollectiveSettings, Lanes, Network
from tracebraid.model.column import Table
from tracebraid.simulation.chakra.chain import chain_of
from tracebraid.simulation.chakra.happened import Happened
from tracebraid.simulation.chakra.meetings import Groups, Meetings, meetings
from tracebraid.simulation.chakra.notes import notes_of
from tracebraid.simulation.chakra.play import play
from tracebraid.simulation.chakra.programs import Hardware, program_of
from tracebraid.simulation.chakra.ranks_nodes import RankNodes, all_nodes
from tracebraid.simulation.chakra.times import collectives_of, ranks_of, steps_of
from tracebraid.simulation.chakra.waits import waits_of

__all__ = ["run_ranks"]


def run_ranks(
    ranks: Iterable[tuple[str, ChakraRank]],
    groups: Groups,
    networks: Sequence[Network],
    settings: CollectiveSettings,
    lanes: Lanes,
) -> ChakraRun:
    """Run ranks on networks, one after another.

    Args:
        ranks: the file and what it holds, of ranks 0, 1, 2, ...
        groups: the process groups.
        networks: at least one.
        settings: how collectives are done.
        lanes: what of a rank can run at once.

    Raises:
        ArgumentError: a network or an algorithm does not fit the job.
        InputError: a node waits for one that is not there, for itself in a circle, names an unknown group or rank.
        MissingLibraryError: numba is not installed.
    """
    nodes = all_nodes(ranks)
    meet = meetings(nodes, groups)
    hardware = [Hardware(network, settings, lanes) for network in networks]
    happened = [_happened(nodes, meet, each) for each in hardware]
    tables = {
        table.name: _together(
            table, [(each.network.name, make(what)) for each, what in zip(hardware, happened, strict=True)]
        )
        for table, make in _TABLES.items()
    }
    notes = notes_of(nodes, networks, lanes)
    return ChakraRun(
        runs=_runs(happened, [network.name for network in networks], tables[CHAKRA_RUN_RANKS.name]),
        ranks=tables[CHAKRA_RUN_RANKS.name],
        steps=tables[CHAKRA_RUN_STEPS.name],
        collectives=tables[CHAKRA_RUN_COLLECTIVES.name],
        chain=tables[CHAKRA_RUN_CHAIN.name],
        waits=tables[CHAKRA_RUN_WAITS.name],
        networks=tuple(networks),
        settings=settings,
        lanes=lanes,
        notes=notes,
    )


_TABLES = {
    CHAKRA_RUN_RANKS: ranks_of,
    CHAKRA_RUN_STEPS: steps_of,
    CHAKRA_RUN_COLLECTIVES: collectives_of,
    CHAKRA_RUN_CHAIN: chain_of,
    CHAKRA_RUN_WAITS: waits_of,
}


def _happened(nodes: RankNodes, meet: Meetings, hardware: Hardware) -> Happened:
    program = program_of(nodes, meet, hardware)
    lanes = int(program.lane.max(initial=-1)) + 1
    return Happened(nodes, meet, program, play(program, lanes, meet.counters, meet.slots))


def _together(table: Table, parts: list[tuple[str, pl.DataFrame]]) -> pl.DataFrame:
    """The same table of several networks."""
    frames = [table.conform(frame.with_columns(pl.lit(name).alias("network"))) for name, frame in parts]
    return pl.concat(frames)


def _runs(happened: Sequence[Happened], names: Sequence[str], ranks: pl.DataFrame) -> pl.DataFrame:
    count = ranks.height // len(names)
    rows: list[dict[str, Any]] = []
    for number, (name, what) in enumerate(zip(names, happened, strict=True)):
        own = ranks[number * count : (number + 1) * count]
        done = what.played.end_ns >= 0
        rows.append(
            {
                "network": name,
                "is_finished": bool(done.all()),
                "end_ns": int(what.played.end_ns.max(initial=0)),
                "compute_ns": _mean(own, "compute_ns"),
                "exposed_communication_ns": _mean(own, "exposed_communication_ns"),
                "speedup": None,
                "nodes": int(np.count_nonzero(done)),
            }
        )
    first = rows[0]
    for row in rows:
        if first["is_finished"] and row["is_finished"] and row["end_ns"]:
            row["speedup"] = first["end_ns"] / row["end_ns"]
    return pl.DataFrame(rows, schema=CHAKRA_RUNS.polars_schema())


def _mean(ranks: pl.DataFrame, column: str) -> int:
    return round(ranks.get_column(column).mean() or 0)  # type: ignore[arg-type]
