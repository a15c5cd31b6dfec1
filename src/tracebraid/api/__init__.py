"""One function per stage; each composes rooms and adds nothing of its own."""

from __future__ import annotations

from tracebraid.api.analyses import (
    analyses,
    analyze,
    breakdown,
    kernels,
    launchers,
    ops,
    steps,
    validity,
)
from tracebraid.api.building import build_recorder
from tracebraid.api.capturing import capture, export_reports, recorded_by_rank, run_captured, settings_of
from tracebraid.api.checking import check
from tracebraid.api.judging import judge
from tracebraid.api.repairing import repair
from tracebraid.api.traces import (
    Progress,
    demo_path,
    info,
    link,
    open,
    read_execution_trace,
    read_timeline,
    trace_files,
    write_et_plus,
    write_trace_link_et,
)

__all__ = [
    "Progress",
    "analyses",
    "analyze",
    "breakdown",
    "build_recorder",
    "capture",
    "check",
    "demo_path",
    "export_reports",
    "info",
    "judge",
    "kernels",
    "launchers",
    "link",
    "open",
    "ops",
    "read_execution_trace",
    "read_timeline",
    "recorded_by_rank",
    "repair",
    "run_captured",
    "settings_of",
    "steps",
    "trace_files",
    "validity",
    "write_et_plus",
    "write_trace_link_et",
]
