"""Is a table of an answer one that its readers can work with?"""

from __future__ import annotations

import polars as pl

from tools.fuzz.model import FailureError, FailureKind

__all__ = ["finite", "not_below_0", "require"]


def require(holds: bool, what: str) -> None:
    """Fail where something does not hold.

    Raises:
        FailureError: names it.
    """
    if not holds:
        raise FailureError(FailureKind.INVALID_OUTPUT, what)


def finite(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The table, of which each number is one: NaN and infinity are none.

    Raises:
        FailureError: names the column.
    """
    for column in frame.iter_columns():
        if column.dtype.is_float():
            require(bool(column.drop_nulls().is_finite().all()), f"{name}.{column.name} is not finite")
    return frame


def not_below_0(name: str, frame: pl.DataFrame, *columns: str) -> None:
    """Fail where a number of these columns is below 0.

    Raises:
        FailureError: names the column.
    """
    for column in columns:
        below = frame.get_column(column).drop_nulls() < 0
        require(not below.any(), f"{name}.{column} is below 0 in {below.sum()} rows")
