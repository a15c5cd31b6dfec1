"""SQLite files with the tables that `nsys export --type sqlite` writes (schema 3.16, nsys 2024.6), and their rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

EPOCH_NS = 1_696_392_839_587_175_550
"""When the session of a written file starts."""

Row = tuple[str, dict[str, Any]]
"""A table, and a row of it."""

_WORK = "start end deviceId contextId greenContextId streamId correlationId globalPid"
LAYOUTS = {
    "StringIds": "id value",
    "ThreadNames": "nameId priority globalTid",
    "PROCESSES": "globalPid pid name",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime localTime",
    "TARGET_INFO_GPU": "vmId id name busLocation totalMemory smCount computeMajor computeMinor cuDevice",
    "META_DATA_EXPORT": "name value",
    "CUPTI_ACTIVITY_KIND_KERNEL": _WORK
    + " demangledName shortName mangledName launchType cacheConfig registersPerThread gridX gridY gridZ blockX blockY"
    " blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted"
    " graphNodeId sharedMemoryLimitConfig graphId",
    "CUPTI_ACTIVITY_KIND_MEMCPY": _WORK
    + " bytes copyKind deprecatedSrcId srcKind dstKind srcDeviceId srcContextId dstDeviceId dstContextId migrationCause"
    " graphNodeId virtualAddress",
    "CUPTI_ACTIVITY_KIND_MEMSET": _WORK + " value bytes graphNodeId memKind",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid correlationId nameId returnValue callchainId",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": _WORK + " deprecatedSyncType syncType eventId eventSyncId",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": _WORK + " graphId graphExecId",
    "NVTX_EVENTS": "start end eventType rangeId category color text globalTid endGlobalTid textId domainId uint64Value"
    " jsonText",
}
"""The columns of each table; `end` is a keyword of SQL."""

_TYPES = {"value": "TEXT", "name": "TEXT", "text": "TEXT", "utcTime": "TEXT", "localTime": "TEXT"}


class Text(str):
    """A text that stands in `StringIds`, and elsewhere as its number."""


def global_id(pid: int = 77, tid: int = 0) -> int:
    """A process or thread as nsys packs it, below the number of a host and a virtual machine."""
    return (1 << 48) + (pid << 24) + tid


def call(name: str, start: int, end: int, correlation: int, pid: int = 77, **more: Any) -> Row:
    """A call of the runtime or driver API on the main thread."""
    return "CUPTI_ACTIVITY_KIND_RUNTIME", {
        "start": start,
        "end": end,
        "globalTid": global_id(pid, pid),
        "correlationId": correlation,
        "nameId": Text(name),
        **more,
    }


def kernel(name: str, start: int, end: int, correlation: int, pid: int = 77, **more: Any) -> Row:
    """A kernel on stream 7 of device 0."""
    row = _work(start, end, correlation, pid)
    shape = {"gridX": 4, "gridY": 2, "gridZ": 1, "blockX": 128, "blockY": 1, "blockZ": 1}
    sizes = {"registersPerThread": 32, "staticSharedMemory": 100, "dynamicSharedMemory": 24}
    names = {"demangledName": Text(name), "shortName": Text(name.split("<")[0])}
    return "CUPTI_ACTIVITY_KIND_KERNEL", {**row, **shape, **sizes, **names, **more}


def copy(kind: int, start: int, end: int, correlation: int, **more: Any) -> Row:
    """A copy of 4096 bytes from pageable memory to the device."""
    row = {**_work(start, end, correlation, 77), "bytes": 4096, "copyKind": kind, "srcKind": 0, "dstKind": 2}
    return "CUPTI_ACTIVITY_KIND_MEMCPY", {**row, **more}


def fill(start: int, end: int, correlation: int, **more: Any) -> Row:
    """A fill of 64 bytes of the device's memory."""
    row = {**_work(start, end, correlation, 77), "value": 0, "bytes": 64, "memKind": 2}
    return "CUPTI_ACTIVITY_KIND_MEMSET", {**row, **more}


def graph(number: int, start: int, end: int, correlation: int) -> Row:
    """A graph that was recorded as a whole."""
    return "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {**_work(start, end, correlation, 77), "graphId": number}


def sync(kind: int, start: int, end: int, correlation: int, **more: Any) -> Row:
    """A synchronisation that belongs to no stream and no event."""
    none = (1 << 32) - 1
    row = {**_work(start, end, correlation, 77), "streamId": none, "syncType": kind, "eventId": none}
    return "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", {**row, **more}


def nvtx(text: str | None, start: int, end: int | None, pid: int = 77, **more: Any) -> Row:
    """A range that was pushed and popped on the main thread."""
    row = {
        "start": start,
        "end": end,
        "eventType": 59,
        "text": text,
        "globalTid": global_id(pid, pid),
        "domainId": 0,
    }
    return "NVTX_EVENTS", {**row, **more}


def whole(*rows: Row) -> list[Row]:
    """Rows of a file, with those beside that every export has."""
    return [
        ("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": EPOCH_NS, "utcTime": "2023-10-04T04:13:59"}),
        (
            "TARGET_INFO_GPU",
            {"vmId": 1 << 48, "id": 0, "name": "NVIDIA H100", "totalMemory": 80 << 30, "smCount": 132},
        ),
        ("PROCESSES", {"globalPid": global_id(), "pid": 77, "name": "python"}),
        ("ThreadNames", {"nameId": Text("pt_main_thread"), "priority": 20, "globalTid": global_id(77, 77)}),
        ("META_DATA_EXPORT", {"name": "EXPORT_SCHEMA_VERSION", "value": "3.16.1"}),
        *rows,
    ]


def write_export(path: Path, rows: Iterable[Row], without: Mapping[str, str] | None = None) -> Path:
    """Write a file with the tables that the rows are of.

    Args:
        path: where.
        rows: `(table, row)`; a column that a row lacks is NULL, a `Text` becomes its number.
        without: columns to leave out of a table, as an older nsys does; all of them: the table is left out.
    """
    strings: dict[str, int] = {}
    by_table: dict[str, list[dict[str, Any]]] = {"StringIds": []}
    for table, row in rows:
        plain = {
            key: strings.setdefault(str(value), len(strings) + 1) if isinstance(value, Text) else value
            for key, value in row.items()
        }
        by_table.setdefault(table, []).append(plain)
    by_table["StringIds"] += [{"id": number, "value": text} for text, number in strings.items()]
    with closing(sqlite3.connect(path)) as database:
        for table, some in by_table.items():
            left_out = (without or {}).get(table, "").split()
            columns = [name for name in LAYOUTS[table].split() if name not in left_out]
            if not columns:
                continue
            declared = ", ".join(f'"{name}" {_TYPES.get(name, "INTEGER")}' for name in columns)
            database.execute(f"CREATE TABLE {table} ({declared})")
            marks = ", ".join("?" * len(columns))
            database.executemany(
                f"INSERT INTO {table} VALUES ({marks})", [[row.get(name) for name in columns] for row in some]
            )
        database.commit()
    return path


def _work(start: int, end: int, correlation: int, pid: int) -> dict[str, Any]:
    place = {"deviceId": 0, "contextId": 1, "streamId": 7}
    return {"start": start, "end": end, "correlationId": correlation, "globalPid": global_id(pid), **place}
