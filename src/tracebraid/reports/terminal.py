"""Results as Rich tables, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.table import Table

from tracebraid.model.answers import Launcher
from tracebraid.model.coverage import Count, Coverage
from tracebraid.model.file_info import DeviceSource, FileInfo
from tracebraid.model.reason import OrphanKind, OrphanReason
from tracebraid.model.sentences import reason_sentence
from tracebraid.model.step import PROFILER_STEP, is_step_name
from tracebraid.model.units import NS_PER_S
from tracebraid.reports.names import distinct_names
from tracebraid.reports.text import cell, printable
from tracebraid.reports.units import duration, percent, size

__all__ = [
    "breakdown_table",
    "coverage_table",
    "info_tables",
    "kernels_table",
    "launchers_line",
    "ops_table",
    "orphans_table",
    "table_of",
]

_STEPS_SHOWN = 10
"""Rows of the breakdown for each rank and device."""
_RANKS_SHOWN = 16
"""Ranks of a table: as many as DETAILED_RANKS of a report."""
_NAME_WIDTH = 72
"""Characters of names that are shown."""
_SHAPES_WIDTH = 48
"""Characters of input shapes that are shown."""
_LAUNCHERS = {
    Launcher.GRAPH.value: "graph launches",
    Launcher.OP.value: "ops",
    Launcher.ANNOTATION.value: "annotations",
    Launcher.CALL.value: "calls outside of both",
    Launcher.UNKNOWN.value: "no launch in the trace",
}
_KINDS = {
    "execution-trace": "Execution Trace",
    "kineto-trace": "Kineto trace",
    "nsys-export": "Export of Nsight Systems",
}


def info_tables(infos: Sequence[FileInfo]) -> list[str | Table]:
    """What each file is: its path, and under it a table of facts."""
    parts: list[str | Table] = []
    for info in infos:
        table = Table(box=None, show_header=False, pad_edge=False)
        for what, text in _facts(info):
            table.add_row(f"  {what}", cell(text))
        parts += [cell(info.path), table]
    return parts


def _facts(info: FileInfo) -> Iterable[tuple[str, str]]:
    kind = _KINDS[info.kind]
    yield "kind", f"{kind}, {info.schema}, {size(info.size_bytes)}"
    yield "torch", info.torch or "unknown"
    yield "device", _devices(info)
    rank = "unknown" if info.rank is None else str(info.rank)
    yield "rank", rank if info.world_size is None else f"{rank} of {info.world_size}"
    if info.start_ns is not None:
        start = datetime.fromtimestamp(info.start_ns // NS_PER_S, timezone.utc)
        yield "start", f"{start:%Y-%m-%d %H:%M:%S} UTC"
    if info.span_ns is not None:
        yield "span", duration(info.span_ns)
    if info.steps:
        more = f" ... {info.steps[-1]}" if len(info.steps) > 1 else ""
        yield "steps", f"{len(info.steps)}: {info.steps[0]}{more}"
    yield "counts", ", ".join(f"{count:,} {name}" for name, count in info.counts.items()) or "none"


def _devices(info: FileInfo) -> str:
    if not info.devices:
        return "CPU only" if info.device_source is DeviceSource.NONE else "unknown"
    by = " (by what ran; the file names none)" if info.device_source is DeviceSource.EVENTS else ""
    return ", ".join(info.devices) + by


def coverage_table(coverages: Sequence[tuple[int, Coverage]]) -> Table:
    """How much of each rank was linked; of many ranks, those that link least."""
    has_device = any(coverage.gpu_events.total for _, coverage in coverages)
    columns = [("rank", "right"), ("host ops linked", "right"), ("by", "left")]
    columns += [("GPU events attributed", "right"), ("GPU time attributed", "right")] if has_device else []
    table = table_of("Coverage", columns)
    least = sorted(range(len(coverages)), key=lambda row: _share(coverages[row][1]))[:_RANKS_SHOWN]
    for rank, coverage in (coverages[row] for row in sorted(least)):
        host, gpu, (total_ns, attributed_ns) = coverage.host_ops, coverage.gpu_events, coverage.gpu_time_ns
        methods = ", ".join(host.by_method) if coverage.has_et else "no Execution Trace"
        cells = [str(rank), _of_total(host) if coverage.has_et else "-", methods]
        if has_device:
            share = attributed_ns / total_ns if total_ns else 1.0
            cells += [_of_total(gpu), f"{duration(attributed_ns)} of {duration(total_ns)}, {percent(share)}"]
        table.add_row(*cells)
    if len(coverages) > len(least):
        table.caption = f"{len(coverages) - len(least):,} more ranks link as well or better; --json has all"
    return table


def _share(coverage: Coverage) -> float:
    """The least share that is linked of what a rank has."""
    counts = [*([coverage.host_ops] if coverage.has_et else []), coverage.gpu_events]
    return min((count.share for count in counts if count.total), default=1.0)


def _of_total(count: Count) -> str:
    return f"{count.linked:,} of {count.total:,}, {percent(count.share)}" if count.total else "none"


def orphans_table(coverages: Sequence[tuple[int, Coverage]]) -> Table | None:
    """What was not linked, and why, over all ranks; None where all was."""
    words = {OrphanKind.HOST_OP: "host op", OrphanKind.ET_NODE: "ET node", OrphanKind.GPU_EVENT: "GPU event"}
    table = table_of(
        "Not linked", [("count", "right"), ("what", "left"), ("ranks", "right"), ("because", "left")]
    )
    found: dict[tuple[OrphanKind, OrphanReason], list[tuple[int, int]]] = {}
    for rank, coverage in coverages:
        for orphans in coverage.orphans:
            found.setdefault((orphans.kind, orphans.reason), []).append((rank, orphans.count))
    for (kind, reason), counts in found.items():
        total = sum(count for _, count in counts)
        table.add_row(
            f"{total:,}", words[kind], _ranges([rank for rank, _ in counts]), cell(reason_sentence(reason))
        )
    return table if table.row_count else None


def _ranges(ranks: list[int]) -> str:
    """`0-2, 5` for 0, 1, 2 and 5."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def breakdown_table(frame: pl.DataFrame) -> Table:
    """Where the time goes; compute, exposed parts and idle of each row add up to its span.

    Of many ranks those that compute the most and the least: the extremes tell who waits for whom.
    """
    every = frame.get_column("rank").n_unique()
    frame = _with_extreme_ranks(frame)
    parts = {
        "compute": "compute_ns",
        "exposed comm": "exposed_communication_ns",
        "exposed memory": "exposed_memory_ns",
        "idle": "idle_ns",
    }
    sums = {"comm": "communication_ns", "overlap": "overlap_ns"}
    parts = {name: column for name, column in parts.items() if (frame.get_column(column) > 0).any()}
    sums = {name: column for name, column in sums.items() if (frame.get_column(column) > 0).any()}
    devices = frame.get_column("device").unique().to_list()
    where = f" on device {cell(devices[0])}" if len(devices) == 1 else ""
    columns = ["rank", "step", *(["device"] if len(devices) > 1 else []), "span", *parts, *sums]
    table = table_of(
        f"Where the time goes{where}", [(name, "left" if name == "step" else "right") for name in columns]
    )
    table.columns[1].no_wrap = True
    shown = frame.filter(pl.int_range(pl.len()).over("rank", pl.col("step").is_null()) < _STEPS_SHOWN)
    for row in shown.iter_rows(named=True):
        cells = [
            str(row["rank"]),
            cell(row["step"] or "all"),
            *([cell(row["device"])] if len(devices) > 1 else []),
        ]
        cells.append(duration(row["span_ns"]))
        cells += [_part(row[column], row["span_ns"]) for column in parts.values()]
        cells += [duration(row[column]) if row[column] else "-" for column in sums.values()]
        table.add_row(*cells)
    more = [f"{frame.height - shown.height} more steps"] if shown.height < frame.height else []
    if every > _RANKS_SHOWN:
        more += [
            f"{every - _RANKS_SHOWN:,} more ranks, which compute less than the most and more than the least"
        ]
    if more:
        table.caption = "; ".join((*more, "--json has all"))
    return table


