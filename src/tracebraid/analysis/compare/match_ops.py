"""Which op of one run is which of the other?"""

from __future__ import annotations

import polars as pl

from tracebraid.model.answers import MatchedBy

__all__ = ["match_ops"]

_ARGUMENTS = ["input_dims", "input_types"]
_LEVELS = {
    MatchedBy.PATH_AND_SHAPES: ["path_id", "module", *_ARGUMENTS],
    MatchedBy.PATH: ["path_id", "module"],
    MatchedBy.PATH_OUTSIDE_OF_MODULES: ["path_id", *_ARGUMENTS],
    MatchedBy.MODULE_AND_SHAPES: ["module", "name", "category", *_ARGUMENTS],
    MatchedBy.SHAPES: ["name", "category", *_ARGUMENTS],
}
"""What must be equal, the most telling first."""

_NEEDED = {MatchedBy.MODULE_AND_SHAPES: "module", MatchedBy.SHAPES: "input_dims"}
"""What must be known: names alone match nothing."""


def match_ops(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    """Pairs of positions of two runs, and those of one run alone: a, b (rows; null: in the other only), matched_by.

    Levels are tried one after the other, each on what is left. Of several equal ones the first is paired with the
    first, in the order in which the runs call them. Rows stand in the order of the second run, then of the first.

    Args:
        a: positions of the first run, see `op_positions`, with `position`.
        b: those of the second.
    """
    left, right = a.rename({"position": "a"}), b.rename({"position": "b"})
    pairs = []
    for level, key in _LEVELS.items():
        needed = _NEEDED.get(level)
        known = pl.col(needed).is_not_null() if needed else pl.lit(value=True)
        nth = pl.int_range(pl.len()).over(key).alias("nth")
        found = (
            left.filter(known)
            .with_columns(nth)
            .join(
                right.filter(known).with_columns(nth).select("b", "nth", *key),
                on=[*key, "nth"],
                how="inner",
                nulls_equal=True,
            )
            .select("a", "b", pl.lit(level.value).alias("matched_by"))
        )
        pairs.append(found)
        left = left.join(found, on="a", how="anti", maintain_order="left")
        right = right.join(found, on="b", how="anti", maintain_order="left")
    none, nothing = pl.lit(None, dtype=pl.Int64), pl.lit(None, dtype=pl.String).alias("matched_by")
    pairs.append(left.select("a", none.alias("b"), nothing))
    pairs.append(right.select(none.alias("a"), "b", nothing))
    return pl.concat(pairs).sort("b", "a", nulls_last=True)
