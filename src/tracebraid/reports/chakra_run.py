"""Runs of Chakra's traces, for people: networks, ranks, steps, communication, what the end waited for; and for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import polars as pl
from rich.table import Table
from rich.text import Text

from tracebraid.model.answers.chakra import Waiting
from tracebraid.model.chakra.chakra_run import ChakraRun, ChakraRunNote
from tracebraid.model.chakra.network import Network
from tracebraid.reports.machine import finding_data, rows_data
from tracebraid.reports.names import distinct_names
from tracebraid.reports.terminal import table_of
from tracebraid.reports.text import cell, printable
from tracebraid.reports.units import duration, percent, size

__all__ = ["chakra_run_data", "chakra_run_parts", "chakra_waits_text"]

_SENTENCES = {
    ChakraRunNote.MICROSECONDS: (
        "Work takes whole microseconds, as simulators read them; --lanes streams takes nanoseconds."
    ),
    ChakraRunNote.SHARED_LANE: (
        "Work of several streams shares one lane of compute, as in ASTRA-sim: what ran at once runs one after another, "
        "and times are too long. --lanes streams, or an export with --detail merged, mends that."
    ),
    ChakraRunNote.BROADCAST_REPLAYED: (
        "Broadcasts take the time that the files say, and wait for nobody, as in ASTRA-sim."
    ),
    ChakraRunNote.LIKE_OTHERS: (
        "Some collectives are of kinds that ASTRA-sim does not simulate: they take what a kind takes that moves as "
        "much or more (docs/chakra_run.md)."
    ),
    ChakraRunNote.NO_TIME: "Some communication has no measured time: it takes none.",
    ChakraRunNote.SINGLE_RANK: "There is one rank: its collectives meet nobody. Run all ranks of the job.",
    ChakraRunNote.NO_COLLECTIVES: "There is no communication: no network changes anything.",
    ChakraRunNote.UNNUMBERED_GROUP: (
        "Some collectives are of all ranks without a group's number, and others of groups with one: ASTRA-sim waits "
        "for ever where ranks have issued different numbers of collectives before. Give all ranks a group of their own."
    ),
    ChakraRunNote.MEMORY: "Loads and stores take the time that the files say.",
}
_WHY = {
    Waiting.MEMBER_MISSING.value: "waits for rank {other_rank}, which",
    Waiting.MEMBERS_DISAGREE.value: "met another collective of rank {other_rank}, which",
    Waiting.SEND_MISSING.value: "waits for a send of rank {other_rank}, which",
}
_ADVICE = (
    "Each rank has to issue the collectives of a group in the same order, with the same kind and size, and each "
    "receive needs a send with the same ranks, tag and size. `tracebraid chakra check` finds where ranks differ."
)


def chakra_run_data(found: ChakraRun) -> dict[str, Any]:
    """The answer for JSON."""
    settings = asdict(found.settings)
    settings["algorithms"] = {
        kind.name: [algorithm.value for algorithm in named]
        for kind, named in found.settings.algorithms.items()
    }
    return {
        "is_finished": found.is_finished,
        "lanes": found.lanes.value,
        "networks": [_network_data(network) for network in found.networks],
        "settings": settings,
        "runs": rows_data(found.runs),
        "ranks": rows_data(found.ranks),
        "steps": rows_data(found.steps),
        "collectives": rows_data(found.collectives),
        "chain": rows_data(found.chain),
        "waits": rows_data(found.waits),
        "notes": [note.value for note in found.notes],
        "findings": [finding_data(finding) for finding in found.findings],
    }


def _network_data(network: Network) -> dict[str, Any]:
    dimensions = [{**asdict(part), "topology": part.topology.value} for part in network.dimensions]
    return {"name": network.name, "dimensions": dimensions}


def chakra_run_parts(found: ChakraRun, top: int) -> list[Text | Table]:
    """The texts and tables of an answer: of several networks the first in full, the others in a row each.

    Args:
        found: the answer.
        top: rows of each table.
    """
    first = found.networks[0].name
    title = f" on {printable(first)}" if found.runs.height > 1 else ""
    own = pl.col("network") == first
    steps = found.steps.filter(own, pl.col("rank").is_null())
    return [
        *(Text(_head(found)), Text(""), _runs(found)),
        _ranks(found.ranks.filter(own), top, title),
        *([_steps(steps, top, title)] if steps.height else []),
        _collectives(found.collectives.filter(own), top, title),
        _chain(found.chain.filter(own), top, title),
        *(Text(_SENTENCES[note]) for note in found.notes),
    ]


def chakra_waits_text(found: ChakraRun, top: int) -> str:
    """Who waits for whom where ranks wait for ever, and what to do.

    Args:
        found: the answer.
        top: of the nodes that wait, how many are named.
    """
    lines = []
    for row in found.waits.head(top).iter_rows(named=True):
        name = printable(row["name"])
        if row["other_node_id"] is None:
            other = "has ended"
        else:
            other = f"is at node {row['other_node_id']} ({printable(row['other_name'])}): {row['other_what']}"
        why = _WHY[row["why"]].format(**row)
        where = f"{printable(row['network'])}: " if found.runs.height > 1 else ""
        lines.append(
            f"  {where}rank {row['rank']}, node {row['node_id']} ({name}): {row['what']}: {why} {other}"
        )
    more = found.waits.height - len(lines)
    if more > 0:
        lines.append(f"  and {more:,} more; --json has all")
    nodes = found.waits.select("network", "rank", "node_id").n_unique()
    head = f"ranks wait for ever, at {nodes:,} node{'' if nodes == 1 else 's'}:"
    return "\n".join([head, *lines, f"  {_ADVICE}"])


def _head(found: ChakraRun) -> str:
    ranks = found.ranks.get_column("rank").n_unique()
    what = "ends after" if found.runs["is_finished"][0] else "comes to a halt after"
    counted = "1 rank" if ranks == 1 else f"{ranks:,} ranks"
    ran = f"{counted}, {found.runs['nodes'][0]:,} nodes, lanes of {found.lanes.value}"
    return f"{ran}: {what} {duration(found.end_ns)}."


def _runs(found: ChakraRun) -> Table:
    heads = [
        ("network", "left"),
        ("end", "right"),
        ("compute", "right"),
        ("exposed communication", "right"),
        ("faster", "right"),
    ]
    table = table_of("Networks", heads)
    for row in found.runs.iter_rows(named=True):
        end = duration(row["end_ns"]) if row["is_finished"] else "never"
        times = [duration(row[name]) for name in ("compute_ns", "exposed_communication_ns")]
        faster = "" if row["speedup"] is None else f"{row['speedup']:.3f} x"
        table.add_row(cell(printable(row["network"])), end, *times, faster)
    return table


def _ranks(rows: pl.DataFrame, top: int, title: str) -> Table:
    names = (
        "end_ns",
        "compute_ns",
        "host_ns",
        "communication_ns",
        "exposed_communication_ns",
        "waiting_ns",
        "idle_ns",
    )
    table = _durations(f"By rank{title}", "rank", names)
    for row in rows.head(top).iter_rows(named=True):
        table.add_row(str(row["rank"]), *(duration(row[name]) for name in names))
    return table


def _steps(rows: pl.DataFrame, top: int, title: str) -> Table:
    table = _durations(f"By step{title}", "step", ("start_ns", "end_ns", "duration_ns"))
    for row in rows.head(top).iter_rows(named=True):
        times = [duration(row[name]) for name in ("start_ns", "end_ns", "duration_ns")]
        table.add_row(cell(printable(row["step"])), *times)
    return table


def _collectives(rows: pl.DataFrame, top: int, title: str) -> Table:
    heads = [
        ("kind", "left"),
        *((name, "right") for name in ("count", "nodes", "size", "waiting", "transfer")),
    ]
    table = table_of(f"Communication{title}", heads)
    for row in rows.head(top).iter_rows(named=True):
        counts = (f"{row['count']:,}", f"{row['nodes']:,}", size(row["size_bytes"]))
        table.add_row(row["kind"], *counts, duration(row["waiting_ns"]), duration(row["transfer_ns"]))
    return table


def _chain(rows: pl.DataFrame, top: int, title: str) -> Table:
    heads = [
        ("part", "left"),
        ("name", "left"),
        ("nodes", "right"),
        ("time", "right"),
        ("share", "right"),
        ("ranks", "left"),
    ]
    table = table_of(f"What the end waited for{title}", heads)
    shown = rows.head(top)
    names = distinct_names([printable(name) for name in shown.get_column("name")], _NAME_WIDTH)
    for row, name in zip(shown.iter_rows(named=True), names, strict=True):
        ranks = ", ".join(map(str, row["ranks"][:_RANKS_SHOWN])) + (
            ", ..." if len(row["ranks"]) > _RANKS_SHOWN else ""
        )
        times = (f"{row['nodes']:,}", duration(row["duration_ns"]), percent(row["share"]))
        table.add_row(row["part"], cell(name), *times, ranks)
    return table


_NAME_WIDTH = 60
"""Characters of a name in the chain."""
_RANKS_SHOWN = 4
"""Ranks that a row of the chain names."""


def _durations(title: str, key: str, names: tuple[str, ...]) -> Table:
    heads = [(key, "left"), *((name.removesuffix("_ns").replace("_", " "), "right") for name in names)]
    return table_of(title, heads)
