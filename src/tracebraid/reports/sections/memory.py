"""Memory: how much is allocated over time and for what, and what is alive at the peak."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracebraid.model.answer_sentences import code_name
from tracebraid.model.answers.job import LateCause
from tracebraid.model.answers.memory import MemoryCategory, MemorySource
from tracebraid.model.quantities import duration, size
from tracebraid.model.report import Chart, ChartKind, Note, Part, RunResults, Section, sampled
from tracebraid.reports.sections.idle import answer_table, frame_of, missing


def different(frame: pl.DataFrame, values: Sequence[str], keys: Sequence[str], most: int) -> list[int]:
    """Select the ranks whose values differ most from the median, in order; all ranks if few."""
    ranks: list[int] = frame.get_column("rank").unique().sort().to_list()
    if len(ranks) <= most:
        return ranks
    apart = pl.sum_horizontal(
        (pl.col(name) - (pl.col(name).median().over(keys) if keys else pl.col(name).median())).abs()
        for name in values
    )
    summed = frame.select("rank", apart.alias("apart")).group_by("rank").agg(pl.col("apart").sum())
    kept = summed.sort("apart", "rank", descending=[True, False]).head(most).get_column("rank")
    return sorted(kept)


def blocks(frame: pl.DataFrame, value: str, most: int) -> pl.DataFrame:
    """Group consecutive ranks into blocks with `first` and `last` rank, and `low`,

    `median` and `high` values.
    """
    ordered = frame.select("rank", pl.col(value).cast(pl.Float64)).drop_nulls().sort("rank")
    size = max(1, -(-ordered.height // most))
    return (
        ordered.with_columns((pl.int_range(pl.len()) // size).alias("block"))
        .group_by("block", maintain_order=True)
        .agg(
            pl.col("rank").first().alias("first"),
            pl.col("rank").last().alias("last"),
            pl.col(value).min().alias("low"),
            pl.col(value).median().alias("median"),
            pl.col(value).max().alias("high"),
        )
        .drop("block")
    )


def rank_label(rank: int, device: str | None = None) -> str:
    """Return the label of a rank in a chart."""
    if device is None:
        return f"rank {rank}"
    return f"rank {rank}, host" if device == "cpu" else f"rank {rank}, device {device}"


def step_label(step: str) -> str:
    """Return the number at the end of a step's name, if any, as its label."""
    tail = step.rpartition("#")[2]
    return tail if tail.isdigit() else step


_MOST_MOMENTS = 800
"""Points of a line over time: about the pixels that a page has across."""

_COLUMNS = ["ts_ns", "size_bytes", "allocated_bytes", "reserved_bytes", "op", "step"]
_FORMULA = (
    "Allocated after each allocation and release (analysis memory_timeline), of the device with the highest peak. "
    "Of each of up to {moments} equal spans of time the moment with the most is drawn, so that the peak is exact."
)
_BY_CATEGORY = (
    " By category: the sizes of what is alive after all changes of a moment (analysis allocations); "
    "the rest is from before the trace."
)
_COLOURS = {
    MemoryCategory.PARAMETERS: "series-1",
    MemoryCategory.GRADIENTS: "series-2",
    MemoryCategory.OPTIMIZER_STATE: "series-3",
    MemoryCategory.ACTIVATIONS: "series-4",
    MemoryCategory.INPUTS: "series-5",
    MemoryCategory.TEMPORARIES: "series-6",
    MemoryCategory.COLLECTIVE_BUFFERS: "series-7",
    MemoryCategory.BEFORE_TRACE: "series-8",
    MemoryCategory.UNKNOWN: "series-9",
}
"""Fixed colours, so that a category looks the same in every report."""


def memory_over_time(results: RunResults, worst: dict[str, object]) -> list[Part]:
    """Build the chart of a device."""
    found = frame_of(results, "memory_timeline")
    of_device = [pl.col("rank") == worst["rank"], pl.col("device") == worst["device"]]
    rows = None if found is None else found.filter(*of_device).sort("ts_ns", maintain_order=True)
    if rows is None or rows.height < 2:
        return []
    label = rank_label(int(str(worst["rank"])), str(worst["device"]))
    table = answer_table(results, "memory_timeline", f"Allocated memory of {label}", _COLUMNS, rows)
    peak = f"The peak is {size(int(str(worst['peak_bytes'])))}."
    options = {
        "x": "ts_ns",
        "x_unit": "ns",
        "x_title": "time",
        "unit": "bytes",
        "title": "allocated",
        "steps": True,
    }
    formula = _FORMULA.format(moments=_MOST_MOMENTS)
    view = results.views.get("memory_by_category")
    by_category = None if view is None else view.filter(*of_device)
    if by_category is not None and not by_category.is_empty():
        areas, series = _areas(by_category, results.start_ns)
        title = f"Memory of {label} by category"
        options |= {"series": series}
        formula += _BY_CATEGORY
        return [Chart("memory-time", ChartKind.AREAS, title, peak, {"areas": areas}, options, formula, table)]
    lines = sampled(rows, "allocated_bytes", _MOST_MOMENTS)
    lines = lines.select(pl.col("ts_ns") - results.start_ns, "allocated_bytes", "reserved_bytes")
    title = f"Memory of {label}"
    options |= {"series": _lines(lines)}
    return [Chart("memory-time", ChartKind.LINES, title, peak, {"lines": lines}, options, formula, table)]


