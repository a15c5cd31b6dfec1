"""What is exported of a rank beside its tables: its files and their headers, coverage and orphans."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import polars as pl

from tracebraid.filesystem.paths import within as path_within
from tracebraid.model.coverage import Count
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.printable import encodable
from tracebraid.model.schema import ledger

__all__ = ["coverage_frame", "files_frame", "headers_frame", "orphans_frame", "within"]


def within(opened: str, path: str) -> str:
    """A file's path from the opened folder, with `/`; its name where it lies elsewhere."""
    return encodable(path_within(opened, path))


def files_frame(linked: LinkedTrace, opened: str) -> pl.DataFrame:
    """`FILES` of a rank of the job that was opened by a path."""
    timeline, et = linked.timeline, linked.et
    start_ns, end_ns = timeline.span_ns or (None, None)
    row = {
        "rank": linked.rank,
        "kineto": within(opened, timeline.path),
        "execution_trace": within(opened, et.path) if et is not None else None,
        "world_size": timeline.world_size,
        "base_time_ns": timeline.base_time_ns,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "et_schema": et.schema if et is not None else None,
    }
    return pl.DataFrame([row], schema=ledger.FILES.polars_schema())


def headers_frame(linked: LinkedTrace) -> pl.DataFrame:
    """`HEADERS` of a rank."""
    headers = {"kineto": linked.timeline.header}
    if linked.et is not None:
        headers["execution_trace"] = linked.et.header
    rows = [
        {"rank": linked.rank, "file": file, "key": key, "value": _json(value)}
        for file, header in headers.items()
        for key, value in header.items()
    ]
    return pl.DataFrame(rows, schema=ledger.HEADERS.polars_schema())


def coverage_frame(linked: LinkedTrace) -> pl.DataFrame:
    """`COVERAGE` of a rank."""
    coverage = linked.coverage
    total_ns, attributed_ns = coverage.gpu_time_ns
    counts = {
        "host_op": coverage.host_ops,
        "et_node": coverage.et_nodes,
        "gpu_event": coverage.gpu_events,
        "gpu_time_ns": Count(total_ns, attributed_ns, {}),
    }
    rows = [row for kind, count in counts.items() for row in _count_rows(linked.rank, kind, count)]
    return pl.DataFrame(rows, schema=ledger.COVERAGE.polars_schema())


def orphans_frame(linked: LinkedTrace) -> pl.DataFrame:
    """`ORPHANS` of a rank."""
    rows = [
        {
            "rank": linked.rank,
            "kind": orphans.kind.value,
            "reason": orphans.reason.value,
            "count": orphans.count,
        }
        for orphans in linked.coverage.orphans
    ]
    return pl.DataFrame(rows, schema=ledger.ORPHANS.polars_schema())


def _count_rows(rank: int, kind: str, count: Count) -> Iterator[dict[str, object]]:
    same = {"rank": rank, "kind": kind}
    yield {**same, "method": None, "total": count.total, "linked": count.linked, "share": count.share}
    for method, linked in count.by_method.items():
        share = linked / count.total if count.total else 1.0
        yield {**same, "method": method, "total": None, "linked": linked, "share": share}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
