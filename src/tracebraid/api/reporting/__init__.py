"""Reports: what they ask of a run, and how they are written."""

from __future__ import annotations

from tracebraid.api.reporting.options import ReportOptions
from tracebraid.api.reporting.report import comparison_report, report, report_of, write_report

__all__ = ["ReportOptions", "comparison_report", "report", "report_of", "write_report"]