def _with_extreme_ranks(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of few ranks: half of them compute the most, half the least."""
    whole = frame.filter(pl.col("step").is_null()).group_by("rank").agg(pl.col("compute_ns").sum())
    if whole.height <= _RANKS_SHOWN:
        return frame
    ordered = whole.sort("compute_ns", "rank").get_column("rank")
    half = _RANKS_SHOWN // 2
    return frame.filter(pl.col("rank").is_in([*ordered.head(half), *ordered.tail(half)]))


def kernels_table(frame: pl.DataFrame, top: int) -> Table:
    """The longest kernels and copies."""
    columns = [("total", "right"), ("share", "right"), ("count", "right"), ("mean", "right")]
    table = table_of("Kernels and copies by total time", [*columns, ("kind", "left"), ("name", "left")])
    rows = frame.head(top)
    names = _names(rows.get_column("name"))
    for row, name in zip(rows.iter_rows(named=True), names, strict=True):
        table.add_row(
            duration(row["total_ns"]),
            percent(row["share"]),
            f"{row['count']:,}",
            "-" if row["mean_ns"] is None else duration(row["mean_ns"]),
            row["kind"],
            cell(name),
        )
    return _with_rest(table, frame.height, top)


def launchers_line(frame: pl.DataFrame) -> str:
    """How much of the device's time each kind of launcher launched."""
    rows = frame.filter(pl.col("kernels") > 0).iter_rows(named=True)
    shares = ", ".join(f"{_LAUNCHERS[row['launcher']]} {percent(row['share'])}" for row in rows)
    return f"Device time, by what launched it: {shares}"


def ops_table(frame: pl.DataFrame, top: int, by: str, step: str = PROFILER_STEP) -> Table:
    """The ops and annotations with the most time; by host time without those that mark steps.

    Args:
        frame: the answer, see `model.answers.OPS`.
        top: how many rows to show.
        by: `device` or `host`.
        step: the annotation that marks steps. Its host time stands in the breakdown, step by step.
    """
    key = f"{by}_self_ns"
    shown = pl.col(key) > 0
    if by == "host":
        shown &= ~is_step_name(pl.col("name"), step)
    ops = frame.filter(shown).sort(key, descending=True, maintain_order=True)
    times = [("host self", "host_self_ns"), ("host total", "host_total_ns")]
    if frame.get_column("kernels").sum() > 0:
        times = [("device self", "device_self_ns"), ("device total", "device_total_ns"), *times[:1]]
    columns = [(name, "right") for name, _ in times]
    columns += [("count", "right"), ("kind", "left"), ("name", "left"), ("input shapes", "left")]
    table = table_of(f"Ops and annotations by {by} self time", columns)
    rows = ops.head(top)
    names, shapes = _names(rows.get_column("name")), _names(rows.get_column("input_dims"), _SHAPES_WIDTH)
    for row, name, dims in zip(rows.iter_rows(named=True), names, shapes, strict=True):
        table.add_row(
            *(duration(row[column]) if row[column] else "-" for _, column in times),
            f"{row['count']:,}",
            "op" if row["category"] == "cpu_op" else "annotation",
            cell(name),
            cell(dims),
        )
    return _with_rest(table, ops.height, top)


def _names(texts: pl.Series, width: int = _NAME_WIDTH) -> list[str]:
    """The texts of a column, shortened; null is empty."""
    return distinct_names([printable(text or "") for text in texts.to_list()], width)


def _part(ns: int, span_ns: int) -> str:
    return f"{duration(ns)} {percent(ns / span_ns) if span_ns else ''}" if ns else "-"


def _with_rest(table: Table, rows: int, top: int) -> Table:
    if rows > top:
        table.caption = f"{rows - top:,} more; --top shows more, --json all"
    return table


def table_of(title: str, columns: Sequence[tuple[str, str]]) -> Table:
    """An empty table in the style of all reports; columns by their heading and how they are justified."""
    table = Table(title=title or None, title_justify="left", title_style="bold", caption_justify="left")
    table.box, table.show_edge, table.pad_edge = SIMPLE_HEAD, False, False
    for name, justify in columns:
        wraps = justify == "left"
        table.add_column(name, justify="left" if wraps else "right", overflow="fold")
    return table
