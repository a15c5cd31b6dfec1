"""Results as Rich tables, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone

import polars as pl
from rich.table import Table

from tracebraid.model.answers.launches import Launcher
from tracebraid.model.category import Role, categories_of
from tracebraid.model.coverage import Count, Coverage, OrphanKind, OrphanReason
from tracebraid.model.file_info import DeviceSource, FileInfo
from tracebraid.model.finding import reason_sentence
from tracebraid.model.printable import printable
from tracebraid.model.quantities import NS_PER_S, duration, percent, size
from tracebraid.model.step import PROFILER_STEP, is_step_name
from tracebraid.reports.fitted_table import WIDEST, Head, captioned, fitted_table, line_width, table_of
from tracebraid.reports.names import cell, distinct_names

_STEPS_SHOWN = 10
"""Maximum rows of the breakdown for each rank and device."""
_RANKS_SHOWN = 16
"""Maximum ranks of a table, equal to DETAILED_RANKS of a report."""
_NAME_WIDTH = 72
"""Maximum characters of a name."""
_SHAPES_WIDTH = 48
"""Maximum characters of input shapes."""
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
    """Describe each file: its path, and a table of facts."""
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


def coverage_table(coverages: Sequence[tuple[int, Coverage]], width: int = WIDEST) -> Table:
    """Tabulate link coverage by rank; of many ranks, the lowest."""
    has_device = any(coverage.gpu_events.total for _, coverage in coverages)
    heads = [Head("rank"), Head("host ops linked"), Head("by", "left")]
    heads += [Head("GPU events attributed"), Head("GPU time attributed", rank=1)] if has_device else []
    rows = []
    least = sorted(range(len(coverages)), key=lambda row: _share(coverages[row][1]))[:_RANKS_SHOWN]
    for rank, coverage in (coverages[row] for row in sorted(least)):
        host, gpu, (total_ns, attributed_ns) = coverage.host_ops, coverage.gpu_events, coverage.gpu_time_ns
        methods = ", ".join(host.by_method) if coverage.has_et else "no Execution Trace"
        cells = [str(rank), _of_total(host) if coverage.has_et else "-", methods]
        if has_device:
            share = attributed_ns / total_ns if total_ns else 1.0
            cells += [_of_total(gpu), f"{duration(attributed_ns)} of {duration(total_ns)}, {percent(share)}"]
        rows.append(cells)
    table = fitted_table("Coverage", heads, rows, width, kept=2)
    if len(coverages) > len(least):
        captioned(table, f"{len(coverages) - len(least):,} more ranks link as well or better; --json has all")
    return table


def _share(coverage: Coverage) -> float:
    """Return the lowest coverage of a rank."""
    counts = [*([coverage.host_ops] if coverage.has_et else []), coverage.gpu_events]
    return min((count.share for count in counts if count.total), default=1.0)


def _of_total(count: Count) -> str:
    return f"{count.linked:,} of {count.total:,}, {percent(count.share)}" if count.total else "none"


def orphans_table(coverages: Sequence[tuple[int, Coverage]]) -> Table | None:
    """Tabulate orphans by reason over all ranks; None without orphans."""
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
    """Format numbers as ranges: `0-2, 5` for 0, 1, 2 and 5."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def breakdown_table(frame: pl.DataFrame, width: int = WIDEST) -> Table:
    """Tabulate the time breakdown; compute, exposed parts and idle of each row add up to its span.

    Of many ranks, those that compute the most and the least: the extremes show who waits for whom. If there is no
    room for times and shares, the parts are shares; then the device is left out where each rank has one, and the rest.
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
    heads = [
        Head("rank"),
        Head("step", "left"),
        *([Head("device", rank=0 if _several_of_a_rank(frame) else 2)] if len(devices) > 1 else []),
        Head("span"),
    ]
    heads += [*(Head(name, rank=int(name == "exposed memory")) for name in parts)]
    heads += [Head(name, rank=3) for name in sums]
    shown = frame.filter(pl.int_range(pl.len()).over("rank", pl.col("step").is_null()) < _STEPS_SHOWN)

    def drawn(part: Callable[[int, int], str], kept: int) -> Table:
        rows = [
            [
                str(row["rank"]),
                row["step"] or "all",
                *([row["device"]] if len(devices) > 1 else []),
                duration(row["span_ns"]),
                *(part(row[column], row["span_ns"]) for column in parts.values()),
                *(duration(row[column]) if row[column] else "-" for column in sums.values()),
            ]
            for row in shown.iter_rows(named=True)
        ]
        return fitted_table(f"Where the time goes{where}", heads, rows, width, kept)

    table = drawn(_part, kept=len(heads) - len(sums))
    if line_width(table) > width:
        table = drawn(_share_of, kept=2)
    more = [f"{frame.height - shown.height} more steps"] if shown.height < frame.height else []
    if every > _RANKS_SHOWN:
        more += [f"{every - _RANKS_SHOWN:,} more ranks, with compute between these extremes"]
    return captioned(table, "; ".join((*more, "--json has all"))) if more else table


def _several_of_a_rank(frame: pl.DataFrame) -> bool:
    return bool((frame.group_by("rank").agg(pl.col("device").n_unique()).get_column("device") > 1).any())


def _with_extreme_ranks(frame: pl.DataFrame) -> pl.DataFrame:
    """Select the rows of the ranks that compute the most and the least, half each."""
    whole = frame.filter(pl.col("step").is_null()).group_by("rank").agg(pl.col("compute_ns").sum())
    if whole.height <= _RANKS_SHOWN:
        return frame
    ordered = whole.sort("compute_ns", "rank").get_column("rank")
    half = _RANKS_SHOWN // 2
    return frame.filter(pl.col("rank").is_in([*ordered.head(half), *ordered.tail(half)]))


def kernels_table(frame: pl.DataFrame, top: int, width: int = WIDEST) -> Table:
    """Tabulate the longest kernels and copies."""
    heads = [Head("total"), Head("share"), Head("count", rank=1), Head("mean", rank=2)]
    heads += [Head("kind", "left", rank=3), Head("name", "left", shortens=True)]
    rows = frame.head(top)
    names = _names(rows.get_column("name"))
    cells = [
        [
            duration(row["total_ns"]),
            percent(row["share"]),
            f"{row['count']:,}",
            "-" if row["mean_ns"] is None else duration(row["mean_ns"]),
            row["kind"],
            name,
        ]
        for row, name in zip(rows.iter_rows(named=True), names, strict=True)
    ]
    return _with_rest(
        fitted_table("Kernels and copies by total time", heads, cells, width, 2), frame.height, top
    )


def launchers_line(frame: pl.DataFrame) -> str:
    """Report the share of device time by kind of launcher."""
    rows = frame.filter(pl.col("kernels") > 0).iter_rows(named=True)
    shares = ", ".join(f"{_LAUNCHERS[row['launcher']]} {percent(row['share'])}" for row in rows)
    return f"Device time by launcher: {shares}"


def ops_table(
    frame: pl.DataFrame, top: int, by: str, step: str = PROFILER_STEP, width: int = WIDEST
) -> Table:
    """Tabulate the ops and annotations with the most time; by host time, without step annotations."""
    key = f"{by}_self_ns"
    shown = pl.col(key) > 0
    if by == "host":
        shown &= ~is_step_name(pl.col("name"), step)
    ops = frame.filter(shown).sort(key, descending=True, maintain_order=True)
    times = [("host self", "host_self_ns"), ("host total", "host_total_ns")]
    if frame.get_column("kernels").sum() > 0:
        on_device = [("device self", "device_self_ns"), ("device total", "device_total_ns")]
        times = [*on_device, *times[:1]] if by == "device" else [*times[:1], *on_device]
    heads = [Head(name, rank=4 * (number > 0)) for number, (name, _) in enumerate(times)]
    heads += [Head("count", rank=2), Head("kind", "left", rank=5), Head("name", "left", shortens=True)]
    heads += [Head("input shapes", "left", shortens=True, rank=3)]
    rows = ops.head(top)
    names, shapes = _names(rows.get_column("name")), _names(rows.get_column("input_dims"), _SHAPES_WIDTH)
    cells = [
        [
            *(duration(row[column]) if row[column] else "-" for _, column in times),
            f"{row['count']:,}",
            "op" if row["category"] in categories_of(Role.OP) else "annotation",
            name,
            dims,
        ]
        for row, name, dims in zip(rows.iter_rows(named=True), names, shapes, strict=True)
    ]
    table = fitted_table(f"Ops and annotations by {by} self time", heads, cells, width, kept=1)
    return _with_rest(table, ops.height, top)


def _names(texts: pl.Series, width: int = _NAME_WIDTH) -> list[str]:
    """Shorten the texts of a column; null is empty."""
    return distinct_names([printable(text or "") for text in texts.to_list()], width)


def _part(ns: int, span_ns: int) -> str:
    return f"{duration(ns)} {percent(ns / span_ns) if span_ns else ''}" if ns else "-"


def _share_of(ns: int, span_ns: int) -> str:
    return percent(ns / span_ns) if ns and span_ns else "-"


def _with_rest(table: Table, rows: int, top: int) -> Table:
    return captioned(table, f"{rows - top:,} more; --top shows more, --json all") if rows > top else table
