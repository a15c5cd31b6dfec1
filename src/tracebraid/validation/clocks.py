"""Check that the ranks' clocks agree, by their shared collectives."""

from __future__ import annotations

import polars as pl

from tracebraid.model.collectives import SAME_CLOCK_NS
from tracebraid.model.finding import Finding, FindingCase
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.quantities import NS_PER_MS

_SHOWN = 4
"""Clocks that a finding names; the check's ranks have all."""


def clock_findings(clocks: pl.DataFrame, path: str) -> list[Finding]:
    """Findings where a clock is certainly not that of the reference, and where ranks of a host have several."""
    least = pl.col("offset_low_ns").fill_null(-(2**62))
    most = pl.col("offset_high_ns").fill_null(2**62)
    apart = clocks.drop_nulls("offset_ns").filter((least > SAME_CLOCK_NS) | (most < -SAME_CLOCK_NS))
    if apart.is_empty():
        return []
    same = ["host", "at_ns", "offset_ns", "offset_low_ns", "offset_high_ns", "drift_ppm"]
    units = apart.group_by(*same, maintain_order=True).agg(pl.col("rank").sort())
    furthest = units.sort(pl.col("offset_ns").abs(), pl.col("rank").list.first(), descending=[True, False])
    details = {
        "count": units.height,
        "reference": apart.item(0, "reference"),
        "most_ms": abs(furthest.item(0, "offset_ns")) / NS_PER_MS,
        "clocks": _shown(furthest),
    }
    found = [Finding(FindingCode.CLOCKS_DIFFER, path, details=details)]
    return [*found, *_hosts_with_several_clocks(clocks, path)]


def _hosts_with_several_clocks(clocks: pl.DataFrame, path: str) -> list[Finding]:
    """A finding where ranks whose traces name one host have several clocks."""
    several = (
        clocks.drop_nulls(["host", "offset_ns"])
        .group_by("host")
        .agg(pl.col("offset_ns").n_unique().alias("clocks"))
        .filter(pl.col("clocks") > 1)
        .sort("host")
    )
    case = FindingCase.HOST_OF_SEVERAL_CLOCKS
    return [
        Finding(
            FindingCode.CLOCKS_DIFFER,
            path,
            details={"case": case, "host": row["host"], "count": row["clocks"]},
        )
        for row in several.iter_rows(named=True)
    ]


def _shown(units: pl.DataFrame) -> str:
    """The first clocks, each with its ranks, its offset and the interval of that."""
    shown = [_clock(row) for row in units.head(_SHOWN).iter_rows(named=True)]
    return "; ".join([*shown, *(["..."] if units.height > _SHOWN else [])])


def _clock(row: dict[str, object]) -> str:
    ranks, host = row["rank"], row["host"]
    numbers = ", ".join(map(str, ranks[:_SHOWN])) + (", ..." if len(ranks) > _SHOWN else "")  # type: ignore[index,arg-type]
    where = f"ranks {numbers}" if len(ranks) > 1 else f"rank {numbers}"  # type: ignore[arg-type]
    where = where if host is None else f"{host} ({where})"
    offset, low, high = (_ms(row[name]) for name in ("offset_ns", "offset_low_ns", "offset_high_ns"))
    drift = f", {row['drift_ppm']:+.2f} ppm" if row["drift_ppm"] else ""
    return f"{where}: {offset} ms (from {low} to {high}){drift}"


def _ms(ns: object) -> str:
    return f"{ns / NS_PER_MS:+,.3f}" if isinstance(ns, int) else "any"
