"""A Kineto trace file, read into a `Timeline`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tracebraid.errors import InputError, NotATraceError, WrongTraceError
from tracebraid.importers.chunk_decoding import decode_file
from tracebraid.importers.columns import taken
from tracebraid.importers.discovery import as_rank, rank_from_name
from tracebraid.importers.frames import findings_of, frame_of, groups_of_kineto
from tracebraid.importers.json_stream.chunks import ArrayFile, open_array
from tracebraid.importers.json_stream.source import open_source
from tracebraid.importers.kineto.decode import BASE_LIMIT_NS, EventColumns, after_base
from tracebraid.importers.merged import split_pid
from tracebraid.model.capture_facts import METADATA
from tracebraid.model.category import CATEGORY_BY_OLD_NAME, Category, Role, Work, categories_of
from tracebraid.model.collectives import library_of
from tracebraid.model.column import Kind
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding, FindingCase, Loss
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.quantities import NS_PER_US
from tracebraid.model.rank_files import Progress
from tracebraid.model.schema import DETAIL_TABLES_BY_CATEGORY, KINETO_TABLES, LANES, UNUSABLE_DURATIONS
from tracebraid.model.timeline import Timeline

_KNOWN = {category.value for category in Category}
_DEVICE_KEYS = ["correlation", "stream", "device"]
"""Arguments that only events of a device, or calls that launch them, carry."""

_ASCEND = "Ascend Hardware"
"""The process of devices in traces of Ascend's own profiler."""
_DAY_NS = 86_400 * 10**9
_OUTLASTED = 3
"""Later kernels of its stream that began and ended while a kernel ran, at least, for its duration to be impossible."""
_OF_NAME = 10
"""Kernels of its name, at least."""
_TIMES_USUAL = 100
"""Minimum ratio to their median."""
_OPS = 5
"""Names of ops, at least, for the absence of PyTorch's to say something."""
_SHOWN = 3
"""Categories, or events, in a finding."""
_CHARACTERS_SHOWN = 40
"""Characters of a category's name in a finding."""


def category_findings(
    path: str, chunks: Sequence[EventColumns], tables: dict[str, pl.DataFrame]
) -> list[Finding]:
    """The findings about the categories of a trace's events."""
    events = tables["events"]
    present = set(events.get_column("category").unique().cast(pl.String))
    found = _renamed(path, chunks)
    if not present <= _KNOWN:
        found += _unknown(path, events.with_columns(as_text("category")), tables["extra_args"])
    ops = events.filter(as_text("category").is_in(categories_of(Role.OP))).get_column("name").value_counts()
    if ops.height >= _OPS and not ops.get_column("name").cast(pl.String).str.starts_with("aten::").any():
        found.append(Finding(FindingCode.OPS_UNKNOWN, path, "in `name`", int(ops.get_column("count").sum())))
    if present.isdisjoint(categories_of(Role.OP, Role.ANNOTATION)):
        work = events.filter(pl.col("category").is_in(categories_of(Role.DEVICE_WORK)))
        if not work.is_empty():
            found.append(Finding(FindingCode.HOST_OPS_MISSING, path, _first(work), work.height))
    return found


def _renamed(path: str, chunks: Sequence[EventColumns]) -> list[Finding]:
    counts: Counter[str] = Counter()
    for chunk in chunks:
        counts.update(chunk.old_categories)
    if not counts:
        return []
    pairs = ", ".join(f"{name} as {CATEGORY_BY_OLD_NAME[name]}" for name in sorted(counts))
    return [Finding.of(FindingCode.CATEGORY_OLD, path, "in `cat`", counts.total(), pairs=pairs)]


