"""What was converted to `.et` files, for people and for machines."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.text import Text

from tracebraid.model.chakra.converted import ConvertedChakra, ConvertedCounts
from tracebraid.reports.machine import finding_data
from tracebraid.reports.text import printable

__all__ = ["converted_data", "converted_lines"]

_LEFT = {
    "repeated": "with an id that another has",
    "untimed": "without a time",
    "communications_as_compute": "that communicate, of unknown type, size or peer, as compute",
    "waits_contradicted": "dependencies on a later node left out",
    "waits_unknown": "dependencies on a node without a time left out",
}


def converted_lines(converted: ConvertedChakra) -> list[Text]:
    """What each file holds, and what was left out."""
    lines = [
        f"{path}: {counts.host + counts.device:,} nodes, {counts.communications:,} of them communication{_left(counts)}"
        for path, counts in zip(converted.paths, converted.counts, strict=True)
    ]
    if converted.comm_groups is not None:
        lines.append(f"{converted.comm_groups}: ranks of the process groups")
    return [Text(printable(line)) for line in lines]


def converted_data(converted: ConvertedChakra) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "files": [
            {"path": str(path), **asdict(counts)}
            for path, counts in zip(converted.paths, converted.counts, strict=True)
        ],
        "comm_groups": None if converted.comm_groups is None else str(converted.comm_groups),
        "findings": [finding_data(finding) for finding in converted.findings],
    }


def _left(counts: ConvertedCounts) -> str:
    values = asdict(counts)
    parts = [f"{values[name]:,} {words}" for name, words in _LEFT.items() if values[name]]
    return f"; {', '.join(parts)}" if parts else ""
