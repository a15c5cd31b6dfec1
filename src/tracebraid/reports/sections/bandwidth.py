"""What bandwidth collectives reach, by size, against a fit of latency and bandwidth and against the peak."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.report.parts import Chart, ChartKind, Part
from tracebraid.model.report.run_results import RunResults
from tracebraid.reports.sections.asked import answer_table, frame_of
from tracebraid.reports.units import quantity, size

__all__ = ["bandwidth"]

_POINTS = 500
"""Points of the chart: those with the most time."""
_CURVE_POINTS = 48
"""Points of a fitted curve."""
_COLUMNS = (
    "type size_bytes dtype group_size count transfer_median_ns algorithm_bytes_per_s bus_bytes_per_s peak_share "
    "waiting_share bounds group library algorithm protocol description"
)
_FIT = "type group_size group count sizes alpha_ns beta_bytes_per_s error_share r_squared is_bound library description"
_FORMULA = (
    "Algorithm bandwidth: the size, as nccl-tests counts it, over the median transfer. Bus bandwidth: that times "
    "nccl-tests' factor of the type, such as 2 (n - 1) / n of an all-reduce over n ranks "
    "(https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md); shown where the group's size is known of "
    "all. Curves: transfer = alpha + size / beta, fitted to all transfers of a type and group (analyses "
    "collective_bandwidth, collective_fit). Where a transfer is an upper bound, its bandwidth is a lower bound."
)


def bandwidth(results: RunResults) -> list[Part]:
    """The chart of bandwidth by size, and the table of fits."""
    found = frame_of(results, "collective_bandwidth")
    if found is None:
        return []
    is_bus = found.get_column("bus_bytes_per_s").is_not_null().any()
    value = "bus_bytes_per_s" if is_bus else "algorithm_bytes_per_s"
    points = found.filter(pl.col(value) > 0, pl.col("size_bytes") > 0).sort("transfer_ns", descending=True)
    fits = _fits(results)
    table = answer_table(results, "collective_bandwidth", "Bandwidth of collectives", _COLUMNS.split())
    if points.is_empty():
        return [table, *fits]
    best = points.sort(value, descending=True).row(0, named=True)
    summary = (
        f"The highest is {quantity(best[value])}B/s, of {best['type']} with {size(best['size_bytes'])} each."
    )
    title = "Bus bandwidth by size" if is_bus else "Algorithm bandwidth by size"
    types = points.get_column("type").fill_null("unknown").unique(maintain_order=True).to_list()
    options = {
        "x_unit": "bytes",
        "x_title": "size",
        "unit": "bytes_per_s",
        "size_unit": "ns",
        "title": "bus bandwidth" if is_bus else "algorithm bandwidth",
        "size_title": "transfers together",
        "series": [{"column": name, "name": name.replace("_", " ")} for name in types],
    }
    frames = {"points": _points(points.head(_POINTS), value), "curves": _curves(results, points, value)}
    chart = Chart(
        "collectives-bandwidth", ChartKind.SCATTER, title, summary, frames, options, _FORMULA, table
    )
    return [chart, *fits]


def _points(rows: pl.DataFrame, value: str) -> pl.DataFrame:
    labels = [
        f"{(row['type'] or 'unknown').replace('_', ' ')}, {size(row['size_bytes'])}"
        for row in rows.iter_rows(named=True)
    ]
    notes = [
        f"{row['count']:,} over {row['group_size'] or 'unknown'} ranks"
        + (", a lower bound" if row["bounds"] else "")
        for row in rows.iter_rows(named=True)
    ]
    return rows.select(
        pl.col("size_bytes").alias("x"),
        pl.col(value).alias("y"),
        pl.col("transfer_ns").alias("size"),
        pl.col("type").fill_null("unknown").alias("series"),
        pl.Series("label", labels, dtype=pl.String),
        pl.Series("note", notes, dtype=pl.String),
    )


def _curves(results: RunResults, points: pl.DataFrame, value: str) -> pl.DataFrame:
    """The fits, and the peak where it is known, as points of curves."""
    least, most = points.select(
        pl.col("size_bytes").min().alias("a"), pl.col("size_bytes").max().alias("b")
    ).row(0)
    sizes = np.geomspace(least, max(most, least * 1.01), _CURVE_POINTS)
    frames = [pl.DataFrame(schema={"name": pl.String, "x": pl.Float64, "y": pl.Float64, "series": pl.String})]
    fits = frame_of(results, "collective_fit")
    for fit in [] if fits is None else _drawn(fits).iter_rows(named=True):
        of_type = points.filter(pl.col("type") == fit["type"], pl.col("group") == fit["group"])
        factor = of_type.select((pl.col(value) / pl.col("algorithm_bytes_per_s")).median()).item()
        if factor is None:
            continue
        reached = factor * sizes / (fit["alpha_ns"] / 1e9 + sizes / fit["beta_bytes_per_s"])
        frames.append(_curve("", sizes, reached, fit["type"]))
    peaks = points.select((pl.col("bus_bytes_per_s") / pl.col("peak_share")).median()).item()
    if peaks is not None and value == "bus_bytes_per_s":
        frames.append(_curve(f"peak {quantity(peaks)}B/s", sizes[[0, -1]], np.full(2, peaks), None))
    return pl.concat(frames)


def _drawn(fits: pl.DataFrame) -> pl.DataFrame:
    """The fits that have both a latency and a bandwidth."""
    return fits.filter(
        pl.col("beta_bytes_per_s") > 0, pl.col("alpha_ns").is_not_null(), pl.col("type").is_not_null()
    )


def _curve(name: str, x: NDArray[np.float64], y: NDArray[np.float64], series: str | None) -> pl.DataFrame:
    columns = {"name": [name] * len(x), "x": x, "y": y, "series": [series] * len(x)}
    return pl.DataFrame(columns, schema_overrides={"name": pl.String, "series": pl.String})


def _fits(results: RunResults) -> list[Part]:
    fits = frame_of(results, "collective_fit")
    if fits is None:
        return []
    return [answer_table(results, "collective_fit", "Latency and bandwidth of collectives", _FIT.split())]
