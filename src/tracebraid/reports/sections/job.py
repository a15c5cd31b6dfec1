"""The job: how long steps take on each rank, and what fills them."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from msgspec.structs import replace

from tracebraid.model.answers.time import StepPart
from tracebraid.model.quantities import duration
from tracebraid.model.report import Chart, ChartKind, Note, Part, RunResults, Section
from tracebraid.reports.sections.idle import answer_table, frame_of, missing
from tracebraid.reports.sections.memory import blocks, different, rank_label, step_label

_MOST_BARS = 24
"""Maximum bars of a chart: more do not fit a screen."""
_MOST_BLOCKS = 256
"""Maximum points of a line over ranks."""

_PARTS = (
    ("compute_ns", "compute", "compute"),
    ("exposed_communication_ns", "exposed communication", "communication"),
    ("exposed_memory_ns", "exposed copies", "memory"),
    ("idle_ns", "idle", "idle"),
)
"""Parts of a span, as column, label and colour. They add up to the span."""

_SPREAD_FORMULA = (
    "Of each rank the median of its steps' lengths on the host, with the shortest and the longest of them. "
    "Warm-up steps and doubtful steps are not counted (analysis step_spread)."
)
_PARTS_FORMULA = (
    "compute: something computes. Exposed communication: something communicates and nothing computes. "
    "Exposed copies: something is copied or filled, and nothing computes or communicates. Idle: none of the three. "
    "The four add up to the span. "
)
_MEAN_OF_STEPS = "Means over the rank's steps without warm-up and doubtful steps (analysis step_spread)."
_MEAN_OF_ALL_STEPS = (
    "Each step is a warm-up step or doubtful: means over all of the rank's steps (analysis step_times)."
)
_OF_TRACE = "No step is marked: from the device's first event to its last (analysis breakdown)."


def job(results: RunResults) -> Section | None:
    """Build the section; None without steps and breakdown."""
    parts: list[Part] = [*_step_times(results), *_parts_of_steps(results), *_breakdown(results)]
    if not parts:
        return None
    return Section("job", "The job", parts, "How long a step takes on each rank, and what fills it.")


def _step_times(results: RunResults) -> list[Part]:
    """Chart step times by rank; many ranks are grouped in blocks."""
    spread = frame_of(results, "step_spread")
    if spread is None:
        return [*missing(results, "step_spread", "Step times")]
    spans = spread.filter(pl.col("part") == StepPart.SPAN.value).unique("rank", maintain_order=True)
    if spans.height < 2:
        return []
    columns = ("rank", "count", "median_ns", "mean_ns", "min_ns", "max_ns", "p95_ns", "std_ns", "variation")
    table = answer_table(results, "step_spread", "Step time by rank", columns, spans)
    chart = _of_few if spans.height <= _MOST_BARS else _of_many
    kind, frames, options = chart(spans)
    least, most = _extremes(spans, "median_ns")
    summary = f"The median step takes {duration(least)} to {duration(most)} on {spans.height:,} ranks."
    return [
        Chart(
            "job-step-time",
            kind,
            "Step time by rank",
            summary,
            frames,
            options,
            _SPREAD_FORMULA,
            table,
        )
    ]


def _of_few(spans: pl.DataFrame) -> tuple[ChartKind, dict[str, pl.DataFrame], dict[str, object]]:
    bars = spans.select(
        pl.Series("label", [rank_label(rank) for rank in spans.get_column("rank")], dtype=pl.String),
        pl.col("median_ns").alias("value"),
        pl.col("min_ns").alias("low"),
        pl.col("max_ns").alias("high"),
    )
    options: dict[str, object] = {"unit": "ns", "title": "median step", "colour": "accent"}
    options["range"] = "shortest to longest"
    return ChartKind.BARS, {"bars": bars}, options


def _of_many(spans: pl.DataFrame) -> tuple[ChartKind, dict[str, pl.DataFrame], dict[str, object]]:
    lines = blocks(spans, "median_ns", _MOST_BLOCKS)
    size = -(-spans.height // max(1, lines.height))
    name = "median step" if size == 1 else f"median step, median of {size} ranks"
    series = {"column": "median", "name": name, "low": "low", "high": "high", "colour": "accent"}
    options: dict[str, object] = {
        "x": "first",
        "x_to": "last",
        "x_unit": "rank",
        "x_title": "rank",
        "unit": "ns",
        "title": "median step",
        "series": [series],
    }
    return ChartKind.LINES, {"lines": lines}, options


def _extremes(frame: pl.DataFrame, column: str) -> tuple[float, float]:
    least, most = frame.select(pl.col(column).min().alias("a"), pl.col(column).max().alias("b")).row(0)
    return float(least or 0), float(most or 0)


def _parts_of_steps(results: RunResults) -> list[Part]:
    """Chart the parts of each step of a single rank."""
    times = frame_of(results, "step_times")
    if times is None or times.get_column("rank").n_unique() > 1 or times.height < 2:
        return []
    shown = times.sort("start_ns").head(_MOST_BARS)
    several = times.get_column("device").n_unique() > 1
    labels = [
        f"step {step_label(step)}" + (f", device {device}" if several else "")
        for step, device in shown.select("step", "device").iter_rows()
    ]
    names = [column for column, _, _ in _PARTS]
    columns = ("rank", "step", "device", "start_ns", "span_ns", *names, "warmup", "doubtful")
    table = answer_table(results, "step_times", "Steps of the rank", columns, times)
    formula = _PARTS_FORMULA + "Each step as analysis step_times has it."
    chart = _stacked("job-steps", "What fills each step", _labelled(shown, labels), formula)
    notes = [] if shown.height == times.height else [Note(f"The first {shown.height:,} of {times.height:,}.")]
    return [replace(chart, table=table), *notes]


def _breakdown(results: RunResults) -> list[Part]:
    """Chart the parts of a step, or of the trace, of each rank."""
    rows, formula = _mean_step(results), _MEAN_OF_STEPS
    if rows is None:
        rows, formula = _mean_of_all_steps(results), _MEAN_OF_ALL_STEPS
    if rows is None:
        whole = frame_of(results, "breakdown")
        rows, formula = None if whole is None else whole.filter(pl.col("step").is_null()), _OF_TRACE
    if rows is None or rows.is_empty():
        return [*missing(results, "breakdown", "What fills the time")]
    names = [column for column, _, _ in _PARTS]
    ranks = rows.get_column("rank").n_unique()
    kept = different(rows, names, [], _MOST_BARS - 1)
    shown = rows.filter(pl.col("rank").is_in(kept))
    several = rows.select("rank").is_duplicated().any()
    labels = [
        rank_label(rank, device if several else None)
        for rank, device in shown.select("rank", "device").iter_rows()
    ]
    bars = _labelled(shown, labels)
    notes: list[Part] = []
    if len(kept) < ranks:
        mean = rows.select(pl.lit(f"mean of {ranks:,} ranks").alias("label"), pl.col(names).mean())
        bars = pl.concat([mean, bars.with_columns(pl.col(names).cast(pl.Float64))])
        notes.append(
            Note(f"{len(kept)} of {ranks:,} ranks are shown, those that differ most, and the mean of all.")
        )
    columns = ("rank", "device", "span_ns", *names)
    table = answer_table(results, "breakdown", "What fills the time, by rank", columns, rows.select(columns))
    chart = _stacked("job-breakdown", "What fills the time, by rank", bars, _PARTS_FORMULA + formula)
    return [replace(chart, table=table), *notes]


def _mean_step(results: RunResults) -> pl.DataFrame | None:
    """Compute the mean parts and spans of steps by rank and device, in ns."""
    spread = frame_of(results, "step_spread")
    if spread is None:
        return None
    parts = (
        StepPart.SPAN,
        StepPart.COMPUTE,
        StepPart.EXPOSED_COMMUNICATION,
        StepPart.EXPOSED_MEMORY,
        StepPart.IDLE,
    )
    mean = [
        pl.col("mean_ns").filter(pl.col("part") == part.value).first().fill_null(0).alias(f"{part.value}_ns")
        for part in parts
    ]
    return spread.group_by("rank", "device", maintain_order=True).agg(mean)


def _mean_of_all_steps(results: RunResults) -> pl.DataFrame | None:
    """Compute `_mean_step` including warm-up and doubtful steps, for a run without others."""
    times = frame_of(results, "step_times")
    if times is None:
        return None
    names = ("span_ns", *(column for column, _, _ in _PARTS))
    return times.group_by("rank", "device", maintain_order=True).agg(
        pl.col(name).fill_null(0).mean() for name in names
    )


def _labelled(rows: pl.DataFrame, labels: Sequence[str]) -> pl.DataFrame:
    return rows.select(pl.Series("label", labels, dtype=pl.String), *(column for column, _, _ in _PARTS))


def _stacked(id: str, title: str, bars: pl.DataFrame, formula: str) -> Chart:
    names = [column for column, _, _ in _PARTS]
    sums = bars.select(pl.col(names).cast(pl.Float64).sum()).row(0)
    total = sum(sums)
    shares = ", ".join(
        f"{name} {share / total:.0%}" for (_, name, _), share in zip(_PARTS, sums, strict=True) if total
    )
    series = [{"column": column, "name": name, "colour": colour} for column, name, colour in _PARTS]
    options = {"unit": "ns", "title": "time", "series": series}
    return Chart(id, ChartKind.STACKED_BARS, title, f"Of all: {shares}.", {"bars": bars}, options, formula)
