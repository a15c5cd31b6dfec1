"""Schema of an export's ledger: files, headers, coverage and findings."""

from __future__ import annotations

from tracebraid.model.column import Column, Kind, Table

_INT, _FLOAT, _NAME, _TEXT, _JSON = Kind.INT, Kind.FLOAT, Kind.NAME, Kind.TEXT, Kind.JSON

_RANK = Column("rank", _INT, "the rank")

FILES = Table(
    "files",
    "One row per rank that was read.",
    (
        _RANK,
        Column("kineto", _TEXT, "the Kineto trace, from the opened folder"),
        Column("execution_trace", _TEXT, "the Execution Trace, likewise; null: none"),
        Column("world_size", _INT, "number of ranks of the job; null: unknown"),
        Column("base_time_ns", _INT, "origin of the times in the file; those of the tables are absolute"),
        Column("start_ns", _INT, "first start of an event; null: no events"),
        Column("end_ns", _INT, "last end of an event; null: no events"),
        Column("et_schema", _TEXT, "version of the Execution Trace's form; null: none"),
    ),
)

HEADERS = Table(
    "headers",
    "One row per member of a trace file beside its events or nodes.",
    (
        _RANK,
        Column("file", _NAME, "`kineto` or `execution_trace`"),
        Column("key", _NAME, "the member's name"),
        Column("value", _JSON, "its value, as JSON text"),
    ),
)

COVERAGE = Table(
    "coverage",
    "One row per rank, kind of thing to link, and method: how much was linked.",
    (
        _RANK,
        Column("kind", _NAME, "`host_op`, `et_node`, `gpu_event`, or `gpu_time_ns`: time of GPU events"),
        Column("method", _NAME, "by which method; null: by any"),
        Column("total", _INT, "how many there are; of `gpu_time_ns` their time in ns; null for one method"),
        Column("linked", _INT, "how many of them were linked"),
        Column("share", _FLOAT, "linked share of total, 0 to 1; 1 if there is nothing to link"),
    ),
)

ORPHANS = Table(
    "orphans",
    "One row per rank, kind and reason: orphans.",
    (
        _RANK,
        Column("kind", _NAME, "`host_op`, `et_node` or `gpu_event`"),
        Column("reason", _NAME, "why, a code of `OrphanReason`"),
        Column("count", _INT, "how many"),
    ),
)

FINDINGS = Table(
    "findings",
    "One row per finding in the files.",
    (
        Column("code", _NAME, "its code, of `FindingCode`"),
        Column("message", _TEXT, "the same as a sentence"),
        Column("file", _TEXT, "the file; null if it concerns several"),
        Column("location", _TEXT, "the first locations in it; null: none"),
        Column("count", _INT, "number of occurrences"),
        Column("lost_at_least", _INT, "events or nodes that are lost with it; null: nothing is"),
        Column("lost_at_most", _INT, "upper bound of the loss; null: no loss, or unknown"),
    ),
)
