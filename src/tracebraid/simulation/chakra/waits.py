"""Who waits for whom where a run comes to a halt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from tracebraid.model.answers.chakra import CHAKRA_RUN_WAITS, Waiting
from tracebraid.simulation.chakra.happened import Happened
from tracebraid.simulation.chakra.play import COLLECTIVE, NEVER, RECEIVE

__all__ = ["waits_of"]


def waits_of(happened: Happened) -> pl.DataFrame:
    """`CHAKRA_RUN_WAITS` without the network: what was issued and never ended."""
    played = happened.played
    schema = {name: dtype for name, dtype in CHAKRA_RUN_WAITS.polars_schema().items() if name != "network"}
    stuck = np.flatnonzero((played.start_ns >= 0) & ~happened.done)
    at_rank: dict[int, int] = {}
    rank = happened.nodes.ints("rank")
    for row in stuck.tolist():
        at_rank.setdefault(int(rank[row]), row)
    rows = [line for row in stuck.tolist() for line in _lines(happened, row, at_rank)]
    return pl.DataFrame(rows, schema=schema)


def _lines(happened: Happened, row: int, at_rank: dict[int, int]) -> Iterator[dict[str, Any]]:
    """A line for each rank that a node waits for."""
    played, role = happened.played, happened.program.role
    slot = int(played.slot[row])
    if role[row] == RECEIVE:
        other = int(happened.nodes.ints("comm_src")[row])
        yield _line(happened, row, Waiting.SEND_MISSING, (other, at_rank.get(other, NEVER)))
        return
    differs = int(played.differs[slot])
    if differs != NEVER:
        members = _members(happened, slot)
        signature = happened.program.signature
        for other_row in members:
            if signature[other_row] != signature[row]:
                other = int(happened.nodes.ints("rank")[other_row])
                yield _line(happened, row, Waiting.MEMBERS_DISAGREE, (other, other_row))
        return
    come = {int(happened.nodes.ints("rank")[member]) for member in _members(happened, slot)}
    for other in sorted(set(happened.meet.groups[int(happened.meet.group[row])]) - come):
        yield _line(happened, row, Waiting.MEMBER_MISSING, (other, at_rank.get(other, NEVER)))


def _members(happened: Happened, slot: int) -> list[int]:
    """The nodes that met in a slot."""
    met: list[int] = np.flatnonzero(
        (happened.played.slot == slot) & (happened.program.role == COLLECTIVE)
    ).tolist()
    return met


def _line(happened: Happened, row: int, why: Waiting, other: tuple[int, int]) -> dict[str, Any]:
    node, other_rank, other_row = _named(happened, row), *other
    there = (
        _named(happened, other_row) if other_row != NEVER else {"node_id": None, "name": None, "what": None}
    )
    return {
        **node,
        "why": why.value,
        "other_rank": other_rank,
        **{f"other_{key}": there[key] for key in ("node_id", "name", "what")},
    }


def _named(happened: Happened, row: int) -> dict[str, Any]:
    table = happened.nodes.table
    columns = ("rank", "node_id", "name", "comm_size", "comm_src", "comm_dst", "comm_tag", "pg_name")
    node = table.select(columns)[row].to_dicts()[0]
    kind = happened.kinds(np.array([row]))[0] if happened.is_communication[row] else ""
    if happened.program.role[row] == COLLECTIVE or happened.is_replayed[row]:
        what = f"{kind} of {node['comm_size']} bytes in group {node['pg_name'] or 'of all ranks'}"
    elif kind:
        to = f"from rank {node['comm_src']}" if kind == "RECEIVE" else f"to rank {node['comm_dst']}"
        what = f"{kind} {to}, tag {node['comm_tag']}, {node['comm_size']} bytes"
    else:
        what = "work"
    return {"rank": node["rank"], "node_id": node["node_id"], "name": str(node["name"]), "what": what}
