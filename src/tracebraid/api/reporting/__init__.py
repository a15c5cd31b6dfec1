"""Reports: what they ask of a run, and how they are written."""

from __future__ import annotations

from tracebraid.api.reporting.report import report, write_report

__all__ = ["report", "write_report"]
