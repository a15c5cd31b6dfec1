"""`LinkedRanks`: what of all ranks is kept side by side, on aligned clocks, their collectives matched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import FunctionType
from typing import TypeAlias, TypeVar

import polars as pl
from msgspec import Struct

from tracebraid.model.finding import Finding
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.stage import KeptValues

T = TypeVar("T")

Gather: TypeAlias = Callable[[LinkedTrace], pl.DataFrame]
"""Function that gathers a small table from a linked trace: with `rank`, on the rank's own clock."""


def gather_key(gather: Gather) -> str | None:
    """Return the name under which stores keep a gathered table; None of other functions."""
    is_ours = isinstance(gather, FunctionType) and gather.__module__.startswith("tracebraid.")
    return f"gather.{gather.__name__}" if is_ours and gather.__qualname__ == gather.__name__ else None


def gather_of(linked: LinkedTrace, gather: Gather) -> pl.DataFrame:
    """Return the table that a function gathers from a linked trace; a rank may load it from its store."""
    key = gather_key(gather)
    return gather(linked) if key is None else linked.answered(key, gather)


class RankParts(Struct, frozen=True, eq=False):
    """Data of a rank that is kept when its linked trace is released.

    Args:
        facts: a row of `RANKS`.
        members: its rows of `MEMBERS`, on its own clock, not matched.
        gathered: a table of each function that was asked for.
    """

    facts: pl.DataFrame
    members: pl.DataFrame
    gathered: Mapping[Gather, pl.DataFrame] = {}


@dataclass(frozen=True, eq=False)
class LinkedRanks:
    """The ranks of a job, linked with each other.

    Args:
        ranks: `RANKS`.
        clocks: `CLOCKS`.
        members: `MEMBERS`; its times are on aligned clocks.
        collectives: `MATCHED_COLLECTIVES`.
        findings: findings between the ranks.
        parts: the rows of all ranks of each table that was gathered, on the ranks' own clocks.
    """

    ranks: pl.DataFrame
    clocks: pl.DataFrame
    members: pl.DataFrame
    collectives: pl.DataFrame
    findings: tuple[Finding, ...] = ()
    parts: Mapping[Gather, pl.DataFrame] = field(default_factory=dict)
    _derived: KeptValues = field(default_factory=KeptValues, init=False, repr=False)

    def derived(self, compute: Callable[[LinkedRanks], T]) -> T:
        """Return a value derived from members, collectives and clocks, computed on first use and cached."""
        return self._derived.get(compute, partial(compute, self))

    def with_parts(self, parts: Mapping[Gather, pl.DataFrame]) -> LinkedRanks:
        """Return the same ranks with gathered tables."""
        ranks = replace(self, parts=parts)
        # What is derived does not depend on the parts; `replace` makes everything else again.
        object.__setattr__(ranks, "_derived", self._derived)
        return ranks

    def of(self, gather: Gather) -> pl.DataFrame:
        """Return the tables that a function gathered from all ranks, on their own clocks."""
        return self.parts[gather]

    def aligned(self, frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
        """A frame whose times are moved to the reference's clock; of ranks whose offset is unknown they stay."""
        return self._moved(frame, columns, 1)

    def unaligned(self, frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
        """A frame whose times are moved from the reference's clock to those of the ranks: the inverse of `aligned`.

        Where clocks drift against each other, it is right to the drift's square: far less than a ns over hours.
        """
        return self._moved(frame, columns, -1)

    def _moved(self, frame: pl.DataFrame, columns: Sequence[str], sign: int) -> pl.DataFrame:
        clocks = self.clocks.select(
            "rank",
            pl.col("at_ns").fill_null(0).alias("_at"),
            pl.col("offset_ns").fill_null(0).alias("_offset"),
            pl.col("drift_ppm").fill_null(0.0).alias("_drift"),
        )
        # The offset fits into 53 bits as a float, a time on the unix clock does not.
        return (
            frame.join(clocks, on="rank", how="left", maintain_order="left")
            .with_columns(
                pl.col(name)
                + sign
                * (
                    pl.col("_offset").fill_null(0)
                    + (
                        (pl.col(name) - pl.col("_at") - (pl.col("_offset") if sign < 0 else 0))
                        * pl.col("_drift")
                        / 1e6
                    )
                    .round()
                    .cast(pl.Int64)
                    .fill_null(0)
                )
                for name in columns
            )
            .drop("_at", "_offset", "_drift")
        )
