"""`LinkedRanks` of members that are given row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import polars as pl

import tracebraid
from tracebraid.model.collectives import ClockMethod, CollectiveType, MatchMethod, ranks_listed
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.schema.links import CLOCKS, MATCHED_COLLECTIVES, MEMBERS, RANKS

HOST = "node-0"


def member(
    rank: int, start: int, end: int, collective: int | None = 0, /, **columns: object
) -> dict[str, object]:
    """A row of `MEMBERS`: an all-reduce of the group of two, if nothing else is said."""
    given: dict[str, object] = {
        "type": CollectiveType.ALL_REDUCE.value,
        "process_group": "pg",
        "group_size": 2,
        "library": "NCCL",
        "dtype": "Float",
    }
    return {**given, "rank": rank, "start_ns": start, "end_ns": end, "collective": collective, **columns}


def answers_of_ranks(*names: str) -> Iterator[Callable[..., pl.DataFrame]]:
    """The functions of analyses of jobs, which take linked ranks and options."""
    for name in names:
        (found,) = (analysis for analysis in tracebraid.analyses.catalog() if analysis.name == name)
        yield found.answer


def linked_ranks(
    rows: Sequence[Mapping[str, object]], clocks: Mapping[int, Mapping[str, object]] | None = None
) -> LinkedRanks:
    """The ranks of these members, matched by the collectives that they name.

    Args:
        rows: of `MEMBERS`.
        clocks: columns of `CLOCKS` of a rank; without it a rank is on the host of the reference.
    """
    schema = MEMBERS.polars_schema()
    members = pl.DataFrame(
        [{name: row.get(name) for name in schema} | {"event_id": number} for number, row in enumerate(rows)],
        schema=schema,
    ).sort("rank", "start_ns", "event_id")
    numbers = members.get_column("rank").unique().sort().to_list()
    given = dict(clocks or {})
    shared: Mapping[str, object] = {"host": HOST, "method": ClockMethod.SAME_HOST.value}
    columns = CLOCKS.polars_schema()
    table = pl.DataFrame(
        [{name: {**given.get(rank, shared), "rank": rank}.get(name) for name in columns} for rank in numbers],
        schema=columns,
    )
    return LinkedRanks(RANKS.empty(), table, members, _collectives(members))


def _collectives(members: pl.DataFrame) -> pl.DataFrame:
    every = pl.col("group_ranks").drop_nulls().first()
    found = (
        members.filter(pl.col("collective").is_not_null())
        .group_by("collective")
        .agg(
            pl.col("process_group").first().alias("group"),
            pl.col("type").first(),
            pl.col("dtype").first(),
            pl.col("group_size").max(),
            pl.col("rank").sort().alias("ranks"),
            every,
        )
        .sort("collective")
    )
    rows = ranks_listed(found).with_columns(
        pl.col("group_ranks").list.set_difference("ranks").alias("missing"),
        pl.lit(MatchMethod.GROUP_SEQUENCE.value).alias("method"),
        pl.lit(1.0).alias("confidence"),
        pl.lit(value=True).alias("agrees"),
    )
    return MATCHED_COLLECTIVES.conform(rows, fill_missing=True)