def _unknown(path: str, events: pl.DataFrame, extra_args: pl.DataFrame) -> list[Finding]:
    """Find events with a duration and unknown category; another code if their arguments indicate device work."""
    unknown = events.filter(~pl.col("category").fill_null("").is_in(list(_KNOWN)) & (pl.col("dur_ns") > 0))
    if unknown.is_empty():
        return []
    with_device_keys = extra_args.filter(as_text("key").is_in(_DEVICE_KEYS))
    where, named = _first(unknown), _named(unknown)
    if unknown.join(with_device_keys, on="event_id", how="semi").is_empty():
        return [Finding.of(FindingCode.CATEGORY_UNKNOWN, path, where, unknown.height, categories=named)]
    return [Finding.of(FindingCode.DEVICE_WORK_UNREAD, path, where, unknown.height, categories=named)]


def _named(events: pl.DataFrame) -> str:
    """The categories that the most events have, each with how many, shortened to fit a line."""
    counts = events.get_column("category").fill_null("(none)").value_counts()
    most = counts.sort("count", "category", descending=[True, False])
    named = [f"{count:,} {name[:_CHARACTERS_SHOWN]}" for name, count in most.head(_SHOWN).iter_rows()]
    return ", ".join(named) + (", ..." if most.height > _SHOWN else "")


def _first(events: pl.DataFrame) -> str:
    """The numbers of the first of these events."""
    numbers = events.get_column("event_id").head(_SHOWN).to_list()
    more = ", ..." if events.height > _SHOWN else ""
    return f"event{'' if events.height == 1 else 's'} {', '.join(map(str, numbers))}{more}"


def unfit_findings(path: str, tables: dict[str, pl.DataFrame]) -> list[Finding]:
    """Return how many values count as missing because they are of another type than their column, or too large.

    Lists do not count: PyTorch itself truncates those of many ranks.
    """
    extra = tables["extra_args"]
    if extra.is_empty():
        return []
    keys = set(extra.get_column("key").unique().cast(pl.String))
    categories = {category: _keys_with_column(category) for category in DETAIL_TABLES_BY_CATEGORY}
    keys.intersection_update(key for known in categories.values() for key in known)
    if not keys:
        return []
    extra = extra.filter(pl.col("key").is_in(sorted(keys)))
    known = pl.DataFrame(
        [(category, key) for category, of_category in categories.items() for key in of_category],
        schema={"category": pl.String, "key": pl.String},
        orient="row",
    )
    category = tables["events"].get_column("category").gather(extra.get_column("event_id"))
    unfit = extra.select("event_id", as_text("key"), category.cast(pl.String)).join(
        known, on=["category", "key"], how="semi", maintain_order="left"
    )
    if unfit.is_empty():
        return []
    events = unfit.get_column("event_id").unique(maintain_order=True)
    where = f"event{'' if len(events) == 1 else 's'} {_listed(events.to_list())}"
    names = _listed(sorted(set(unfit.get_column("key"))))
    return [Finding.of(FindingCode.ARGUMENT_UNFIT, path, where, unfit.height, keys=names)]


def _keys_with_column(category: str) -> list[str]:
    return [
        key
        for table in DETAIL_TABLES_BY_CATEGORY[category]
        for column in table.columns
        if column.kind is not Kind.INTS
        for key in column.keys
    ]


def _listed(values: Iterable[object]) -> str:
    first = list(map(str, values))
    return ", ".join(first[:_SHOWN]) + (", ..." if len(first) > _SHOWN else "")


_OF_ONE_PROCESS = ("host_name", "trace_id", "traceName", METADATA)
"""Members of a header that say something about one process."""
_INTEGER = re.compile(r"-?[0-9]{1,19}")


def read_timeline(path: str | Path, progress: Progress | None = None) -> Timeline:
    """Read a Kineto trace: `.json`, also `.gz` or `.zst`, or `-` for standard input; or what Nsight Systems exported.

    Args:
        path: the file.
        progress: is called now and then with the share of the file that is read, 0 to 1.

    Raises:
        InputError: the file cannot be read, is no trace, or is an Execution Trace.
    """
    return read_rank(path, None, "", progress)


