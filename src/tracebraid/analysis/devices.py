"""Which devices is a trace of, and how is that known?"""

from __future__ import annotations

import polars as pl

from tracebraid.model.category import Role, categories_of
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.file_info import DeviceSource
from tracebraid.model.timeline import Timeline

__all__ = ["devices_of_execution_trace", "devices_of_timeline"]

_TYPE_BY_CATEGORY = {
    "mtia_runtime": "mtia",
    "mtia_ccp_events": "mtia",
    "xpu_runtime": "xpu",
    "xpu_driver": "xpu",
    "hpu_op": "hpu",
    "glow_runtime": "glow",
    "privateuse1_runtime": "privateuse1",
    "privateuse1_driver": "privateuse1",
}
_TYPE_BY_CALL_PREFIX = {"hip": "hip", "cuda": "cuda", "cu": "cuda"}
"""The first that fits counts: ROCm writes its calls under the category `cuda_runtime`."""

_TYPE_BY_NUMBER = {
    1: "cuda",
    6: "hip",
    9: "xla",
    12: "xpu",
    13: "mps",
    15: "hpu",
    19: "mtia",
    20: "privateuse1",
}
"""`c10::DeviceType` as allocations carry it, where it is no CPU and no mere layout."""

_UNKNOWN_TYPE = "device"


def devices_of_timeline(timeline: Timeline) -> tuple[tuple[str, ...], DeviceSource]:
    """Names as the header has them; else what the events show, such as `cuda:0`; else none, and why none."""
    if timeline.device_names:
        return tuple(timeline.device_names), DeviceSource.HEADER
    of_work, of_memory = _numbers_of_work(timeline), _types_of_memory(timeline)
    kind = _type_of_events(timeline) or (_UNKNOWN_TYPE if of_work else None)
    if of_work:
        return tuple(f"{kind}:{number}" for number in of_work), DeviceSource.EVENTS
    if of_memory or kind:
        return of_memory or (str(kind),), DeviceSource.EVENTS
    if timeline.header.get("deviceProperties") == [] and not _communicates_on_devices(timeline):
        return (), DeviceSource.NONE
    return (), DeviceSource.UNKNOWN


def devices_of_execution_trace(et: ExecutionTrace) -> tuple[tuple[str, ...], DeviceSource]:
    """Devices of its tensors."""
    devices = et.tensors.get_column("device").cast(pl.String).drop_nulls().unique().sort().to_list()
    found = tuple(device for device in devices if device)
    return found, DeviceSource.TENSORS if found else DeviceSource.UNKNOWN


def _numbers_of_work(timeline: Timeline) -> list[str]:
    work = (
        timeline.of_role(Role.DEVICE_WORK)
        .select("event_id", "lane")
        .join(timeline.device_work.select("event_id", "device"), on="event_id", how="left")
        .join(timeline.lanes.select("lane", "pid", "pid_text"), on="lane", how="left")
        .select(pl.coalesce(as_text("device", "pid"), "pid_text").alias("device"))
    )
    numbers = work.get_column("device").drop_nulls().unique().to_list()
    return sorted(numbers, key=lambda number: (len(number), number))


def _type_of_events(timeline: Timeline) -> str | None:
    categories = timeline.events.get_column("category").cast(pl.String).unique().drop_nulls().sort().to_list()
    for category in categories:
        if category in _TYPE_BY_CATEGORY:
            return _TYPE_BY_CATEGORY[category]
    if not set(categories) & set(categories_of(Role.CALL)):
        return None
    names = timeline.of_role(Role.CALL).get_column("name").cast(pl.String).unique().to_list()
    return next(
        (
            kind
            for prefix, kind in _TYPE_BY_CALL_PREFIX.items()
            if any(name.startswith(prefix) for name in names)
        ),
        None,
    )


def _types_of_memory(timeline: Timeline) -> tuple[str, ...]:
    rows = timeline.tables["memory"].select("device_type", "device_id").unique().drop_nulls().sort(pl.all())
    return tuple(
        f"{_TYPE_BY_NUMBER[number]}:{device}"
        for number, device in rows.iter_rows()
        if number in _TYPE_BY_NUMBER
    )


def _communicates_on_devices(timeline: Timeline) -> bool:
    """Whether the process groups are of a library that only devices use."""
    info = timeline.header.get("distributedInfo")
    backend = str(info.get("backend", "")) if isinstance(info, dict) else ""
    return "ccl" in backend
