"""Results as plain data: the keys that programs read."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from tracebraid.model.coverage import Count, Coverage, Orphans
from tracebraid.model.file_info import FileInfo
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.reason import OrphanKind, OrphanReason
from tracebraid.model.sentences import reason_sentence
from tracebraid.reports.machine import coverage_data, file_info_data, finding_data, rows_data

LEDGER = Coverage(
    host_ops=Count(1000, 990, {"record_function_id": 990}),
    et_nodes=Count(995, 990, {}),
    gpu_events=Count(50, 49, {"correlation": 48, "external_id": 1}),
    gpu_time_ns=(2000, 1500),
    orphans=(
        Orphans(OrphanKind.HOST_OP, OrphanReason.SEVERAL, 10),
        Orphans(OrphanKind.GPU_EVENT, OrphanReason.NO_CALL, 1),
    ),
    has_et=True,
)


def plain(data: Any) -> Any:
    """The data as JSON gives it back."""
    return json.loads(json.dumps(data))


def test_the_ledger_has_the_documented_keys() -> None:
    data = plain(coverage_data(3, LEDGER))
    assert data["rank"] == 3
    assert data["host_ops"] == {"total": 1000, "linked": 990, "by_method": {"record_function_id": 990}}
    assert data["gpu_events"] == {
        "total": 50,
        "attributed": 49,
        "by_method": {"correlation": 48, "external_id": 1},
    }
    assert data["gpu_time_ns"] == {"total": 2000, "attributed": 1500}
    assert [(one["reason"], one["count"]) for one in data["orphans"]] == [("several", 10), ("no-call", 1)]
    assert [one["sentence"] for one in data["orphans"]] == [
        reason_sentence(one.reason) for one in LEDGER.orphans
    ]


def test_the_ledger_says_its_share_and_what_each_orphan_is() -> None:
    data = plain(coverage_data(3, LEDGER))
    assert data["coverage"] == 0.75
    assert [one["kind"] for one in data["orphans"]] == ["host_op", "gpu_event"]


def test_a_finding_keeps_its_place_and_count() -> None:
    finding = Finding(FindingCode.EVENT_WITHOUT_TIME, "a.json", "byte 120", 3)
    assert plain(finding_data(finding)) == {
        "code": "event-without-time",
        "message": finding.message,
        "path": "a.json",
        "where": "byte 120",
        "count": 3,
    }


def test_rows_are_objects_with_nulls() -> None:
    frame = pl.DataFrame({"step": [None, "a"], "n": [1, 2]})
    assert plain(rows_data(frame)) == [{"step": None, "n": 1}, {"step": "a", "n": 2}]


def test_file_info_is_plain_data() -> None:
    info = FileInfo(
        path="a.json",
        kind="kineto-trace",
        size_bytes=12,
        schema="schemaVersion 1",
        torch="2.4 or newer",
        devices=("A100",),
        rank=None,
        world_size=2,
        start_ns=5,
        span_ns=6,
        steps=("ProfilerStep#1",),
        counts={"cpu_op": 3},
        findings=(Finding(FindingCode.NO_STEPS),),
    )
    data = plain(file_info_data(info))
    assert data["devices"] == ["A100"]
    assert data["rank"] is None
    assert data["steps"] == ["ProfilerStep#1"]
    assert data["counts"] == {"cpu_op": 3}
    assert data["findings"][0]["code"] == "no-steps"
    assert set(data) == {*FileInfo.__dataclass_fields__}
