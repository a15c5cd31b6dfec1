"""Kineto categories, a line each: device work, host call, operator, ..."""

from __future__ import annotations

from enum import Enum


class Role(Enum):
    """Role of a category's events in a program."""

    OP = "op"
    """Operator on the host: ATen, autograd, collectives."""
    ANNOTATION = "annotation"
    """Range named by the user or the framework, on the host."""
    CALL = "call"
    """Call of a runtime or driver API on the host."""
    PYTHON = "python"
    """Python function on the host."""
    DEVICE_WORK = "device-work"
    """Work that occupies a device: kernel, copy, fill."""
    DEVICE_ANNOTATION = "device-annotation"
    """Range of an annotation on the device."""
    SYNC = "sync"
    """Synchronisation recorded by the device."""
    INSTANT = "instant"
    """Event without duration, such as an allocation."""
    OTHER = "other"
    """Overhead, counters and unknown events."""


class Work(Enum):
    """Device work that a category is of by its name."""

    KERNEL = "kernel"
    COPY = "copy"
    """Copy or fill of memory."""
    COLLECTIVE = "collective"


class Category(Enum):
    """A category of events: its value is its name in the file.

    Attributes:
        role: role of its events.
        platform: type of the devices that alone have it; None: CUDA and ROCm, or several.
        work: kind of its device work, if its name says it.
    """

    role: Role
    platform: str | None
    work: Work | None

    CPU_OP = "cpu_op", Role.OP
    USER_ANNOTATION = "user_annotation", Role.ANNOTATION
    CUDA_RUNTIME = "cuda_runtime", Role.CALL
    CUDA_DRIVER = "cuda_driver", Role.CALL
    MTIA_RUNTIME = "mtia_runtime", Role.CALL, "mtia"
    GLOW_RUNTIME = "glow_runtime", Role.CALL, "glow"
    XPU_RUNTIME = "xpu_runtime", Role.CALL, "xpu"
    XPU_DRIVER = "xpu_driver", Role.CALL, "xpu"
    PRIVATEUSE1_RUNTIME = "privateuse1_runtime", Role.CALL, "privateuse1"
    PRIVATEUSE1_DRIVER = "privateuse1_driver", Role.CALL, "privateuse1"
    PYTHON_FUNCTION = "python_function", Role.PYTHON
    KERNEL = "kernel", Role.DEVICE_WORK, None, Work.KERNEL
    GPU_MEMCPY = "gpu_memcpy", Role.DEVICE_WORK, None, Work.COPY
    GPU_MEMSET = "gpu_memset", Role.DEVICE_WORK, None, Work.COPY
    MTIA_CCP_EVENTS = "mtia_ccp_events", Role.DEVICE_WORK, "mtia"
    HPU_OP = "hpu_op", Role.DEVICE_WORK, "hpu"
    COLLECTIVE_COMM = "collective_comm", Role.DEVICE_WORK, None, Work.COLLECTIVE
    GPU_USER_ANNOTATION = "gpu_user_annotation", Role.DEVICE_ANNOTATION
    CUDA_SYNC = "cuda_sync", Role.SYNC
    CUDA_EVENT = "cuda_event", Role.SYNC
    XPU_SYNC = "xpu_sync", Role.SYNC, "xpu"
    CPU_INSTANT_EVENT = "cpu_instant_event", Role.INSTANT
    CUDA_PROFILER_RANGE = "cuda_profiler_range", Role.OTHER
    GRAPH_EVENT_NODE = "graph_event_node", Role.OTHER
    """Node of a CUDA graph that records an event."""
    GRAPH_HOST_NODE = "graph_host_node", Role.OTHER
    """Node of a CUDA graph that runs a function on the host: the stream waits, and the device has no work."""
    EXTERNAL_CORRELATION = "external_correlation", Role.OTHER
    HARDWARE_COUNTERS = "hardware_counters", Role.OTHER
    MTIA_COUNTERS = "mtia_counters", Role.OTHER, "mtia"
    MTIA_INSIGHT = "mtia_insight", Role.OTHER, "mtia"
    OVERHEAD = "overhead", Role.OTHER
    XPU_SCOPE_PROFILER = "xpu_scope_profiler", Role.OTHER, "xpu"
    TRACE = "Trace", Role.OTHER
    """The profiler's own span over all that it recorded."""

    def __new__(
        cls, name: str, role: Role, platform: str | None = None, work: Work | None = None
    ) -> Category:
        """The member of a name, which is its value."""
        category = object.__new__(cls)
        category._value_ = name
        category.role, category.platform, category.work = role, platform, work
        return category


CATEGORY_BY_OLD_NAME = {
    "Operator": Category.CPU_OP.value,
    "User Annotation": Category.USER_ANNOTATION.value,
    "Runtime": Category.CUDA_RUNTIME.value,
    "Kernel": Category.KERNEL.value,
    "Memcpy": Category.GPU_MEMCPY.value,
    "Memset": Category.GPU_MEMSET.value,
    "Python": Category.PYTHON_FUNCTION.value,
    "Python Function": Category.PYTHON_FUNCTION.value,
}
"""Today's category for each that Kineto and PyTorch wrote until 2022."""


def categories_of(*wanted: Role | Work) -> list[str]:
    """The categories of these roles or kinds of device work, in the order of their declaration."""
    return [category.value for category in Category if category.role in wanted or category.work in wanted]
