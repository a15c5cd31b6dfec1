"""Collectives: how long ranks transfer and wait, and what bandwidth they reach."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.quantities import duration, percent, quantity, size
from tracebraid.model.report import Chart, ChartKind, Note, Part, RunResults, Section
from tracebraid.reports.sections.idle import answer_table, frame_of, missing
from tracebraid.reports.sections.memory import different, rank_label

_POINTS = 500
"""Maximum points of the chart: those with the most time."""
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
    """Build the chart of bandwidth by size, and the table of fits."""
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
    """Return the fits, and the peak if known, as points of curves."""
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
    """Select the fits with both latency and bandwidth."""
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


_MOST_BARS = 24
"""Maximum bars of a chart: more do not fit a screen."""

_PARTS = (
    ("transfer_ns", "transfer", "communication"),
    ("waiting_ns", "waiting for other ranks", "idle"),
    ("rest_ns", "sends before the receiver arrives", "memory"),
)
_COLLECTIVES_FORMULA = (
    "The durations of a rank's members of collectives, all groups together, in three parts. A member waits until the "
    "last member of its collective has arrived; what follows is transfer. Where a rank is missing from the traces that "
    "may have come later, its transfer is an upper bound (analysis collective_totals)."
)
_TOTALS = "rank group count dur_ns transfer_ns waiting_ns waiting_share rest_ns bounds caused_ns times_last description"
_EXPOSED_FORMULA = (
    "Time in which the collective runs and nothing computes; of collectives that overlap the one that began first "
    "counts. Summed over steps and ranks (analysis exposed_collectives)."
)


def collectives(results: RunResults) -> Section | None:
    """Build the section; None without answers about collectives."""
    if results.answers.get("collective_totals") is None:
        return None
    lead = "Transfer is what the network takes; waiting is what the slowest rank takes."
    lacks = missing(results, "collective_totals", "Collectives")
    parts: list[Part] = [*lacks] if lacks else [*_totals(results), *_exposed(results), *bandwidth(results)]
    return Section("collectives", "Collectives", parts, lead) if parts else None


def _totals(results: RunResults) -> list[Part]:
    totals = frame_of(results, "collective_totals")
    if totals is None:
        return [Note("No collective was matched between ranks.")]
    names = [column for column, _, _ in _PARTS]
    sums = pl.col(names).fill_null(0).sum()
    by_rank = totals.group_by("rank").agg(sums, pl.col("bounds").sum(), pl.col("count").sum()).sort("rank")
    kept = different(by_rank, names, [], _MOST_BARS - 1)
    shown = by_rank.filter(pl.col("rank").is_in(kept))
    labels = [rank_label(rank) for rank in shown.get_column("rank")]
    bars = shown.select(pl.Series("label", labels, dtype=pl.String), pl.col(names).cast(pl.Float64))
    notes = _notes(by_rank, len(kept))
    if len(kept) < by_rank.height:
        mean = by_rank.select(
            pl.lit(f"mean of {by_rank.height:,} ranks").alias("label"), pl.col(names).mean()
        )
        bars = pl.concat([mean, bars])
    all_sums = by_rank.select(pl.col(names).sum()).row(0)
    share = percent(all_sums[1] / sum(all_sums)) if sum(all_sums) else percent(0)
    series = [
        {"column": column, "name": name, "colour": colour}
        for (column, name, colour), total in zip(_PARTS, all_sums, strict=True)
        if total
    ]
    table = answer_table(results, "collective_totals", "Collectives by rank and group", _TOTALS.split())
    options = {"unit": "ns", "title": "time in collectives", "series": series}
    summary = f"Of the time in collectives {share} is waiting for other ranks."
    title = "Transfer and waiting, by rank"
    chart = Chart(
        "collectives-time",
        ChartKind.STACKED_BARS,
        title,
        summary,
        {"bars": bars},
        options,
        _COLLECTIVES_FORMULA,
        table,
    )
    return [chart, *notes]


def _notes(by_rank: pl.DataFrame, shown: int) -> list[Part]:
    notes: list[Part] = []
    if shown < by_rank.height:
        text = f"{shown} of {by_rank.height:,} ranks are shown, those that differ most, and the mean of all."
        notes.append(Note(text))
    bounds, count = by_rank.get_column("bounds").sum(), by_rank.get_column("count").sum()
    if bounds:
        text = (
            f"Of {bounds:,} of {count:,} members the transfer is, or may be, an upper bound: a rank that may have come "
            "later is not in the traces. Waiting is a lower bound there."
        )
        notes.append(Note(text))
    return notes


def _exposed(results: RunResults) -> list[Part]:
    """Return the exposed collectives, for which devices wait without computing."""
    exposed = frame_of(results, "exposed_collectives")
    if exposed is None:
        return []
    whole = exposed.filter(pl.col("step").is_null())
    rows = exposed if whole.is_empty() else whole
    keys = ("name", "dtype", "message_bytes")
    groups = (
        rows.group_by(keys)
        .agg(pl.col("exposed_ns", "total_ns", "count").sum())
        .sort("exposed_ns", *keys, descending=[True, False, False, False], nulls_last=True)
    )
    groups = groups.filter(pl.col("exposed_ns") > 0)
    if groups.is_empty():
        return []
    shown = groups.head(_MOST_BARS)
    labels = [_label(row) for row in shown.iter_rows(named=True)]
    bars = shown.select(
        pl.Series("label", labels, dtype=pl.String),
        pl.col("exposed_ns").alias("exposed"),
        (pl.col("total_ns") - pl.col("exposed_ns")).clip(0).alias("hidden"),
    )
    series = [
        {"column": "exposed", "name": "exposed", "colour": "communication"},
        {"column": "hidden", "name": "hidden, or beside another", "colour": "compute"},
    ]
    series = [item for item in series if bars.get_column(item["column"]).sum()]
    columns = ("name", "dtype", "message_bytes", "count", "total_ns", "exposed_ns")
    title = "Exposed collectives"
    table = answer_table(results, "exposed_collectives", title, columns, groups.select(columns))
    first = duration(groups.item(0, "exposed_ns"))
    summary = f"Devices wait the longest for {labels[0]}: {first} over all steps and ranks."
    options = {"unit": "ns", "title": "time, over all ranks", "series": series}
    return [
        Chart(
            "collectives-exposed",
            ChartKind.STACKED_BARS,
            title,
            summary,
            {"bars": bars},
            options,
            _EXPOSED_FORMULA,
            table,
        )
    ]


def _label(row: dict[str, object]) -> str:
    bytes_ = row["message_bytes"]
    what = [str(row["name"])]
    if isinstance(bytes_, int):
        what.append(size(bytes_))
    return ", ".join(what)
