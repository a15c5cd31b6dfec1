"""What each type of communication becomes, and how its bytes are counted; `docs/chakra_collectives.md` shows it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import polars as pl

from tracebraid.model.chakra.codes import CollectiveCommType, Dialect
from tracebraid.model.collectives.codes import CollectiveType

__all__ = [
    "ASTRA_SIM_LEAST_BYTES",
    "MAPPINGS",
    "ByteRule",
    "Mapping",
    "comm_type_of",
    "least_bytes",
    "size_of_rule",
]

ASTRA_SIM_LEAST_BYTES = 64
"""A smaller message is written as of so many bytes. ASTRA-sim cuts a collective into as many chunks as its system file
says (`preferred-dataset-splits`, 4 in its examples), and never ends an all-gather of fewer bytes than chunks."""


class ByteRule(Enum):
    """How `comm_size` is counted, of the most that any member gives or gets."""

    MESSAGE = "the message: the full input of one rank"
    SHARD = "the shard that one rank gives"
    WHOLE_INPUT = "the full input of one rank, of which each gets a part"
    BUSIEST = "what the busiest rank gives or gets, its own part included"
    LEAST = "the least that a message may have"


@dataclass(frozen=True)
class Mapping:
    """A row of the table.

    Args:
        type: what is communicated.
        comm_type: what it is in Chakra's own schema; None: a send or a receive, which are nodes of their own.
        astra_sim: what ASTRA-sim is given instead.
        rule: how bytes are counted; the same for both.
        why: why ASTRA-sim is given another type; "" where it is the same.
    """

    type: CollectiveType
    comm_type: CollectiveCommType | None
    astra_sim: CollectiveCommType | None
    rule: ByteRule
    why: str = ""


_T, _C, _R = CollectiveType, CollectiveCommType, ByteRule

MAPPINGS: tuple[Mapping, ...] = (
    Mapping(_T.ALL_REDUCE, _C.ALL_REDUCE, _C.ALL_REDUCE, _R.MESSAGE),
    Mapping(_T.ALL_GATHER, _C.ALL_GATHER, _C.ALL_GATHER, _R.SHARD),
    Mapping(_T.REDUCE_SCATTER, _C.REDUCE_SCATTER, _C.REDUCE_SCATTER, _R.WHOLE_INPUT),
    Mapping(_T.ALL_TO_ALL, _C.ALL_TO_ALL, _C.ALL_TO_ALL, _R.BUSIEST),
    Mapping(_T.BROADCAST, _C.BROADCAST, _C.BROADCAST, _R.MESSAGE),
    Mapping(
        _T.REDUCE,
        _C.REDUCE,
        _C.REDUCE_SCATTER,
        _R.MESSAGE,
        "each rank gives what the root lacks: (n - 1) / n of the message pass each link, as in a reduce",
    ),
    Mapping(
        _T.GATHER,
        _C.GATHER,
        _C.ALL_GATHER,
        _R.SHARD,
        "the root gets the same bytes in the same time; the others get them, too",
    ),
    Mapping(
        _T.SCATTER,
        _C.SCATTER,
        _C.REDUCE_SCATTER,
        _R.WHOLE_INPUT,
        "(n - 1) / n of what is scattered leave a rank: of all instead of the root alone",
    ),
    Mapping(_T.BARRIER, _C.BARRIER, _C.ALL_REDUCE, _R.LEAST, "the smallest collective that all wait for"),
    Mapping(_T.SEND, None, None, _R.BUSIEST),
    Mapping(_T.RECEIVE, None, None, _R.BUSIEST),
    Mapping(_T.SEND_RECEIVE, _C.ALL_TO_ALL, _C.ALL_TO_ALL, _R.BUSIEST),
)
"""One row for each `CollectiveType`."""


def comm_type_of(dialect: Dialect) -> dict[str, str]:
    """Chakra's type of each `CollectiveType` that is a collective."""
    found = ((row, row.astra_sim if dialect is Dialect.ASTRA_SIM else row.comm_type) for row in MAPPINGS)
    return {row.type.value: comm_type.name for row, comm_type in found if comm_type is not None}


def least_bytes(dialect: Dialect) -> int:
    """The least that a message may have."""
    return ASTRA_SIM_LEAST_BYTES if dialect is Dialect.ASTRA_SIM else 1


def size_of_rule() -> pl.Expr:
    """Bytes by the rule of `type`; null: unknown, and where there are none to count.

    Columns:
        type: `CollectiveType`.
        in_bytes, out_bytes: what a rank gives and gets: the most of all members.
        group_size: ranks of the group, as the traces have it.
    """
    given, got, size = pl.col("in_bytes"), pl.col("out_bytes"), pl.col("group_size")
    by_rule = {
        ByteRule.MESSAGE: pl.max_horizontal(given, got),
        ByteRule.SHARD: pl.coalesce(given, pl.when(size > 0).then(got // size)),
        ByteRule.WHOLE_INPUT: pl.coalesce(pl.when(given > 0).then(given), got * size),
        ByteRule.BUSIEST: pl.max_horizontal(given, got),
    }
    found = pl.lit(None, dtype=pl.Int64)
    for rule, expression in by_rule.items():
        types = [row.type.value for row in MAPPINGS if row.rule is rule]
        found = pl.when(pl.col("type").is_in(types)).then(expression).otherwise(found)
    return found
