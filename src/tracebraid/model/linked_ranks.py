"""`LinkedRanks`: what of all ranks is kept side by side, on aligned clocks, their collectives matched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import FunctionType
from typing import TypeAlias, TypeVar

import polars as pl

from tracebraid.model.finding import Finding
from tracebraid.model.kept import KeptValues
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["Gather", "LinkedRanks", "RankParts", "gather_key", "gather_of"]

T = TypeVar("T")

Gather: TypeAlias = Callable[[LinkedTrace, str], pl.DataFrame]
"""Takes of a linked trace, whose steps an annotation marks, a small table: with `rank`, on the rank's own clock."""


def gather_key(gather: Gather) -> str | None:
    """The name of what a function of this package takes of a rank, by the usual annotation; None of others."""
    is_ours = isinstance(gather, FunctionType) and gather.__module__.startswith("tracebraid.")
    return f"gather.{gather.__name__}" if is_ours and gather.__qualname__ == gather.__name__ else None


def gather_of(linked: LinkedTrace, gather: Gather, annotation: str) -> pl.DataFrame:
    """What a function takes of a linked trace, which a rank of a store may have already."""
    key = gather_key(gather)
    if key is None or annotation != PROFILER_STEP:
        return gather(linked, annotation)
    return linked.answered(key, lambda unanswered: gather(unanswered, annotation))


@dataclass(frozen=True, eq=False)
class RankParts:
    """What is kept of a rank when its linked trace is released.

    Args:
        facts: a row of `RANKS`.
        members: its rows of `MEMBERS`, on its own clock, not matched.
        gathered: a table of each function that was asked for.
    """

    facts: pl.DataFrame
    members: pl.DataFrame
    gathered: Mapping[Gather, pl.DataFrame] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class LinkedRanks:
    """The ranks of a job, linked with each other.

    Args:
        ranks: `RANKS`.
        clocks: `CLOCKS`.
        members: `MEMBERS`; its times are on aligned clocks.
        collectives: `MATCHED_COLLECTIVES`.
        findings: what was noticed between the ranks.
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
        """What a function makes of the members, collectives and clocks, computed when first asked for, and kept.

        Args:
            compute: a function of a module. It takes nothing from `parts`: these may be others the next time.
        """
        return self._derived.get(compute, partial(compute, self))

    def with_parts(self, parts: Mapping[Gather, pl.DataFrame]) -> LinkedRanks:
        """The same ranks with what was gathered of them."""
        ranks = replace(self, parts=parts)
        # What is derived does not depend on the parts; `replace` makes everything else anew.
        object.__setattr__(ranks, "_derived", self._derived)
        return ranks

    def of(self, gather: Gather) -> pl.DataFrame:
        """What a function gathered of all ranks, on the ranks' own clocks.

        Raises:
            KeyError: the analysis does not name it in `gathers`.
        """
        return self.parts[gather]

    def aligned(self, frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
        """A frame whose times are moved to the reference's clock; of ranks whose offset is unknown they stay.

        Args:
            frame: has `rank`; its rows stay in their order.
            columns: its times, in ns.
        """
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
                + pl.col("_offset").fill_null(0)
                + ((pl.col(name) - pl.col("_at")) * pl.col("_drift") / 1e6)
                .round()
                .cast(pl.Int64)
                .fill_null(0)
                for name in columns
            )
            .drop("_at", "_offset", "_drift")
        )