def _areas(by_category: pl.DataFrame, start_ns: int) -> tuple[pl.DataFrame, list[dict[str, str]]]:
    """Return a column for each category that has memory at any moment."""
    wide = by_category.pivot("category", index="ts_ns", values="bytes", aggregate_function="sum").sort(
        "ts_ns"
    )
    used = [category for category in MemoryCategory if category.value in wide.columns]
    used = [category for category in used if wide.get_column(category.value).max()]
    series = [
        {"column": category.value, "name": code_name(category), "colour": _COLOURS[category]}
        for category in used
    ]
    columns = [pl.col(category.value).fill_null(0) for category in used]
    return wide.select(pl.col("ts_ns") - start_ns, *columns), series


def _lines(rows: pl.DataFrame) -> list[dict[str, str]]:
    series = [{"column": "allocated_bytes", "name": "allocated", "colour": "memory"}]
    if rows.get_column("reserved_bytes").is_not_null().any():
        series.append({"column": "reserved_bytes", "name": "reserved by the allocator", "colour": "host"})
    return series


_MOST_BARS = 24
"""Maximum bars of a chart."""
_HOST = "cpu"

_PEAK = "rank device peak_ns peak_bytes reserved_bytes before_trace_bytes in_trace_bytes allocations op module source"
_ALIVE = "category op module bytes count share"
_PEAK_FORMULA = "The most that is allocated on the device at a moment (analysis memory_peak)."
_ALIVE_FORMULA = (
    "Sizes of the allocations that are alive at the device's peak, by what they are for: what decides a category "
    "stands in the column `rule` of analysis allocations (analysis memory_at_peak)."
)
_LOWER_BOUND = (
    "No allocations were recorded: figures are of the storages of the Execution Trace, each from its first use to its "
    "last, and lower bounds."
)


def memory(results: RunResults) -> Section | None:
    """Build the section; None without answers about memory."""
    if results.answers.get("memory_peak") is None:
        return None
    lead = "Allocated memory by use, and allocations alive at the peak."
    lacks = missing(results, "memory_peak", "Memory")
    if lacks:
        return Section("memory", "Memory", lacks, lead)
    peaks = frame_of(results, "memory_peak")
    if peaks is None:
        return Section(
            "memory", "Memory", [Note("No allocation or storage of a known size is in the traces.")], lead
        )
    whole = peaks.filter(pl.col("step").is_null())
    worst = _worst(peaks if whole.is_empty() else whole)
    parts: list[Part] = [*memory_over_time(results, worst), *_peaks(results, whole), *_alive(results, worst)]
    if worst["source"] == MemorySource.STORAGES.value:
        parts.insert(0, Note(_LOWER_BOUND))
    return Section("memory", "Memory", parts, lead)


def _worst(peaks: pl.DataFrame) -> dict[str, object]:
    """Return the peak of the device with the most memory; the host's only without device memory."""
    on_device = peaks.filter(pl.col("device") != _HOST, pl.col("peak_bytes") > 0)
    rows = peaks if on_device.is_empty() else on_device
    found: dict[str, object] = rows.sort("peak_bytes", descending=True, maintain_order=True).row(
        0, named=True
    )
    return found


