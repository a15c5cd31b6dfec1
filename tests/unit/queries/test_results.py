"""What comes out of a query keeps its values, in types that answers have."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from tracebraid.errors import QueryError
from tracebraid.queries.database import Database, QueryLimits, database


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Database]:
    with database(QueryLimits()) as engine:
        engine.open(tmp_path, ())
        engine.define([])
        yield engine


def answer(engine: Database, query: str, limit: int | None = None) -> pl.DataFrame:
    return pl.concat(engine.answer(query, limit))


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("expression", "value", "dtype"),
    [
        ("9223372036854775807::bigint", 2**63 - 1, pl.Int64),
        ("(-9223372036854775808)::bigint", -(2**63), pl.Int64),
        ("sum(9223372036854775807::bigint)", 2**63 - 1, pl.Int64),
        ("sum(1::bigint)", 1, pl.Int64),
        ("1.5", 1.5, pl.Float64),
        ("null::bigint", None, pl.Int64),
        ("null::hugeint", None, pl.Int64),
        ("'infinity'::double", math.inf, pl.Float64),
        ("'a'::enum('a', 'b')", "a", pl.String),
        ("[1::bigint, null]", [1, None], pl.List(pl.Int64)),
        ("{'a': [1]}", {"a": [1]}, pl.Struct({"a": pl.List(pl.Int32)})),
        ("'\u00fc\u2028'", "\u00fc\u2028", pl.String),
        ("true", True, pl.Boolean),
    ],
)
def test_values_and_types(engine: Database, expression: str, value: object, dtype: pl.DataType) -> None:
    frame = answer(engine, f"SELECT {expression} AS x")
    assert (frame.item() if not isinstance(value, list) else frame.item().to_list()) == value
    assert frame.schema["x"] == dtype


@pytest.mark.full
@pytest.mark.slow
def test_a_sum_beyond_64_bits_is_exact(engine: Database) -> None:
    assert int(
        answer(engine, "SELECT sum(x) AS x FROM (SELECT 9223372036854775807 AS x FROM range(2))").item()
    ) == 2 * (2**63 - 1)


@pytest.mark.full
@pytest.mark.slow
def test_nan_stays_nan(engine: Database) -> None:
    assert math.isnan(answer(engine, "SELECT 'nan'::double AS x").item())


@pytest.mark.full
@pytest.mark.slow
def test_columns_of_the_same_name_are_numbered(engine: Database) -> None:
    frame = answer(engine, "SELECT 1 AS a, 2 AS a, 3 AS a_2, 4 AS a")
    assert (frame.columns, frame.row(0)) == (["a", "a_2", "a_2_2", "a_3"], (1, 2, 3, 4))


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize(
    "expression", ["interval 1 day", "[interval 1 day]", "{'a': interval 1 day}", "'101'::bit"]
)
def test_a_type_without_an_equal_is_an_error(engine: Database, expression: str) -> None:
    with pytest.raises(QueryError, match="Cast it"):
        answer(engine, f"SELECT {expression} AS x")


@pytest.mark.full
@pytest.mark.slow
def test_the_first_rows_are_those_of_the_order(engine: Database) -> None:
    assert answer(engine, "SELECT range AS x FROM range(100000) ORDER BY x DESC", 3).get_column(
        "x"
    ).to_list() == [
        99999,
        99998,
        99997,
    ]
