"""Does an answer fit its table, and can it be true at all?"""

from __future__ import annotations

import polars as pl

from tools.fuzz.model import FailureError, FailureKind
from tracebraid.model.column import Column, Kind, Table

__all__ = ["MOMENTS", "judge_table", "same_tables", "wrong"]

_ROUNDING = 1e-9
"""Shares are quotients of floats."""

_SIGNED = frozenset({
    "gap_ns", "after_start_ns", "after_end_ns", "lost_ns", "offset_ns", "offset_low_ns", "offset_high_ns",
    "growth_bytes", "slope_bytes_per_step", "difference_ns", "size_bytes", "allocated_bytes", "reserved_bytes",
    "margin_ns", "others_ns", "gap_before_ns", "gap_after_ns", "op_launch_delay_ns", "runtime_delay_ns",
    "start_bytes", "end_bytes", "alpha_low_ns", "mean_low_ns", "clock_width_ns", "late_by_ns", "lateness_ns",
    "interval_ns", "explained_ns", "explained_share", "mean_interval_ns", "median_interval_ns",
    "p95_interval_ns", "variation", "delay_ns",
})  # fmt: skip
"""Columns that may be below 0: differences, and moments before the clock's beginning."""

_SIGNED_TABLES = frozenset({"step_spread"})
"""Tables whose columns are of such differences in some rows: a gap between steps that overlap."""

MOMENTS = frozenset({
    "start_ns", "end_ns", "ts_ns", "peak_ns", "at_ns", "allocated_ns", "released_ns", "time_ns", "arrival_ns",
    "first_arrival_ns", "last_arrival_ns", "issued_ns",
})  # fmt: skip

_BOUND = "0 to 1"
"""What the documentation says of a column of such shares."""


def wrong(message: str) -> FailureError:
    """An answer that must not be."""
    return FailureError(FailureKind.INVALID_OUTPUT, message)


def judge_table(name: str, table: Table, frame: pl.DataFrame) -> pl.DataFrame:
    """The answer, where it fits its table, and its numbers are finite, no length below 0, no share outside 0 to 1.

    Raises:
        FailureError: it does not, or they are not.
    """
    if dict(frame.schema) != table.polars_schema():
        raise wrong(f"{name}: {frame.schema} is not the schema of {table.name}")
    for column in table.columns if name.partition("(")[0] not in _SIGNED_TABLES else ():
        if column.kind in (Kind.INT, Kind.FLOAT) and column.name not in MOMENTS:
            _judge_numbers(f"{name}.{column.name}", column, frame.get_column(column.name).drop_nulls())
    return frame


def _judge_numbers(where: str, column: Column, values: pl.Series) -> None:
    if values.is_empty():
        return
    if values.dtype == pl.Float64 and not values.is_finite().all():
        raise wrong(f"{where} is {values.filter(~values.is_finite()).item(0)}")
    measured = column.name.endswith(
        ("_ns", "_bytes", "share", "count", "bytes", "flops", "_per_s", "kernels", "calls")
    )
    if measured and column.name not in _SIGNED and float(values.min()) < 0:  # type: ignore[arg-type]
        raise wrong(f"{where} is {values.min()!r}")
    if _BOUND in column.doc and float(values.max()) > 1 + _ROUNDING:  # type: ignore[arg-type]
        raise wrong(f"{where} is {values.max()!r}")


def same_tables(where: str, one: pl.DataFrame, other: pl.DataFrame) -> None:
    """Nothing, where two answers are the same.

    Raises:
        FailureError: they are not.
    """
    if one.schema != other.schema:
        raise wrong(f"{where}: {one.schema} and {other.schema}")
    if not one.equals(other):
        columns = [
            name
            for name in one.columns
            if one.height != other.height or not one[name].equals(other[name], null_equal=True)
        ]
        raise wrong(f"{where}: {one.height} and {other.height} rows, which differ in {columns}")
