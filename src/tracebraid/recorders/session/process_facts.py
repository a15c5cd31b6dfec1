"""Facts about the process for a trace: threads, cores, scheduling, CPU time, unrecorded steps."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import Any

from msgspec import Struct, field

from tracebraid.recorders.needs_torch import torch
from tracebraid.recorders.session.overhead import StepTimes

_TASKS = "/proc/self/task"
_OWN_GROUP = "/proc/self/cgroup"
_GROUPS = "/sys/fs/cgroup"
_READ_BYTES = 1 << 16

_MOST_THREADS = 256
"""Threads whose counters are read, at some 50 µs each: a process of more has a pool of threads that are alike."""

_THREAD_COUNTERS = ("cpu_ns", "run_queue_wait_ns", "voluntary_switches", "involuntary_switches")


class _Counters(Struct, frozen=True):
    """Counters of the process and of its threads, that rise."""

    wall_ns: int
    cpu_ns: int
    of_process: dict[str, int]
    of_threads: dict[int, tuple[int, ...]]

    @staticmethod
    def now() -> _Counters:
        of_threads = _thread_counters()
        return _Counters(time.perf_counter_ns(), time.process_time_ns(), _process_counters(), of_threads)


class ProcessFacts(Struct):
    """Measurement from `begin` to `found`."""

    times: StepTimes
    facts: dict[str, Any] = field(default_factory=dict)
    _begun: _Counters | None = None
    _step: dict[str, Any] = field(default_factory=dict)
    _steps: list[dict[str, Any]] = field(default_factory=list)

    def begin_step(self, number: int, name: str) -> None:
        """A step begins: its annotation is opened next, on this thread."""
        tid = threading.get_native_id()
        self._step = {"step": number, "name": name, "tid": tid, "begin_ns": time.time_ns()}

    def end_step(self) -> None:
        """It is over: its annotation was closed just now, on any thread."""
        self._steps.append({**self._step, "end_ns": time.time_ns()})

    def begin(self) -> None:
        """The window begins."""
        self._begun = _Counters.now()

    def found(self) -> dict[str, Any]:
        """The facts, for JSON: `model.capture_facts`."""
        begun, ended = self._begun, _Counters.now()
        assert begun is not None, "begin() comes first"
        facts: dict[str, Any] = {
            **self.times.before(),
            "steps": self._steps,
            "window_ns": ended.wall_ns - begun.wall_ns,
            "cpu_ns": ended.cpu_ns - begun.cpu_ns,
            "cpus": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "interop_threads": torch.get_num_interop_threads(),
            "torch": str(torch.__version__),
            "resident_bytes": [resident for resident, _ in self.times.memory if resident is not None],
            "device_bytes": [device for _, device in self.times.memory if device is not None],
            **{name: count - begun.of_process.get(name, count) for name, count in ended.of_process.items()},
        }
        with suppress(AttributeError, OSError):  # Not on every system.
            facts["cores"] = len(os.sched_getaffinity(0))
        with suppress(AttributeError, OSError):
            facts["load_1min"] = round(os.getloadavg()[0], 2)
        if (quota := _cpu_quota_cores()) is not None:
            facts["cpu_quota_cores"] = quota
        if ended.of_threads:
            facts["of_threads"] = _differences(begun.of_threads, ended.of_threads)
            facts["run_queue_wait_ns"] = sum(row["run_queue_wait_ns"] for row in facts["of_threads"])
        self.facts = facts
        return facts


def _differences(
    begun: dict[int, tuple[int, ...]], ended: dict[int, tuple[int, ...]]
) -> list[dict[str, Any]]:
    """What each thread's counters rose by; of a thread that began in between, from 0."""
    rows = []
    for tid, counters in ended.items():
        before = begun.get(tid, (0,) * len(counters))
        rises = (max(0, after - was) for after, was in zip(counters, before, strict=True))
        rows.append({"tid": tid, "name": _name(tid), **dict(zip(_THREAD_COUNTERS, rises, strict=True))})
    return rows


def _process_counters() -> dict[str, int]:
    """Switches of all threads, also of those that have ended, and the time for which the control group was stopped."""
    counters: dict[str, int] = {}
    with suppress(ImportError, OSError):  # Not on every system.
        import resource

        usage = resource.getrusage(resource.RUSAGE_SELF)
        counters |= {"voluntary_switches": usage.ru_nvcsw, "involuntary_switches": usage.ru_nivcsw}
    with suppress(OSError, ValueError, IndexError):
        known = dict(line.split() for line in _text(f"{_own_groups()[0]}/cpu.stat").splitlines())
        if "throttled_usec" in known:
            counters["throttled_ns"] = 1000 * int(known["throttled_usec"])
    return counters


def _thread_counters() -> dict[int, tuple[int, ...]]:
    """Values of `_THREAD_COUNTERS` of each thread; none if the system does not say."""
    found: dict[int, tuple[int, ...]] = {}
    with suppress(OSError):
        # `Path.iterdir` has frames of its own, which would be recorded.
        for tid in sorted(map(int, os.listdir(_TASKS)))[:_MOST_THREADS]:  # noqa: PTH208
            with suppress(OSError, ValueError):  # It has ended.
                cpu_ns, wait_ns, _ = map(int, _text(f"{_TASKS}/{tid}/schedstat").split())
                voluntary, involuntary = (
                    int(line.partition(":")[2])
                    for line in _text(f"{_TASKS}/{tid}/status").splitlines()
                    if line.startswith(("voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"))
                )
                found[tid] = (cpu_ns, wait_ns, voluntary, involuntary)
    return found


def _name(tid: int) -> str:
    with suppress(OSError):
        return _text(f"{_TASKS}/{tid}/comm").rstrip("\n")
    return ""


def _cpu_quota_cores() -> float | None:
    """CPU time per time that the process's control groups allow, the least of all; None: no limit, or unknown."""
    quotas = []
    for group in _own_groups():
        with suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = _text(f"{group}/cpu.max").split()
            quotas.append(int(quota) / int(period))
    return round(min(quotas), 3) if quotas else None


def _own_groups() -> list[str]:
    """The control group of the process, and those around it."""
    groups = []
    with suppress(OSError):
        for line in _text(_OWN_GROUP).splitlines():
            own = line.removeprefix("0::").rstrip("/") if line.startswith("0::/") else None
            while own is not None:
                groups.append(_GROUPS + own)
                own = own.rpartition("/")[0] if own else None
    return groups


def _text(path: str) -> str:
    """Content of a small file of the kernel: without a frame of Python's own, which would be recorded."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, _READ_BYTES).decode(errors="replace")
    finally:
        os.close(file)