def read_rank(
    path: str | Path,
    rank: int | None,
    label: str,
    progress: Progress | None = None,
) -> Timeline:
    """Read a Kineto trace, see `read_timeline`, or from one of several ranks the rank whose pids have a label.

    Args:
        path: the file.
        rank: the number of the rank with the label; not used without one.
        label: what the pids begin with; "" where the file is of one rank.
        progress: as in `read_timeline`.
    """
    source = open_source(path, database=True)
    if source.is_database:
        from tracebraid.importers.nsys.reader import read_nsys

        return read_nsys(path, progress)
    return timeline_of(open_array(source), progress, rank if label else None, label)


def timeline_of(
    file: ArrayFile,
    progress: Progress | None = None,
    rank: int | None = None,
    label: str = "",
) -> Timeline:
    """Read an opened file, see `read_rank`."""
    if file.array == "nodes":
        raise WrongTraceError(
            file.source.path,
            "this is an Execution Trace, but a Kineto trace was expected",
            "Give the file with `traceEvents` (usually kineto_trace_<rank>.json); are the two swapped?",
        )
    chunks = decode_file(file, progress, label=label)
    if rank is not None:
        file.header = _header_of_rank(file.header, rank)
    if any(text == _ASCEND for chunk in chunks for _, _, _, text in chunk.names):
        raise InputError(
            file.source.path,
            "this is a trace_view.json of the profiler of Ascend, of which the work of devices is not read",
            "Tracebraid reads the traces of torch.profiler, and what Nsight Systems exported",
        )
    return _timeline(file, chunks, rank)


def _timeline(file: ArrayFile, chunks: list[EventColumns], rank_of_label: int | None) -> Timeline:
    path = file.source.path
    base_ns, base_findings = _base_time(file)
    base_findings += _without_zero_times(path, chunks)
    tables, too_late = _tables(chunks, base_ns)
    if too_late:
        case = FindingCase.BEHIND_ALL_TIMES
        base_findings.append(Finding.of(FindingCode.BASE_TIME, path, case=case, times=too_late))
    if tables["events"].is_empty() and tables["flows"].is_empty() and tables["other_events"].is_empty():
        _refuse_if_no_events(file, chunks)
    if _is_of_several_processes(tables):
        from tracebraid.importers.kineto.processes import refuse_several_processes

        refuse_several_processes(path, tables, rank_of_label is not None)
    tables = _with_names_of_copies(_with_streams(tables))
    tables, impossible = _without_impossible_durations(path, tables)
    rank, world, rank_findings = _rank_and_world(file)
    if rank_of_label is not None:
        rank, rank_findings = rank_of_label, []
        world = None if world is not None and rank >= world else world
    findings = findings_of(file, [issue for chunk in chunks for issue in chunk.issues])
    return Timeline(
        path=path,
        rank=rank,
        world_size=world,
        base_time_ns=base_ns,
        header=file.header,
        tables=tables,
        process_groups=groups_of_kineto(file.header),
        findings=(
            *findings,
            *base_findings,
            *impossible,
            *rank_findings,
            *category_findings(path, chunks, tables),
            *unfit_findings(path, tables),
        ),
        size_bytes=file.source.size_bytes,
    )


def _is_of_several_processes(tables: dict[str, pl.DataFrame]) -> bool:
    """Return whether pids have a label of a rank, or several processes ran ops."""
    pids = {
        lane: (pid, text) for lane, pid, text in tables["lanes"].select("lane", "pid", "pid_text").iter_rows()
    }
    distinct = set(pids.values())
    if any(split_pid(text)[0] for _, text in distinct):
        return True
    if len(distinct) < 2:
        return False
    ops = tables["events"].filter(pl.col("category") == Category.CPU_OP.value)
    return len({pids[lane] for lane in ops.get_column("lane").unique()}) > 1


def _refuse_if_no_events(file: ArrayFile, chunks: list[EventColumns]) -> None:
    if file.array == "" or any(chunk.issues for chunk in chunks):
        raise NotATraceError(
            file.source.path,
            "its array contains no readable event",
            "Expected the events of a Kineto trace, each with `ph` and `ts`",
        )