def _peaks(results: RunResults, peaks: pl.DataFrame) -> list[Part]:
    """Return the peak of each rank's device."""
    if peaks.height < 2:
        return []
    kept = different(peaks, ["peak_bytes"], ["device"], _MOST_BARS)
    shown = peaks.filter(pl.col("rank").is_in(kept)).head(_MOST_BARS)
    labels = [rank_label(rank, device) for rank, device in shown.select("rank", "device").iter_rows()]
    parts = [pl.col("before_trace_bytes", "in_trace_bytes").fill_null(0)]
    bars = shown.select(pl.Series("label", labels, dtype=pl.String), *parts)
    series = [
        {"column": "before_trace_bytes", "name": "from before the trace", "colour": "host"},
        {"column": "in_trace_bytes", "name": "allocated in the trace", "colour": "memory"},
    ]
    options = {"unit": "bytes", "title": "allocated at the peak", "series": series}
    most = size(peaks.get_column("peak_bytes").max())  # type: ignore[arg-type]
    title = "Peak of allocated memory, by device"
    if shown.height < peaks.height:
        title += f": {shown.height} of {peaks.height:,} that differ most"
    table = answer_table(results, "memory_peak", "Peaks of memory", _PEAK.split(), peaks)
    summary = f"The highest peak is {most}."
    return [
        Chart(
            "memory-peaks",
            ChartKind.STACKED_BARS,
            title,
            summary,
            {"bars": bars},
            options,
            _PEAK_FORMULA,
            table,
        )
    ]


def _alive(results: RunResults, worst: dict[str, object]) -> list[Part]:
    """Tabulate the allocations alive at the peak of a device."""
    alive = frame_of(results, "memory_at_peak")
    if alive is None:
        return []
    rows = alive.filter(
        pl.col("rank") == worst["rank"], pl.col("device") == worst["device"], pl.col("step").is_null()
    ).sort("bytes", descending=True, maintain_order=True)
    if rows.is_empty():
        return []
    names = {category.value: code_name(category) for category in MemoryCategory}
    summed = (
        rows.group_by("category", maintain_order=True)
        .agg(pl.col("bytes").sum())
        .sort("bytes", descending=True, maintain_order=True)
    )
    labels = [names.get(category, category) for category in summed.get_column("category")]
    bars = summed.select(pl.Series("label", labels, dtype=pl.String), pl.col("bytes").alias("value"))
    options = {"unit": "bytes", "title": "alive at the peak", "colour": "memory"}
    title = f"Alive at the peak of {rank_label(int(str(worst['rank'])), str(worst['device']))}"
    first = summed.item(0, "bytes")
    summary = f"Of {size(int(str(worst['peak_bytes'])))} the most, {size(first)}, is {labels[0]}."
    table = answer_table(results, "memory_at_peak", title, _ALIVE.split(), rows)
    return [
        Chart("memory-alive", ChartKind.BARS, title, summary, {"bars": bars}, options, _ALIVE_FORMULA, table)
    ]


_STRAGGLERS_MOST_BARS = 20
"""Maximum ranks of the bars; the table has more."""
_MOST_RANKS = 40
"""Maximum rows and columns of the map of waits between ranks."""

_CAUSED = (
    "How long other ranks waited for the rank, or for a rank that inherited its lateness, at collectives at which it "
    "was late by a cause of its own: summed over the ranks that waited. Systematic: it is late more often than chance "
    "would have it, by a binomial test corrected for the number of ranks (analysis stragglers)."
)
_WAITS = (
    "How long a rank waited in collectives for the rank that came last; what several collectives wait for at once "
    "counts once (analysis rank_waits)."
)
_STRAGGLERS = (
    "rank systematic p_value late_count blocks worst_count share lateness_ns mean_ns caused_ns cause name "
    "cause_share"
)
_LATE = (
    "rank step type group start_ns lateness_ns margin_ns caused_ns cause name time_ns others_ns explained_share "
    "origin_rank"
)


def stragglers(results: RunResults) -> Section | None:
    """Build the section; None without answers about ranks."""
    if results.answers.get("stragglers") is None:
        return None
    lead = "A rank that is late at a collective makes all others wait."
    lacks = missing(results, "stragglers", "Stragglers")
    if lacks:
        return Section("stragglers", "Stragglers", lacks, lead)
    late = frame_of(results, "stragglers")
    parts: list[Part] = []
    if late is None:
        parts.append(Note("No rank is known to be late at a collective due to a cause of its own."))
    else:
        parts.append(_caused(results, late))
    parts += [*_waits(results), *_late_arrivals(results)]
    return Section("stragglers", "Stragglers", parts, lead)


