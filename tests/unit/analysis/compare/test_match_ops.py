"""Ops are matched by where they are called, never by a name alone."""

from __future__ import annotations

import polars as pl
import pytest

from tracebraid.analysis.compare.match_ops import match_ops
from tracebraid.model.answers import MatchedBy

_SCHEMA = {
    "position": pl.Int64,
    "path_id": pl.Int64,
    "module": pl.String,
    "name": pl.String,
    "category": pl.String,
    "input_dims": pl.String,
    "input_types": pl.String,
}


def positions(*rows: tuple[int, str | None, str, str | None]) -> pl.DataFrame:
    """Of each op the path's id, the module, the name and the shapes."""
    found = [
        (number, path, module, name, "cpu_op", dims, None if dims is None else '["float"]')
        for number, (path, module, name, dims) in enumerate(rows)
    ]
    return pl.DataFrame(found, schema=_SCHEMA, orient="row")


def matched(a: pl.DataFrame, b: pl.DataFrame) -> list[tuple[int | None, int | None, str | None]]:
    return match_ops(a, b).rows()


OP = (1, "Linear_0", "aten::mm", "[[2,3]]")


@pytest.mark.parametrize(
    ("other", "level"),
    [
        (OP, MatchedBy.PATH_AND_SHAPES),
        ((1, "Linear_0", "aten::mm", "[[4,3]]"), MatchedBy.PATH),
        ((1, "Projection_0", "aten::mm", "[[2,3]]"), MatchedBy.PATH_OUTSIDE_OF_MODULES),
        ((2, "Linear_0", "aten::mm", "[[2,3]]"), MatchedBy.MODULE_AND_SHAPES),
        ((2, "Projection_0", "aten::mm", "[[2,3]]"), MatchedBy.SHAPES),
    ],
)
def test_an_op_is_matched_at_the_first_level_that_fits(
    other: tuple[int, str, str, str], level: MatchedBy
) -> None:
    assert matched(positions(OP), positions(other)) == [(0, 0, level.value)]


@pytest.mark.parametrize(
    "other",
    [
        (2, "Projection_0", "aten::mm", "[[4,3]]"),
        (2, None, "aten::mm", None),
        (2, "Projection_0", "aten::bmm", "[[2,3]]"),
    ],
)
def test_a_name_alone_or_shapes_alone_match_nothing(other: tuple[int, str | None, str, str | None]) -> None:
    assert matched(positions(OP), positions(other)) == [(None, 0, None), (0, None, None)]


def test_ops_without_shapes_and_modules_are_not_matched_elsewhere() -> None:
    a, b = positions((1, None, "aten::mm", None)), positions((2, None, "aten::mm", None))
    assert matched(a, b) == [(None, 0, None), (0, None, None)]


def test_what_fits_better_is_matched_first_and_each_once() -> None:
    a = positions(OP, (1, "Linear_0", "aten::mm", "[[8,8]]"))
    b = positions((1, "Linear_0", "aten::mm", "[[9,9]]"), OP, OP)
    assert matched(a, b) == [
        (1, 0, MatchedBy.PATH.value),
        (0, 1, MatchedBy.PATH_AND_SHAPES.value),
        (None, 2, None),
    ]
