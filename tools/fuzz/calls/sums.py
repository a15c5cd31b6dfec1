"""Do the parts of a rank's answers add up to what the documentation says?"""

from __future__ import annotations

from functools import partial

import polars as pl

import tracebraid
from tools.fuzz.calls.judged_tables import wrong
from tracebraid.model.category import Role
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["judge_sums"]


def judge_sums(linked: LinkedTrace) -> None:
    """Ask what adds up: breakdowns to their spans, kernels and launchers to the device's work, idle time to its gaps.

    Raises:
        FailureError: something does not.
    """
    breakdown = tracebraid.breakdown(linked)
    _parts(
        breakdown,
        "breakdown",
        "span_ns",
        "compute_ns",
        "exposed_communication_ns",
        "exposed_memory_ns",
        "idle_ns",
    )
    _parts(breakdown, "breakdown", "communication_ns", "overlap_ns", "exposed_communication_ns")
    overlap = tracebraid.overlap(linked)
    _parts(overlap, "overlap", "communication_ns", "overlap_ns", "exposed_ns")
    for per_step in (False, True):
        _idle(linked, breakdown, per_step)
    _device_time(linked)
    ops = tracebraid.ops(linked)
    for where in ("host", "device"):
        if not ops.filter(pl.col(f"{where}_self_ns") > pl.col(f"{where}_total_ns")).is_empty():
            raise wrong(f"an op has more {where} time of its own than with all in it")


def _parts(frame: pl.DataFrame, name: str, whole: str, *parts: str) -> None:
    """The parts of every row add up to the whole, as integers of any size."""
    off = frame.select(whole, *parts).filter(
        pl.sum_horizontal(pl.col(*parts).cast(pl.Int128)) != pl.col(whole).cast(pl.Int128)
    )
    if not off.is_empty():
        raise wrong(f"{name}: {' + '.join(parts)} is not {whole}: {off.row(0)}")


def _idle(linked: LinkedTrace, breakdown: pl.DataFrame, per_step: bool) -> None:
    """Causes, blame and gaps are all of the idle time."""
    whole = breakdown.filter(pl.col("step").is_not_null() if per_step else pl.col("step").is_null())
    expected = _sum(whole, "idle_ns")
    for name in ("idle_causes", "idle_blame"):
        found = tracebraid.analyze(name, linked, per_step=per_step).frame
        rows = found.filter(pl.col("step").is_not_null() if per_step else pl.col("step").is_null())
        if name == "idle_causes" and _sum(rows, "idle_ns") != expected:
            raise wrong(f"{name}(per_step={per_step}): {_sum(rows, 'idle_ns')} of {expected} ns")
        if _sum(rows, "idle_ns") > expected:
            raise wrong(f"{name}(per_step={per_step}): {_sum(rows, 'idle_ns')} of {expected} ns")


def _device_time(linked: LinkedTrace) -> None:
    """Kernels, launchers and families hold all work of the device, once."""
    work = linked.timeline.of_role(Role.DEVICE_WORK)
    expected = (work.height, _sum(work, "dur_ns"))
    ask = partial(tracebraid.analyze, traces=linked)
    for name, count, total in (
        ("kernels", "count", "total_ns"),
        ("kernels_by_op", "count", "total_ns"),
        ("kernel_families", "count", "total_ns"),
        ("launchers", "kernels", "device_ns"),
    ):
        frame = ask(name).frame
        if (_sum(frame, count), _sum(frame, total)) != expected:
            raise wrong(f"{name}: {_sum(frame, count)} events of {_sum(frame, total)} ns, not {expected}")


def _sum(frame: pl.DataFrame, column: str) -> int:
    return int(frame.get_column(column).cast(pl.Int128).sum())
