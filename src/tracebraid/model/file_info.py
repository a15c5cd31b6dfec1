"""`FileInfo`: what a trace file is, in brief."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct, field

from tracebraid.model.finding import Finding


class DeviceSource(Enum):
    """Evidence of a file's devices."""

    HEADER = "header"
    EVENTS = "events"
    TENSORS = "tensors"
    NONE = "none"
    UNKNOWN = "unknown"


class FileInfo(Struct, frozen=True):
    """Description of a trace file.

    Args:
        path: the file.
        kind: `execution-trace`, `kineto-trace` or `nsys-export`.
        size_bytes: size on disk.
        schema: version of the format, as the file has it.
        torch: versions of torch that write such a file, as far as it shows.
        devices: names of the devices, or such as `cuda:0` where the file names none.
        device_source: where they were found: the header, the events, the tensors; `NONE`: the header says that there is
            none, and no event shows any; `UNKNOWN`: nothing in the file says.
        rank: the rank; None if it is not known.
        world_size: the number of ranks; None if it is not known.
        start_ns: start of the first event on the unix clock; None for an Execution Trace.
        span_ns: from the first event's start to the last one's end.
        steps: names of the profiler's steps.
        counts: events by category, or nodes by kind.
        findings: what was not as it should be.
    """

    path: str
    kind: str
    size_bytes: int
    schema: str
    torch: str
    devices: tuple[str, ...]
    rank: int | None
    world_size: int | None
    start_ns: int | None
    span_ns: int | None
    steps: tuple[str, ...]
    counts: dict[str, int]
    findings: tuple[Finding, ...] = field(default=())
    device_source: DeviceSource = DeviceSource.UNKNOWN
