"""What each collective says about the clocks that take part: who waits for whom, and when that ended."""

from __future__ import annotations

import polars as pl

from tracebraid.model.collectives.codes import BETWEEN_TWO, CollectiveType
from tracebraid.model.expressions import as_text

__all__ = ["ENDS_APART", "ENDS_TOGETHER", "evidence_of", "of_units"]

ENDS_TOGETHER, ENDS_APART = 0, 1
"""How well the ends of a collective agree: on all ranks within a few µs; roughly."""

_TYPE = CollectiveType
_WAIT_FOR_ALL = (
    _TYPE.ALL_REDUCE,
    _TYPE.ALL_GATHER,
    _TYPE.REDUCE_SCATTER,
    _TYPE.ALL_TO_ALL,
    _TYPE.BARRIER,
)
_EVIDENCE = {
    "rank": pl.Int64(),
    "collective": pl.Int64(),
    "ends": pl.Int32(),
    "gives_ns": pl.Int64(),
    "awaits_ns": pl.Int64(),
    "end_ns": pl.Int64(),
}
_NOTHING = r"(^|[\[, ])0+([,\] ]|$)"
"""A split that has nothing for some rank, which then is not waited for."""


def evidence_of(members: pl.DataFrame, collectives: pl.DataFrame, ranks: pl.DataFrame) -> pl.DataFrame:
    """The matched members: rank, collective, ends (how well they agree), gives_ns, awaits_ns, end_ns.

    What a root alone gives or gets is left out: others leave it early. So is what may be of any of several groups,
    where the trace does not say of which: matched by order alone, it may be of groups that never met.

    No member's `awaits_ns` is before the `gives_ns` of any other member of the collective, by one clock: a collective
    ends on no rank that waits for others before those have started. Null where a member gives or awaits nothing.

    Args:
        members: `MEMBERS`, matched, on their own clocks.
        collectives: `MATCHED_COLLECTIVES`.
        ranks: `RANKS`.
    """
    if collectives.is_empty():
        return pl.DataFrame(schema=_EVIDENCE)
    kinds = collectives.select("collective", pl.col("type").alias("matched_type"), "agrees")
    grouped = pl.any_horizontal(pl.col("communicator", "process_group", "group_ranks").is_not_null())
    groups = ranks.select("rank", pl.col("groups").fill_null(0))
    found = (
        members.drop_nulls("collective")
        .join(groups, on="rank", how="inner", maintain_order="left")
        .filter(grouped | (pl.col("groups") <= 1))
        .join(kinds, on="collective", how="left", maintain_order="left")
    )
    kind, own = pl.coalesce("matched_type", "type"), pl.coalesce("type", "matched_type")
    uneven = (kind == _TYPE.ALL_TO_ALL.value) & _any(as_text("in_split", "out_split").str.contains(r"\d"))
    partial = uneven & _any(as_text("in_split", "out_split").str.contains(_NOTHING))
    doubtful = ~pl.col("agrees").fill_null(value=True) & ~uneven
    all_wait = _is(kind, _WAIT_FOR_ALL) & ~partial & ~doubtful
    gives, awaits = (all_wait | (own == kind_of.value) for kind_of in (_TYPE.SEND, _TYPE.RECEIVE))
    apart = uneven | doubtful | _is(kind, BETWEEN_TWO)
    return found.filter(_is(kind, (*_WAIT_FOR_ALL, *BETWEEN_TWO))).select(
        "rank",
        "collective",
        pl.when(apart).then(ENDS_APART).otherwise(ENDS_TOGETHER).alias("ends"),
        pl.when(gives).then("start_ns").alias("gives_ns"),
        pl.when(awaits).then("end_ns").alias("awaits_ns"),
        "end_ns",
    )


def of_units(evidence: pl.DataFrame, unit_of: pl.DataFrame) -> pl.DataFrame:
    """The evidence of each collective and unit, a unit being ranks that share a clock, in which several take part.

    Args:
        evidence: what `evidence_of` gives.
        unit_of: rank, unit.
    """
    units = (
        evidence.join(unit_of, on="rank", how="inner")
        .group_by("collective", "unit")
        .agg(
            pl.col("ends").max(),
            pl.col("gives_ns").max(),
            pl.col("awaits_ns").min(),
            # The middle of several, without the rounding of a float.
            (pl.col("end_ns").min() + ((pl.col("end_ns") - pl.col("end_ns").min()).median()).cast(pl.Int64)),
        )
    )
    return units.filter(pl.len().over("collective") > 1).sort("collective", "unit")


def _any(flags: pl.Expr) -> pl.Expr:
    return pl.any_horizontal(flags.fill_null(value=False))


def _is(kind: pl.Expr, types: tuple[CollectiveType, ...]) -> pl.Expr:
    return kind.is_in([each.value for each in types]).fill_null(value=False)