def _tables(chunks: list[EventColumns], base_ns: int) -> tuple[dict[str, pl.DataFrame], int]:
    """One frame for each table; the chunks' own columns are released as each frame is built.

    Also returns the number of times that do not fit with the base.
    """
    lanes, too_late = _number_together(chunks, base_ns)
    tables: dict[str, pl.DataFrame] = {
        LANES.name: _lanes(lanes, [name for chunk in chunks for name in chunk.names])
    }
    for table in KINETO_TABLES:
        if table is not LANES:
            parts = [chunk.tables.pop(table.name) for chunk in chunks if table.name in chunk.tables]
            tables[table.name] = frame_of(table, parts)
    return tables, too_late


def _without_zero_times(path: str, chunks: list[EventColumns]) -> list[Finding]:
    """Take out events at time 0, where all others are more than a day later: the profiler lost their time."""
    starts = [chunk.tables["events"].ints("ts_ns") for chunk in chunks]
    others = [int(start[start != 0].min()) for start in starts if start.any()]
    if not others or min(others) < _DAY_NS:
        return []
    lost = 0
    for chunk, start in zip(chunks, starts, strict=True):
        keep = start != 0
        if keep.all():
            continue
        lost += int((~keep).sum())
        number = np.cumsum(keep) - 1
        for name, table in chunk.tables.items():
            if name == "events":
                chunk.tables[name] = taken(table, np.flatnonzero(keep))
            elif "event_id" in table.columns:
                event = table.ints("event_id")
                kept = taken(table, np.flatnonzero(keep[event]))
                kept.columns["event_id"] = number[event[keep[event]]]
                chunk.tables[name] = kept
    return [Finding(FindingCode.EVENT_AT_ZERO, path, count=lost, loss=Loss(lost, lost))] if lost else []


