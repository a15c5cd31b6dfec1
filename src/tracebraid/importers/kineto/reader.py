"""A Kineto trace file, read into a `Timeline`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tracebraid.errors import NotATraceError, WrongTraceError
from tracebraid.importers.chunk_workers.parallel import decode_file, worth_processes
from tracebraid.importers.discovery.rank import as_rank, rank_from_name
from tracebraid.importers.findings import findings_of
from tracebraid.importers.frames import frame_of
from tracebraid.importers.json_stream.chunks import ArrayFile, open_array
from tracebraid.importers.json_stream.source import open_source
from tracebraid.importers.kineto.categories import category_findings
from tracebraid.importers.kineto.clock import BASE_LIMIT_NS, after_base
from tracebraid.importers.kineto.decode import EventColumns
from tracebraid.importers.kineto.unfit_arguments import unfit_findings
from tracebraid.importers.nsys.reader import read_nsys, refuse_nsys_report
from tracebraid.importers.process_groups import groups_of_kineto
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.model.rank_files import Progress
from tracebraid.model.schema import KINETO_TABLES, LANES
from tracebraid.model.timeline import Timeline

__all__ = ["read_timeline", "timeline_of"]

_INTEGER = re.compile(r"-?[0-9]{1,19}")


def read_timeline(
    path: str | Path, processes: int | None = None, progress: Progress | None = None
) -> Timeline:
    """Read a Kineto trace: `.json`, also `.gz` or `.zst`, or `-` for standard input; or what Nsight Systems exported.

    Args:
        path: the file.
        processes: how many processes may decode it; None: as many as its size is worth, up to the cores.
        progress: is called now and then, from any thread, with the share of the file that is read, 0 to 1.

    Raises:
        InputError: the file cannot be read, is no trace, or is an Execution Trace.
    """
    refuse_nsys_report(path)
    source = open_source(path, database=True)
    if source.is_database:
        return read_nsys(path, progress)
    return timeline_of(open_array(source), processes, progress)


def timeline_of(file: ArrayFile, processes: int | None = None, progress: Progress | None = None) -> Timeline:
    """Read an opened file, see `read_timeline`."""
    if file.array == "nodes":
        raise WrongTraceError(
            file.source.path,
            "this is an Execution Trace, and a Kineto trace was expected here",
            "Give the file with `traceEvents` (usually kineto_trace_<rank>.json); did the two change places?",
        )
    chunks = decode_file(file, processes or worth_processes(file), progress)
    return _timeline(file, chunks)


def _timeline(file: ArrayFile, chunks: list[EventColumns]) -> Timeline:
    path = file.source.path
    base_ns, base_findings = _base_time(file)
    tables, too_late = _tables(chunks, base_ns)
    if too_late:
        case = FindingCase.BEHIND_ALL_TIMES
        base_findings.append(Finding.of(FindingCode.BASE_TIME, path, case=case, times=too_late))
    if tables["events"].is_empty() and tables["flows"].is_empty() and tables["other_events"].is_empty():
        _refuse_if_no_events(file, chunks)
    rank, world, rank_findings = _rank_and_world(file)
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
            *rank_findings,
            *category_findings(path, chunks, tables),
            *unfit_findings(path, tables),
        ),
        size_bytes=file.source.size_bytes,
    )


def _refuse_if_no_events(file: ArrayFile, chunks: list[EventColumns]) -> None:
    if file.array == "" or any(chunk.issues for chunk in chunks):
        raise NotATraceError(
            file.source.path,
            "its array holds nothing that reads as an event",
            "Expected the events of a Kineto trace, each with `ph` and `ts`",
        )


def _tables(chunks: list[EventColumns], base_ns: int) -> tuple[dict[str, pl.DataFrame], int]:
    """One frame for each table; the chunks' own columns are released as each frame is built.

    With them, how many times do not fit behind the base.
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


def _number_together(chunks: list[EventColumns], base_ns: int) -> tuple[list[Any], int]:
    """Renumber events and lanes of each chunk over the whole trace, and make times absolute.

    Returns the lanes, and how many times do not fit behind the base.
    """
    lanes: dict[object, int] = {}
    first_event = all_too_late = 0
    for chunk in chunks:
        renumber = np.array([lanes.setdefault(lane, len(lanes)) for lane in chunk.lanes], dtype=np.int64)
        for name, table in chunk.tables.items():
            if name in ("events", "flows"):
                table.columns["lane"] = renumber[table.ints("lane")]
                dur_ns = table.ints("dur_ns") if name == "events" else 0
                table.columns["ts_ns"], too_late = after_base(table.ints("ts_ns"), dur_ns, base_ns)
                all_too_late += too_late
            elif "event_id" in table.columns:
                table.columns["event_id"] = table.ints("event_id") + first_event
        events = chunk.tables["events"]
        events.columns["event_id"] = np.arange(first_event, first_event + events.rows, dtype=np.int64)
        first_event += events.rows
    return list(lanes), all_too_late


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
