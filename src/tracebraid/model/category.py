"""What each Kineto category is: work on the device, a call of the host, an operator, ...

One table, so that every stage means the same thing by "a GPU event" on CUDA, ROCm, MTIA and XPU.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["CATEGORY_BY_OLD_NAME", "ROLE_BY_CATEGORY", "Role", "categories_of"]


class Role(Enum):
    """The part that the events of a category play in a program."""

    OP = "operator on the host (ATen, autograd, collectives on the host)"
    ANNOTATION = "range named by the user or the framework, on the host"
    CALL = "call of a runtime or driver API on the host"
    PYTHON = "Python function on the host"
    DEVICE_WORK = "work that occupies a device: kernel, copy, fill"
    DEVICE_ANNOTATION = "an annotation as the device ran it"
    SYNC = "synchronisation seen from the device"
    INSTANT = "a moment, such as an allocation"
    OTHER = "overhead, counters and what is not known"


ROLE_BY_CATEGORY: dict[str, Role] = {
    "cpu_op": Role.OP,
    "user_annotation": Role.ANNOTATION,
    "cuda_runtime": Role.CALL,
    "cuda_driver": Role.CALL,
    "mtia_runtime": Role.CALL,
    "glow_runtime": Role.CALL,
    "xpu_runtime": Role.CALL,
    "xpu_driver": Role.CALL,
    "privateuse1_runtime": Role.CALL,
    "privateuse1_driver": Role.CALL,
    "python_function": Role.PYTHON,
    "kernel": Role.DEVICE_WORK,
    "gpu_memcpy": Role.DEVICE_WORK,
    "gpu_memset": Role.DEVICE_WORK,
    "mtia_ccp_events": Role.DEVICE_WORK,
    "hpu_op": Role.DEVICE_WORK,
    "collective_comm": Role.DEVICE_WORK,
    "gpu_user_annotation": Role.DEVICE_ANNOTATION,
    "cuda_sync": Role.SYNC,
    "cuda_event": Role.SYNC,
    "xpu_sync": Role.SYNC,
    "cpu_instant_event": Role.INSTANT,
    "cuda_profiler_range": Role.OTHER,
    "external_correlation": Role.OTHER,
    "hardware_counters": Role.OTHER,
    "mtia_counters": Role.OTHER,
    "mtia_insight": Role.OTHER,
    "overhead": Role.OTHER,
    "xpu_scope_profiler": Role.OTHER,
    "Trace": Role.OTHER,
}

CATEGORY_BY_OLD_NAME: dict[str, str] = {
    "Operator": "cpu_op",
    "User Annotation": "user_annotation",
    "Runtime": "cuda_runtime",
    "Kernel": "kernel",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
    "Python": "python_function",
    "Python Function": "python_function",
}
"""Today's category for each that Kineto and PyTorch wrote until 2022."""


def categories_of(*roles: Role) -> list[str]:
    """The categories that play one of these roles, in the table's order."""
    return [category for category, role in ROLE_BY_CATEGORY.items() if role in roles]