def _caused(results: RunResults, late: pl.DataFrame) -> Chart:
    """Return the time that other ranks waited for each rank."""
    ordered = late.sort("caused_ns", "rank", descending=[True, False])
    shown = ordered.head(_STRAGGLERS_MOST_BARS)
    bars = shown.select(
        pl.Series("label", [rank_label(rank) for rank in shown.get_column("rank")], dtype=pl.String),
        pl.col("caused_ns").alias("value"),
        pl.col("systematic").fill_null(False).cast(pl.Int64).alias("strong"),
        pl.Series("note", [_cause(row) for row in shown.iter_rows(named=True)], dtype=pl.String),
    )
    systematic = shown.filter(pl.col("systematic")).get_column("rank").to_list()
    ranks = ", ".join(map(str, systematic))
    first = shown.row(0, named=True)
    summary = f"Others waited {duration(first['caused_ns'])} for rank {first['rank']}, the most. " + (
        f"Systematic stragglers: rank {ranks}."
        if systematic
        else "No rank is late in more steps than chance explains."
    )
    options = {
        "unit": "ns",
        "title": "waiting that the rank caused",
        "colour": "series-1",
        "strong": "critical",
        "strong_name": "systematic straggler",
        "colour_name": "late at times",
    }
    table = answer_table(results, "stragglers", "Ranks that are late", _STRAGGLERS.split(), ordered)
    title = "Waiting that each rank caused"
    return Chart("stragglers-caused", ChartKind.BARS, title, summary, {"bars": bars}, options, _CAUSED, table)


def _cause(row: dict[str, object]) -> str:
    """Explain why a rank was late."""
    known = {code.value: code for code in LateCause}
    cause = known.get(str(row["cause"]))
    name = f": {row['name']}" if row["name"] else ""
    often = f"late at {row['late_count']:,}, the latest in {row['worst_count']:,} of {row['blocks']:,}"
    return often if cause is None else f"{often}; {code_name(cause)}{name}"


def _waits(results: RunResults) -> list[Part]:
    """Build the map of waits between ranks."""
    waits = frame_of(results, "rank_waits")
    if waits is None:
        return []
    summed = waits.group_by("rank", "waited_for").agg(pl.col("waiting_ns").sum())
    waiting = summed.group_by("rank").agg(pl.col("waiting_ns").sum())
    caused = summed.group_by(pl.col("waited_for").alias("rank")).agg(pl.col("waiting_ns").sum())
    ranks, causes = _most(waiting), _most(caused)
    cells = summed.filter(pl.col("rank").is_in(ranks), pl.col("waited_for").is_in(causes)).select(
        pl.col("waited_for").replace_strict(dict(zip(causes, range(len(causes)), strict=True))).alias("x"),
        pl.col("rank").replace_strict(dict(zip(ranks, range(len(ranks)), strict=True))).alias("y"),
        pl.col("waiting_ns").alias("value"),
    )
    most = summed.sort("waiting_ns", "rank", descending=[True, False]).row(0, named=True)
    summary = f"Rank {most['rank']} waits the longest for rank {most['waited_for']}: {duration(most['waiting_ns'])}."
    options = {
        "unit": "ns",
        "x_labels": [str(rank) for rank in causes],
        "y_labels": [str(rank) for rank in ranks],
        "x_title": "for rank",
        "y_title": "rank",
        "value_title": "waiting",
        "from_zero": True,
    }
    columns = ("rank", "waited_for", "waiting_ns", "share", "count", "longest_ns")
    order = waits.sort("waiting_ns", descending=True, maintain_order=True)
    table = answer_table(results, "rank_waits", "Waits between ranks", columns, order)
    chart = Chart(
        "stragglers-waits",
        ChartKind.HEAT_MAP,
        "Waits between ranks",
        summary,
        {"cells": cells.sort("y", "x")},
        options,
        _WAITS,
        table,
    )
    return [chart, *_left_out(waiting.height, len(ranks), caused.height, len(causes))]


def _most(waits: pl.DataFrame) -> list[int]:
    """Return the ranks with the most waiting, in order."""
    ordered = waits.sort("waiting_ns", "rank", descending=[True, False]).head(_MOST_RANKS)
    return sorted(ordered.get_column("rank"))


def _left_out(waiting: int, rows: int, causing: int, columns: int) -> list[Part]:
    if waiting == rows and causing == columns:
        return []
    text = (
        f"Of {waiting:,} ranks that wait the {rows} are shown that wait longest, of {causing:,} that others wait for "
        f"the {columns} that others wait for longest."
    )
    return [Note(text)]


def _late_arrivals(results: RunResults) -> list[Part]:
    arrivals = frame_of(results, "late_arrivals")
    if arrivals is None:
        return []
    ordered = arrivals.sort("caused_ns", descending=True, maintain_order=True)
    return [answer_table(results, "late_arrivals", "Late arrivals and their causes", _LATE.split(), ordered)]
