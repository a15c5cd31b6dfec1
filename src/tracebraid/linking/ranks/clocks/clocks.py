"""The offset and drift of each rank's clock against the others, from the ends of matched collectives.

Ranks of a host share a clock. The starts of a collective's members hold who came late; the ends are, but for some µs,
the same moment: offset and drift are a robust line through their differences. No rank ends a collective before all
have started it, and none receives before the other sends: so far the offset can be from that line at most, and no
further is what is stated as its interval.
"""

from __future__ import annotations

import polars as pl

from tracebraid.linking.ranks.clocks.evidence import evidence_of, of_units
from tracebraid.linking.ranks.clocks.propagation import KnownClock, clocks_from
from tracebraid.linking.ranks.clocks.units import units_of
from tracebraid.model.collectives.codes import ClockMethod
from tracebraid.model.schema.ranks import CLOCKS

__all__ = ["clocks_of"]


def clocks_of(members: pl.DataFrame, collectives: pl.DataFrame, ranks: pl.DataFrame) -> pl.DataFrame:
    """The clocks of all ranks: `CLOCKS`. The reference is the lowest rank.

    Args:
        members: `MEMBERS` of all ranks, matched, on their own clocks.
        collectives: `MATCHED_COLLECTIVES`.
        ranks: `RANKS`.
    """
    if ranks.is_empty():
        return CLOCKS.empty()
    evidence = evidence_of(members, collectives, ranks)
    unit_of = units_of(ranks, evidence)
    reference = int(ranks.get_column("rank").min())  # type: ignore[arg-type]
    found: dict[int, KnownClock] = {}
    compared: set[int] = set()
    if not evidence.is_empty():
        units = of_units(evidence, unit_of)
        found = clocks_from(reference, units)
        shared = pl.col("collective").is_in(units.get_column("collective").implode())
        compared = set(evidence.filter(shared).get_column("rank").unique())
    rows = [
        _row((rank, host, start), reference, int(unit), found.get(unit), rank in compared)
        for rank, host, start, unit in ranks.join(unit_of, on="rank", maintain_order="left")
        .select("rank", "host", "start_ns", "unit")
        .iter_rows()
    ]
    return CLOCKS.conform(pl.DataFrame(rows, schema=CLOCKS.polars_schema()).sort("rank"))


def _row(
    facts: tuple[int, str | None, int | None],
    reference: int,
    unit: int,
    clock: KnownClock | None,
    compared: bool,
) -> dict[str, object]:
    """A row of `CLOCKS`."""
    rank, host, start = facts
    row: dict[str, object] = {
        "rank": rank,
        "host": host,
        "reference": reference,
        "collectives": 0,
        "drift_ppm": 0.0,
    }
    if unit == reference:
        method = ClockMethod.REFERENCE if rank == reference else ClockMethod.SAME_HOST
        zero = dict.fromkeys(("offset_ns", "offset_low_ns", "offset_high_ns"), 0)
        return {
            **row,
            **zero,
            "method": method.value,
            "at_ns": start,
            "drift_low_ppm": 0.0,
            "drift_high_ppm": 0.0,
        }
    if clock is None:
        return {**row, "method": ClockMethod.UNKNOWN.value}
    line = clock.line
    return {
        **row,
        "method": (ClockMethod.COLLECTIVES if compared else ClockMethod.SAME_HOST).value,
        "collectives": clock.collectives,
        "at_ns": line.at_ns,
        "offset_ns": line.offset_ns,
        "offset_low_ns": line.low_ns,
        "offset_high_ns": line.high_ns,
        "drift_ppm": line.drift_ppm,
        "drift_low_ppm": line.drift_low_ppm,
        "drift_high_ppm": line.drift_high_ppm,
    }
