"""What calls of runtimes and drivers do, by their names: a table for CUDA, HIP, MTIA, Level Zero and Unified Runtime.

A call is known by what it launched wherever the trace has that; names are for what leaves no work on a device.
"""

from __future__ import annotations

from enum import Enum

import polars as pl

__all__ = ["PATTERNS", "CallAction", "call_does"]


class CallAction(Enum):
    """What a call does."""

    LAUNCH_KERNEL = (
        "it launches a kernel, which runs or, while a stream is captured, becomes a node of a graph"
    )
    LAUNCH_GRAPH = "it launches a graph"
    BEGIN_CAPTURE = "it begins the capture of a stream into a graph"
    END_CAPTURE = "it ends that"
    MAKE_GRAPH = "it makes a graph that can be launched of what was captured"
    COPY = "it copies memory"
    FILL = "it fills memory"
    MAKE_STREAM_WAIT = "it makes a stream wait for an event; the host does not"
    WAIT_FOR_EVENT = "the host waits for an event of a device"
    WAIT_FOR_STREAM = "the host waits for a stream, queue, fence or list of commands"
    WAIT = "the host waits for a device or a part of it"
    QUERY = "it asks whether an event or a stream has come to its end, and does not wait"
    MANAGE_MEMORY = "it takes, registers or releases memory of host or device"
    ALLOCATE_ON_DEVICE = "it takes memory from a device"
    RELEASE_ON_DEVICE = "it gives memory back to a device"
    ASYNCHRONOUS = "it says of itself that it does not wait"


PATTERNS: dict[CallAction, str] = {
    CallAction.LAUNCH_KERNEL: "Launch",
    CallAction.LAUNCH_GRAPH: "GraphLaunch",
    CallAction.BEGIN_CAPTURE: "StreamBeginCapture",
    CallAction.END_CAPTURE: "StreamEndCapture",
    CallAction.MAKE_GRAPH: "GraphInstantiate",
    CallAction.COPY: "(?i)memcpy",
    CallAction.FILL: "(?i)memset",
    CallAction.MAKE_STREAM_WAIT: "(?i)StreamWaitEvent",
    CallAction.WAIT_FOR_EVENT: "(?i)event(host)?_?synchronize|synchronizeevent|eventwait$",
    CallAction.WAIT_FOR_STREAM: (
        "(?i)(stream|queue|fence|commandlist)(host)?_?synchronize|synchronizestream|(queue|stream)_?finish"
    ),
    CallAction.WAIT: "(?i)synchronize",
    CallAction.QUERY: "(?i)(event|stream)_?query|queryevent",
    CallAction.MANAGE_MEMORY: (
        r"(?i)^(cuda|hip|cu|mtia|ze|sycl|ur)?(mem)?(host|array|3d)?(malloc|alloc|free|release$)"
        r"|^(cuda|hip)(host|ipc)?(un)?register"
    ),
    CallAction.ALLOCATE_ON_DEVICE: (
        r"^(cuda|hip)(Ext)?Malloc(Async|Managed|Pitch|3D|FromPoolAsync|WithFlags)?(_|$)"
        r"|^(cuMem(Alloc|Create|Map)|hipMem(Create|Map))|^zeMemAlloc(Device|Shared)|^urUSM(Device|Shared)Alloc"
    ),
    CallAction.RELEASE_ON_DEVICE: (
        r"^(cuda|hip)Free(Async)?(_|$)|^(cuMem(Free|Unmap|Release)|hipMem(Unmap|Release))|^zeMemFree|^urUSMFree"
    ),
    CallAction.ASYNCHRONOUS: "(?i)async",
}
"""A regular expression for each, searched for in a call's name."""

_EXCEPT = {
    CallAction.LAUNCH_KERNEL: "Graph|HostFunc",
    CallAction.COPY: "Graph",
    CallAction.FILL: "Graph",
    CallAction.ALLOCATE_ON_DEVICE: "Host",
    CallAction.RELEASE_ON_DEVICE: "Host",
}
"""What must not stand in the name: nodes of a graph are made, not run; pinned memory is the host's."""


def call_does(name: pl.Expr, action: CallAction) -> pl.Expr:
    """Whether a call does something, by its name. Null stays null.

    Args:
        name: names of calls, as text.
        action: what it may do.
    """
    found = name.str.contains(PATTERNS[action])
    return found & ~name.str.contains(_EXCEPT[action]) if action in _EXCEPT else found
