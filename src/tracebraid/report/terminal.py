"""Results as Rich tables, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

import polars as pl
from rich.markup import escape
from rich.table import Table

from tracebraid.model.coverage import Coverage
from tracebraid.model.file_info import FileInfo
from tracebraid.report.units import duration, percent, size

__all__ = ["breakdown_table", "coverage_table", "info_table", "kernels_table", "ops_table", "orphans_table"]

_STEPS_SHOWN = 10


def info_table(infos: Sequence[FileInfo]) -> Table:
    """What each file is, a column per file turned into rows of facts."""
    table = _table("", [("file", "left"), ("what", "left"), ("", "left")])
    for info in infos:
        first = escape(info.path)
        for what, text in _facts(info):
            table.add_row(first, what, escape(text))
            first = ""
        table.add_section()
    return table


def _facts(info: FileInfo) -> Iterable[tuple[str, str]]:
    kind = "Execution Trace" if info.kind == "execution-trace" else "Kineto trace"
    yield "kind", f"{kind}, {info.schema}, {size(info.size_bytes)}"
    yield "torch", info.torch or "unknown"
    yield "device", ", ".join(info.devices) or "CPU only"
    rank = "unknown" if info.rank is None else str(info.rank)
    yield "rank", rank if info.world_size is None else f"{rank} of {info.world_size}"
    if info.start_ns is not None:
        start = datetime.fromtimestamp(info.start_ns // 10**9, timezone.utc)
        yield "start", f"{start:%Y-%m-%d %H:%M:%S} UTC"
    if info.span_ns is not None:
        yield "span", duration(info.span_ns)
    if info.steps:
        more = f" ... {info.steps[-1]}" if len(info.steps) > 1 else ""
        yield "steps", f"{len(info.steps)}: {info.steps[0]}{more}"
    yield "counts", ", ".join(f"{count:,} {name}" for name, count in info.counts.items()) or "none"


def coverage_table(coverages: Sequence[tuple[int, Coverage]]) -> Table:
    """How much of each rank was linked."""
    columns = ("rank", "host ops linked", "", "by", "GPU events attributed", "", "GPU time", "")
    table = _table("Coverage", [(name, "right" if name != "by" else "left") for name in columns])
    for rank, coverage in coverages:
        total_ns, attributed_ns = coverage.gpu_time_ns
        host = coverage.host_ops
        methods = ", ".join(f"{method} {count:,}" for method, count in host.by_method.items())
        linked = (
            (f"{host.linked:,} of {host.total:,}", percent(host.share)) if coverage.has_et else ("no ET", "")
        )
        device = ("none", "", "", "")
        if coverage.gpu_events.total:
            gpu = coverage.gpu_events
            share = attributed_ns / total_ns if total_ns else 1.0
            device = (
                f"{gpu.linked:,} of {gpu.total:,}",
                percent(gpu.share),
                duration(total_ns),
                percent(share),
            )
        table.add_row(str(rank), *linked, methods, *device)
    return table


def orphans_table(coverages: Sequence[tuple[int, Coverage]]) -> Table | None:
    """What was not linked, and why; None where all was."""
    words = {"host_op": "host op", "et_node": "ET node", "gpu_event": "GPU event"}
    table = _table(
        "Not linked", [("rank", "right"), ("count", "right"), ("what", "left"), ("because", "left")]
    )
    for rank, coverage in coverages:
        for one in coverage.orphans:
            table.add_row(str(rank), f"{one.count:,}", words[one.kind], escape(one.reason))
    return table if table.row_count else None


def breakdown_table(frame: pl.DataFrame) -> Table:
    """Where the time goes; the four parts of each row add up to its span."""
    names = (
        "rank",
        "step",
        "device",
        "span",
        "compute",
        "exposed comm",
        "exposed memory",
        "idle",
        "comm",
        "overlap",
    )
    table = _table("Where the time goes", [(name, "left" if name == "step" else "right") for name in names])
    shown = frame.filter(pl.int_range(pl.len()).over("rank", pl.col("step").is_null()) < _STEPS_SHOWN)
    for row in shown.iter_rows(named=True):
        span = row["span_ns"]
        parts = [
            _part(row[name], span)
            for name in ("compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns")
        ]
        whole = [duration(row[name]) if row[name] else "-" for name in ("communication_ns", "overlap_ns")]
        table.add_row(
            str(row["rank"]), escape(row["step"] or "all"), row["device"], duration(span), *parts, *whole
        )
    if shown.height < frame.height:
        table.caption = f"{frame.height - shown.height} more steps; --json has all"
    return table


def kernels_table(frame: pl.DataFrame, top: int) -> Table:
    """The longest kernels and copies."""
    columns = [("total", "right"), ("share", "right"), ("count", "right"), ("mean", "right")]
    table = _table("Kernels and copies by total time", [*columns, ("kind", "left"), ("name", "left")])
    for row in frame.head(top).iter_rows(named=True):
        table.add_row(
            duration(row["total_ns"]),
            percent(row["share"]),
            f"{row['count']:,}",
            duration(row["mean_ns"]),
            row["kind"],
            escape(_short(row["name"])),
        )
    return _with_rest(table, frame.height, top)


def ops_table(frame: pl.DataFrame, top: int, by: str) -> Table:
    """The ops with the most time; `by` is `device` or `host`."""
    key = f"{by}_self_ns"
    title = f"Ops by {by} self time"
    columns = [
        ("device self", "right"),
        ("device total", "right"),
        ("host self", "right"),
        ("count", "right"),
    ]
    table = _table(title, [*columns, ("op", "left"), ("input shapes", "left")])
    ops = frame.filter((pl.col("category") == "cpu_op") & (pl.col(key) > 0)).sort(
        key, descending=True, maintain_order=True
    )
    for row in ops.head(top).iter_rows(named=True):
        table.add_row(
            duration(row["device_self_ns"]) if row["device_self_ns"] else "-",
            duration(row["device_total_ns"]) if row["device_total_ns"] else "-",
            duration(row["host_self_ns"]),
            f"{row['count']:,}",
            escape(_short(row["name"])),
            escape(_short(row["input_dims"] or "", 48)),
        )
    return _with_rest(table, ops.height, top)


def _part(ns: int, span_ns: int) -> str:
    return f"{duration(ns)} {percent(ns / span_ns) if span_ns else ''}" if ns else "-"


def _short(text: str, most: int = 72) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def _with_rest(table: Table, rows: int, top: int) -> Table:
    if rows > top:
        table.caption = f"{rows - top:,} more; --top shows more, --json all"
    return table


def _table(title: str, columns: Sequence[tuple[str, str]]) -> Table:
    table = Table(title=title or None, title_justify="left", title_style="bold", caption_justify="left")
    for name, justify in columns:
        wraps = justify == "left"
        table.add_column(name, justify="left" if wraps else "right", no_wrap=not wraps, overflow="fold")
    return table
