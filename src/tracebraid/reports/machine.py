"""Results as plain data for JSON: what `--json` prints."""

from __future__ import annotations

from typing import Any

import msgspec
import polars as pl
from msgspec.structs import asdict

from tracebraid.model.coverage import Count, Coverage
from tracebraid.model.file_info import FileInfo
from tracebraid.model.finding import Finding, reason_sentence
from tracebraid.model.printable import printable_json


def coverage_data(rank: int, coverage: Coverage) -> dict[str, Any]:
    """Return the coverage ledger of a rank."""
    total_ns, attributed_ns = coverage.gpu_time_ns
    return {
        "rank": rank,
        "host_ops": _count(coverage.host_ops, "linked"),
        "et_nodes": {"total": coverage.et_nodes.total, "linked": coverage.et_nodes.linked},
        "gpu_events": _count(coverage.gpu_events, "attributed"),
        "gpu_time_ns": {"total": total_ns, "attributed": attributed_ns},
        "coverage": coverage.share,
        "orphans": [
            {
                "kind": orphans.kind.value,
                "reason": orphans.reason.value,
                "sentence": reason_sentence(orphans.reason),
                "count": orphans.count,
            }
            for orphans in coverage.orphans
        ],
    }


def file_info_data(info: FileInfo) -> dict[str, Any]:
    """Return the description of a file."""
    return {
        "path": info.path,
        "kind": info.kind,
        "size_bytes": info.size_bytes,
        "schema": info.schema,
        "torch": info.torch,
        "devices": list(info.devices),
        "device_source": info.device_source.value,
        "rank": info.rank,
        "world_size": info.world_size,
        "start_ns": info.start_ns,
        "span_ns": info.span_ns,
        "steps": list(info.steps),
        "counts": info.counts,
        "findings": [finding_data(finding) for finding in info.findings],
    }


def finding_data(finding: Finding) -> dict[str, Any]:
    """Return a finding; `loss` if events or nodes are lost, with `at_most` null if unknown."""
    loss = {} if finding.loss is None else {"loss": asdict(finding.loss)}
    return {
        "code": finding.code.value,
        "message": finding.message,
        "path": finding.path,
        "where": finding.where,
        "count": finding.count,
        **loss,
    }


def rows_data(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as objects."""
    return frame.to_dicts()


def rows_json(frame: pl.DataFrame) -> bytes:
    """Encode the rows of a table as a JSON list of objects."""
    return printable_json(msgspec.json.format(msgspec.json.encode(rows_data(frame)), indent=2)) + b"\n"


def _count(count: Count, word: str) -> dict[str, Any]:
    return {"total": count.total, word: count.linked, "by_method": count.by_method}
