"""From the clock of the reference to all others, over the collectives that they share."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from tracebraid.linking.ranks.clocks.line import (
    ClockLine,
    Differences,
    line_through,
)
from tracebraid.model.collectives.codes import USUAL_DRIFT_PPM

__all__ = ["KnownClock", "clocks_from"]

_ENOUGH = 0.5
"""A clock is compared as soon as clocks that are known take part in this share of its collectives."""

_KNOWN = {
    "unit": pl.Int64,
    "order": pl.Int64,
    "at": pl.Int64,
    "offset": pl.Int64,
    "drift": pl.Float64,
    "least": pl.Float64,
    "most": pl.Float64,
    "free": pl.Float64,
}
"""Of each known clock: its place in the order of comparison, its line, what the offset may be less or more (null: any),
what the drift may be off in ppm."""


@dataclass(frozen=True)
class KnownClock:
    """A clock compared with that of the reference.

    Args:
        line: what is to be added to it.
        collectives: how many that comes from.
    """

    line: ClockLine
    collectives: int


def clocks_from(reference: int, evidence: pl.DataFrame) -> dict[int, KnownClock]:
    """The clocks that are connected with the reference's, without it.

    Of each collective one known clock is compared with: that which was known first. So each clock is compared along
    a path of few others, whose uncertainty it has too.

    Args:
        reference: the unit of the reference.
        evidence: `of_units`.
    """
    found: dict[int, KnownClock] = {}
    known = pl.DataFrame([(reference, 0, 0, 0, 0.0, 0.0, 0.0, 0.0)], schema=_KNOWN, orient="row")
    left = evidence
    while True:
        pairs = _pairs(left, known)
        near = _nearest(pairs, left)
        if not near:
            return found
        for unit, frame in (
            pairs.filter(pl.col("unit").is_in(near)).partition_by("unit", as_dict=True).items()
        ):
            line = _with_doubt_of_others(line_through(_differences(frame)), frame)
            found[unit[0]] = KnownClock(line, frame.height)
        rows = [_row(unit, found[unit].line, len(found) + 1) for unit in near]
        known = pl.concat([known, pl.DataFrame(rows, schema=_KNOWN, orient="row")])
        # A collective whose clocks are all known says nothing more.
        unknown = ~pl.col("unit").is_in(known.get_column("unit").implode())
        left = left.filter(unknown.any().over("collective"))


def _pairs(evidence: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Each unknown clock in each collective, with what a known one says there, on the reference's clock."""
    with_known = evidence.join(known, on="unit", how="left", maintain_order="left")
    by = with_known.filter(pl.col("order").is_not_null())
    moved = [
        (
            pl.col(name)
            + pl.col("offset")
            + ((pl.col(name) - pl.col("at")) * pl.col("drift") / 1e6).round().cast(pl.Int64)
        ).alias(f"known_{name}")
        for name in ("gives_ns", "awaits_ns", "end_ns")
    ]
    doubt = (pl.col("end_ns") - pl.col("at")).abs() * pl.col("free") / 1e6
    first = by.sort("order").unique("collective", keep="first", maintain_order=True)
    first = first.select("collective", *moved, pl.col("least") + doubt, pl.col("most") + doubt, "free")
    others = with_known.filter(pl.col("order").is_null()).select(evidence.columns)
    return others.join(first, on="collective", how="inner", maintain_order="left")


def _nearest(pairs: pl.DataFrame, evidence: pl.DataFrame) -> list[int]:
    """The clocks that are compared next: those that share enough with known ones, else that which shares most."""
    if pairs.is_empty():
        return []
    best = pairs.get_column("ends").min()
    shared = pairs.filter(pl.col("ends") == best).group_by("unit").agg(pl.len().alias("shared"))
    every = evidence.filter(pl.col("ends") == best).group_by("unit").agg(pl.len().alias("every"))
    counts = shared.join(every, on="unit").sort("shared", "unit", descending=[True, False])
    enough = counts.filter(pl.col("shared") >= _ENOUGH * pl.col("every"))
    near: list[int] = (enough if enough.height else counts.head(1)).get_column("unit").sort().to_list()
    return near


def _differences(pairs: pl.DataFrame) -> Differences:
    """What the collectives with the best ends say, within the bounds that all of them set."""
    best = pl.col("ends") == pl.col("ends").min()
    pairs = pairs.with_columns((pl.col("known_end_ns") - pl.col("end_ns")).alias("apart"), best.alias("best"))
    base_ns = int(pairs.filter("best").get_column("apart").min())  # type: ignore[arg-type]
    low = pl.col("known_gives_ns") - pl.col("awaits_ns") - base_ns - pl.col("least")
    high = pl.col("known_awaits_ns") - pl.col("gives_ns") - base_ns + pl.col("most")
    bounds = pairs.select(
        low=low.cast(pl.Float64).fill_null(np.nan), high=high.cast(pl.Float64).fill_null(np.nan)
    )
    return Differences(
        own=pairs.get_column("end_ns").to_numpy(),
        apart=pairs.get_column("apart").to_numpy(),
        trusted=pairs.get_column("best").to_numpy(),
        low=bounds.get_column("low").to_numpy(),
        high=bounds.get_column("high").to_numpy(),
        base_ns=base_ns,
    )


def _with_doubt_of_others(line: ClockLine, pairs: pl.DataFrame) -> ClockLine:
    """The line, whose drift is as uncertain as it is and as those of the clocks that it was compared with are."""
    free = pairs.get_column("free").max()
    if line.drift_low_ppm is None or line.drift_high_ppm is None or not isinstance(free, float):
        return line
    return replace(line, drift_low_ppm=line.drift_low_ppm - free, drift_high_ppm=line.drift_high_ppm + free)


def _row(unit: int, line: ClockLine, order: int) -> tuple[object, ...]:
    """A row of `_KNOWN`."""
    least = None if line.low_ns is None else float(line.offset_ns - line.low_ns)
    most = None if line.high_ns is None else float(line.high_ns - line.offset_ns)
    free = USUAL_DRIFT_PPM
    if line.drift_low_ppm is not None and line.drift_high_ppm is not None:
        free = max(line.drift_ppm - line.drift_low_ppm, line.drift_high_ppm - line.drift_ppm)
    return unit, order, line.at_ns, line.offset_ns, line.drift_ppm, least, most, free