def _with_streams(tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Take the thread for the stream of kernels, copies and fills whose arguments have none: Kineto writes both."""
    work = tables["device_work"]
    if not work.get_column("stream").null_count():
        return tables
    lanes = tables["events"].filter(pl.col("category").is_in(categories_of(Work.KERNEL, Work.COPY)))
    threads = lanes.select("event_id", "lane").join(
        tables["lanes"].select("lane", "tid"), on="lane", how="left", maintain_order="left"
    )
    known = work.join(threads, on="event_id", how="left", maintain_order="left")
    return {
        **tables,
        "device_work": work.with_columns(known.select(pl.coalesce("stream", "tid")).to_series()),
    }


_COPY = "Memcpy"
_COPY_KIND, *_MEMORIES = ("copy kind", "src kind", "dst kind")


def _with_names_of_copies(tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Name copies as Kineto does, `Memcpy HtoD (Pinned -> Device)`, where only their arguments tell the direction.

    So torch's `cupti_monitor` writes them, with names of memories such as `device_static`.
    """
    events, extra = tables["events"], tables["extra_args"]
    if _COPY_KIND not in extra.get_column("key").unique().cast(pl.String):
        return tables
    is_copy = (as_text("category") == Category.GPU_MEMCPY.value) & (as_text("name") == _COPY)
    copies = events.filter(is_copy).select("event_id")
    for key in (_COPY_KIND, *_MEMORIES):
        of_key = extra.filter(as_text("key") == key).select("event_id", pl.col("value").str.strip_chars('"'))
        copies = copies.join(of_key.rename({"value": key}).unique("event_id"), on="event_id", how="left")
    source, target = (pl.col(key).str.replace_all("_", " ").str.to_titlecase() for key in _MEMORIES)
    kind = pl.format(f"{_COPY} {{}}", _COPY_KIND)
    # A number stands for a kind that the writer did not know.
    named = copies.filter(pl.col(_COPY_KIND).str.contains("^[A-Z]to[A-Z]$")).select(
        "event_id", pl.coalesce(pl.format("{} ({} -> {})", kind, source, target), kind).alias("as_kineto")
    )
    events = events.join(named, on="event_id", how="left", maintain_order="left").with_columns(
        pl.coalesce(pl.col("as_kineto").cast(events.schema["name"]), "name").alias("name")
    )
    return {**tables, "events": events.drop("as_kineto")}


def _without_impossible_durations(
    path: str, tables: dict[str, pl.DataFrame]
) -> tuple[dict[str, pl.DataFrame], list[Finding]]:
    """Take the durations of kernels that outlast later work of their stream by far: a stream runs one after another.

    Work of one launch may run in parallel, and on ROCm streams share queues, so that communication waits beside
    other work.
    """
    events = tables["events"]
    kernels = events.filter(as_text("category") == Category.KERNEL.value).sort("lane", "ts_ns", "event_id")
    lanes, starts, lengths = (kernels.get_column(name).to_numpy() for name in ("lane", "ts_ns", "dur_ns"))
    ends = starts + lengths
    outlasts = np.zeros(len(ends), dtype=np.bool_)
    if len(ends) > _OUTLASTED:
        last = np.max([ends[i : len(ends) - _OUTLASTED + i] for i in range(1, _OUTLASTED + 1)], axis=0)
        outlasts[:-_OUTLASTED] = (last < ends[:-_OUTLASTED]) & (lanes[_OUTLASTED:] == lanes[:-_OUTLASTED])
    if not outlasts.any():
        return tables, []
    alike = kernels.join(kernels.filter(outlasts).select("name"), on="name", how="semi")
    usual = alike.group_by("name").agg(pl.len().alias("count"), pl.col("dur_ns").median().alias("usual_ns"))
    launched = tables["device_work"].select("event_id", "correlation", "context")
    rows = kernels.with_row_index("row").join(launched, on="event_id", how="left", maintain_order="left")
    found = (
        rows.filter(outlasts)
        .join(usual, on="name", how="left", maintain_order="left")
        .filter((pl.col("count") >= _OF_NAME) & (pl.col("dur_ns") > _TIMES_USUAL * pl.col("usual_ns")))
    )
    sure = [row for row in found.iter_rows(named=True) if _is_of_other_launches(row, rows)]
    if not sure:
        return tables, []
    damaged = pl.DataFrame(
        {
            "event_id": [row["event_id"] for row in sure],
            "duration": [f"{row['dur_ns'] / NS_PER_US:g}" for row in sure],
        },
        schema=UNUSABLE_DURATIONS.polars_schema(),
    )
    without = (
        pl.when(pl.col("event_id").is_in(damaged.get_column("event_id").implode()))
        .then(0)
        .otherwise("dur_ns")
    )
    known = pl.concat([tables[UNUSABLE_DURATIONS.name], damaged]).sort("event_id")
    where = f"event{'s' * (len(sure) > 1)} {_listed(damaged.get_column('event_id'))}"
    finding = Finding.of(FindingCode.EVENT_DURATION, path, where, len(sure), case=FindingCase.OUTLASTS_STREAM)
    return {**tables, "events": events.with_columns(dur_ns=without), UNUSABLE_DURATIONS.name: known}, [
        finding
    ]


def _is_of_other_launches(row: dict[str, Any], kernels: pl.DataFrame) -> bool:
    """Return whether what ran inside a kernel, in its context, was launched by other calls; false of communication."""
    inside = kernels[row["row"] + 1 : row["row"] + 1 + _OUTLASTED]
    others = inside.filter(
        pl.col("correlation").ne_missing(row["correlation"]) & pl.col("context").eq_missing(row["context"])
    )
    is_other = others.height == _OUTLASTED and row["correlation"] is not None
    return is_other and library_of(str(row["name"])) is None


def _number_together(chunks: list[EventColumns], base_ns: int) -> tuple[list[Any], int]:
    """Renumber events and lanes of each chunk over the whole trace, and make times absolute.

    Returns the lanes, and the number of times that do not fit with the base.
    """
    lanes: dict[object, int] = {}
    first_event = _all_late = 0
    for chunk in chunks:
        renumber = np.array([lanes.setdefault(lane, len(lanes)) for lane in chunk.lanes], dtype=np.int64)
        for name, table in chunk.tables.items():
            if name in ("events", "flows"):
                table.columns["lane"] = renumber[table.ints("lane")]
                dur_ns = table.ints("dur_ns") if name == "events" else 0
                table.columns["ts_ns"], too_late = after_base(table.ints("ts_ns"), dur_ns, base_ns)
                _all_late += too_late
            elif "event_id" in table.columns:
                table.columns["event_id"] = table.ints("event_id") + first_event
        events = chunk.tables["events"]
        events.columns["event_id"] = np.arange(first_event, first_event + events.rows, dtype=np.int64)
        first_event += events.rows
    return list(lanes), _all_late


def _lanes(lanes: Sequence[Any], names: list[tuple[str, object, object, str]]) -> pl.DataFrame:
    process: dict[tuple[str, object], str] = {}
    thread: dict[tuple[object, object], str] = {}
    for kind, pid, tid, text in names:
        if kind == "thread_name":
            thread.setdefault((pid, tid), text)
        else:
            process.setdefault((kind, pid), text)
    rows = [
        (
            number,
            _as_int(pid),
            _as_int(tid),
            str(pid) if _as_int(pid) is None and pid is not None else None,
            str(tid) if _as_int(tid) is None and tid is not None else None,
            process.get(("process_name", pid)),
            process.get(("process_labels", pid)),
            thread.get((pid, tid)),
        )
        for number, (pid, tid) in enumerate(lanes)
    ]
    return pl.DataFrame(rows, schema=LANES.polars_schema(), orient="row")


def _as_int(value: object) -> int | None:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None


def _base_time(file: ArrayFile) -> tuple[int, list[Finding]]:
    value = file.header.get("baseTimeNanoseconds", 0)
    if isinstance(value, int) and 0 <= value < BASE_LIMIT_NS:
        return value, []
    return 0, [Finding.of(FindingCode.BASE_TIME, file.source.path, value=value)]


def _header_of_rank(header: Mapping[str, object], rank: int) -> dict[str, object]:
    """The header of a file of several ranks as it holds for one; what it says of another is left out."""
    found = header.get("distributedInfo")
    info: dict[str, Any] = found if isinstance(found, dict) else {}
    if str(info.get("rank")) == str(rank):
        return dict(header)
    groups = info.get("pg_config")
    shared = [group for group in groups if _has(group, rank)] if isinstance(groups, list) else groups
    known = {name: value for name, value in header.items() if name not in _OF_ONE_PROCESS}
    return known | {"distributedInfo": {**info, "rank": rank, "pg_config": shared}} if info else known


def _has(group: object, rank: int) -> bool:
    """Return whether a listed process group has a rank; an empty list means all ranks."""
    ranks = group.get("ranks") if isinstance(group, dict) else None
    return isinstance(ranks, list) and (not ranks or rank in ranks)


def _rank_and_world(file: ArrayFile) -> tuple[int, int | None, list[Finding]]:
    path = file.source.path
    info = file.header.get("distributedInfo")
    info = info if isinstance(info, dict) else {}
    world, stated, named = as_rank(info.get("world_size")), as_rank(info.get("rank")), rank_from_name(path)
    if stated is None and named is None:
        return 0, world, [Finding(FindingCode.RANK_UNKNOWN, path)]
    if stated is not None and named is not None and stated != named:
        case = FindingCase.FILE_NAME
        return (
            stated,
            world,
            [Finding.of(FindingCode.RANKS_DIFFER, path, case=case, rank=stated, named=named)],
        )
    return (named if stated is None else stated) or 0, world, []
