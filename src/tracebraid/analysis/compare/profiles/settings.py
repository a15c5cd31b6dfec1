"""What was a run made with: devices, versions, and what the profiler recorded?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.devices import devices_of_timeline
from tracebraid.analysis.info import timeline_info
from tracebraid.model.answers import DiffSetting
from tracebraid.model.category import Role
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["settings_of"]

_FLAGS = {
    DiffSetting.RECORD_SHAPES: "record_shapes",
    DiffSetting.WITH_STACK: "with_stack",
    DiffSetting.PROFILE_MEMORY: "profile_memory",
    DiffSetting.WITH_MODULES: "with_modules",
}
"""Members of the file's header; those that are 0 are left out in many."""

_DRIVERS = ("cuda_driver_version", "hip_driver_version")


def settings_of(linked: LinkedTrace, spans: pl.Series, steps: pl.DataFrame) -> dict[DiffSetting, str | None]:
    """The settings of a rank, as text; null: unknown.

    What was recorded shows in the events; the header says it only in files of torch 2.1 or newer.

    Args:
        linked: one rank.
        spans: lengths of its steps, in ns.
        steps: its steps; none: the whole trace is compared.
    """
    timeline = linked.timeline
    devices, _ = devices_of_timeline(timeline)
    driver = next((str(timeline.header[key]) for key in _DRIVERS if key in timeline.header), None)
    shown = {
        DiffSetting.RECORD_SHAPES: _has_any(timeline.host_ops, "input_dims"),
        DiffSetting.WITH_STACK: not timeline.of_role(Role.PYTHON).is_empty(),
        DiffSetting.PROFILE_MEMORY: not timeline.tables["memory"].is_empty(),
        DiffSetting.WITH_MODULES: _has_any(timeline.host_ops, "module_hierarchy"),
    }
    flags = {
        setting: "yes" if shown[setting] or timeline.header.get(key) == 1 else "no"
        for setting, key in _FLAGS.items()
    }
    host = timeline.of_role(Role.OP, Role.ANNOTATION, Role.CALL, Role.PYTHON).height
    world = timeline.world_size
    return {
        DiffSetting.PATH: timeline.path,
        DiffSetting.RANKS: str(linked.rank),
        DiffSetting.WORLD_SIZE: None if world is None else str(world),
        DiffSetting.DEVICES: ", ".join(sorted(set(devices))) or None,
        DiffSetting.TORCH: timeline_info(timeline, 0).torch or None,
        DiffSetting.DRIVER: driver,
        DiffSetting.STEPS: str(len(steps)),
        **flags,
        DiffSetting.HOST_EVENTS: str(round(host / max(1, len(spans)))),
        DiffSetting.OVERHEAD: str(_overhead_ns(linked) // max(1, len(spans))),
    }


def _has_any(frame: pl.DataFrame, column: str) -> bool:
    values = frame.get_column(column)
    return values.null_count() < len(values)


def _overhead_ns(linked: LinkedTrace) -> int:
    events = linked.timeline.events.filter(as_text("category") == "overhead")
    return int(events.get_column("dur_ns").sum())
