"""Which ranks share a clock: those of one host, unless collectives say that they do not."""

from __future__ import annotations

import polars as pl

from tracebraid.linking.ranks.clocks.evidence import of_units
from tracebraid.linking.ranks.clocks.propagation import clocks_from
from tracebraid.model.collectives.codes import SAME_CLOCK_NS

__all__ = ["units_of"]


def units_of(ranks: pl.DataFrame, evidence: pl.DataFrame) -> pl.DataFrame:
    """Each rank with the lowest rank that has its clock: rank, unit.

    Hosts of several containers or networks can have the same name. They are told apart where a collective ended on a
    rank before another one of its host had begun it.

    Args:
        ranks: `RANKS`.
        evidence: `evidence_of`.
    """
    unit = pl.when(pl.col("host").is_null()).then("rank").otherwise(pl.col("rank").min().over("host"))
    by_host = ranks.select("rank", unit.alias("unit"))
    if evidence.is_empty():
        return by_host
    split = [_by_clock(evidence, host) for host in _contradicted(by_host, evidence)]
    if not split:
        return by_host
    others = pl.concat(split)
    return by_host.update(others, on="rank").sort("rank")


def _contradicted(unit_of: pl.DataFrame, evidence: pl.DataFrame) -> list[pl.DataFrame]:
    """The hosts, each with its ranks, of which a rank ended a collective before another had begun it."""
    gap = pl.col("gives_ns").max() - pl.col("awaits_ns").min()
    units = (
        evidence.join(unit_of, on="rank", how="inner")
        .group_by("collective", "unit")
        .agg(gap.alias("gap_ns"))
        .filter(pl.col("gap_ns") > SAME_CLOCK_NS)
        .get_column("unit")
        .unique()
    )
    return unit_of.filter(pl.col("unit").is_in(units.implode())).partition_by("unit", maintain_order=True)


def _by_clock(evidence: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """The ranks of a host: those that can have the clock of its lowest rank together, the others by their offsets."""
    ranks = host.get_column("rank").sort()
    own = evidence.filter(pl.col("rank").is_in(ranks.implode()))
    found = clocks_from(int(ranks[0]), of_units(own, host.select("rank", pl.col("rank").alias("unit"))))
    apart = []
    for rank, clock in found.items():
        low, high = clock.line.low_ns, clock.line.high_ns
        may_be = (low is None or low <= SAME_CLOCK_NS) and (high is None or high >= -SAME_CLOCK_NS)
        if not may_be:
            apart.append((clock.line.offset_ns, rank))
    unit_of = dict.fromkeys(ranks.to_list(), int(ranks[0]))
    group: list[tuple[int, int]] = []
    for offset, rank in sorted(apart):
        group = (
            [*group, (offset, rank)] if group and offset - group[-1][0] <= SAME_CLOCK_NS else [(offset, rank)]
        )
        lowest = min(member for _, member in group)
        unit_of |= dict.fromkeys((member for _, member in group), lowest)
    return pl.DataFrame({"rank": list(unit_of), "unit": list(unit_of.values())})
