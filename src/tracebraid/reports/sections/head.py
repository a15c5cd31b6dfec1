"""What was run: devices, ranks, torch, steps, and how far the figures can be trusted."""

from __future__ import annotations

from tracebraid.model.report.parts import DataTable, Facts, Section
from tracebraid.model.report.run_results import RunResults

__all__ = ["head"]


def head(results: RunResults) -> Section:
    """The section."""
    devices = dict.fromkeys(device for info in results.infos for device in info.devices)
    facts = Facts(
        [
            ("ranks", f"{len(results.ranks):,}"),
            ("devices", ", ".join(devices) or "CPU only"),
            ("path", results.path),
        ]
    )
    answer = results.answers["step_times"]
    table = DataTable("step-times", "Steps", answer.frame, answer.analysis.table, start_ns=results.start_ns)
    return Section("run", "The run", [facts, table])
