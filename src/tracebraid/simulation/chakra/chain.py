"""What the end of a run waited for: the chain of nodes from 0 to the last end, without gaps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from tracebraid.model.answers.chakra import CHAKRA_RUN_CHAIN, ChainPart
from tracebraid.simulation.chakra.happened import Happened
from tracebraid.simulation.chakra.play import COLLECTIVE, NEVER, RECEIVE

__all__ = ["chain_of"]


def chain_of(happened: Happened) -> pl.DataFrame:
    """`CHAKRA_RUN_CHAIN` without the network."""
    links = list(_links(happened))
    schema = {name: dtype for name, dtype in CHAKRA_RUN_CHAIN.polars_schema().items() if name != "network"}
    if not links:
        return pl.DataFrame(schema=schema)
    row, duration = (list(column) for column in zip(*links, strict=True))
    parts, names = _parts(happened, row)
    frame = pl.DataFrame(
        {
            "part": parts,
            "name": names,
            "rank": happened.nodes.table.get_column("rank").gather(row),
            "duration_ns": pl.Series(duration, dtype=pl.Int64),
        }
    )
    total = max(sum(duration), 1)
    found = frame.group_by("part", "name").agg(
        pl.len().cast(pl.Int64).alias("nodes"),
        pl.col("duration_ns").sum(),
        (pl.col("duration_ns").sum() / total).alias("share"),
        pl.col("rank").unique().sort().alias("ranks"),
    )
    return found.sort("duration_ns", "part", "name", descending=[True, False, False]).select(list(schema))


def _links(happened: Happened) -> Iterator[tuple[int, int]]:
    """The nodes of the chain from the last end backwards, and the time of each in it."""
    played, role = happened.played, happened.program.role
    if not len(role) or played.end_ns.max() < 0:
        return
    row = int(played.end_ns.argmax())
    end = int(played.end_ns[row])
    while row != NEVER:
        begin = int(played.start_ns[row])
        slot = int(played.slot[row])
        shown = row
        if role[row] in (COLLECTIVE, RECEIVE) and played.last[slot] not in (NEVER, row):
            last = int(played.last[slot])
            if role[row] == COLLECTIVE or played.latest_ns[slot] > begin:
                # What came last is what this waited for.
                row, begin = last, int(played.start_ns[last])
        yield shown, end - begin
        end, row = begin, int(played.cause[row])


def _parts(happened: Happened, rows: list[int]) -> tuple[list[str], list[str]]:
    """The part and the name of each row."""
    at = np.array(rows, dtype=np.int64)
    communicates, is_host, is_compute = (
        part[at] for part in (happened.is_communication, happened.is_host, happened.is_compute)
    )
    names = (
        happened.nodes.table.get_column("name").cast(pl.String).gather(rows).fill_null("").to_numpy().copy()
    )
    names[communicates] = happened.kinds(at[communicates])
    parts = {
        ChainPart.COLLECTIVE: communicates & (happened.meet.group[at] >= 0),
        ChainPart.MESSAGE: communicates,
        ChainPart.HOST: is_host,
        ChainPart.COMPUTE: is_compute,
    }
    found = np.select(list(parts.values()), [part.value for part in parts], ChainPart.OTHER.value)
    return found.tolist(), names.tolist()
