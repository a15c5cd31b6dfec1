"""The analyses that a report of a run asks, and how many rows of each are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ASKED", "ASKED_OF_JOB", "DETAILED_RANKS", "Asked"]

DETAILED_RANKS = 16
"""Of more ranks kernels, ops, memory ... are asked of so many, spread evenly: a page shows no more of them."""

_TABLE_ROWS = 2_000
"""Rows of a table, of all ranks together: about 100 KB of the page."""
_LONG_TABLE_ROWS = 500
"""Rows of a table with a row for each event."""
_SERIES_ROWS = 8_000
"""Points of a series, of all ranks together: more than any screen has pixels across."""
_JOB_ROWS = 5_000
"""Rows of a table of the job."""


@dataclass(frozen=True)
class Asked:
    """An analysis that a report asks.

    Args:
        name: its name.
        rows: how many rows of all ranks together are kept at most; None: all.
        by: those with the largest sum of these columns are kept; without columns the first. Of a series the column
            whose extremes are kept.
        is_series: whether its rows are points of series over `ts_ns`.
        of_every_rank: whether it is asked of every rank, however many there are.
        options: its options beside the annotation of steps.
    """

    name: str
    rows: int | None = None
    by: tuple[str, ...] = ()
    is_series: bool = False
    of_every_rank: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


ASKED: tuple[Asked, ...] = (
    # Of every rank: what the sections on the job compare.
    Asked("validity", of_every_rank=True),
    Asked("steps", of_every_rank=True),
    Asked("step_times", of_every_rank=True),
    Asked("step_spread", of_every_rank=True),
    Asked("breakdown", of_every_rank=True),
    # Time
    Asked("overlap"),
    Asked("exposed_collectives", _TABLE_ROWS, ("exposed_ns",)),
    Asked("idle_causes"),
    Asked("idle_blame", _TABLE_ROWS, ("idle_ns",)),
    Asked("idle_gaps", _LONG_TABLE_ROWS, ("dur_ns",)),
    Asked("stream_idle"),
    # Kernels and ops
    Asked("kernels", _TABLE_ROWS, ("total_ns",)),
    Asked("kernel_families"),
    Asked("kernels_by_op", _TABLE_ROWS, ("total_ns",)),
    Asked("launchers"),
    Asked("ops", _TABLE_ROWS, ("device_self_ns", "host_self_ns")),
    Asked("user_annotations", _TABLE_ROWS, ("host_total_ns",)),
    Asked(
        "modules",
        _TABLE_ROWS,
        (
            "device_forward_total_ns",
            "device_backward_total_ns",
            "host_forward_total_ns",
            "host_backward_total_ns",
        ),
    ),
    Asked("python_frames", _TABLE_ROWS, ("host_self_ns", "device_self_ns")),
    # Launches, queues, copies, waits
    Asked("launches", _TABLE_ROWS, ("host_ns",)),
    Asked("launch_bound", _LONG_TABLE_ROWS, ("gain_ns",)),
    Asked("queue_lengths"),
    Asked("queue_series", _SERIES_ROWS, ("length",), is_series=True),
    Asked("full_queue"),
    Asked("copies", _TABLE_ROWS, ("total_ns",)),
    Asked("copy_bandwidth"),
    Asked("syncs", _TABLE_ROWS, ("host_ns",)),
    # Efficiency
    Asked("op_costs", _TABLE_ROWS, ("device_ns",)),
    Asked("roofline", _TABLE_ROWS, ("device_ns",)),
    Asked("mfu"),
    # Memory
    Asked("memory_timeline", _SERIES_ROWS, ("allocated_bytes",), is_series=True),
    Asked("memory_peak"),
    Asked("memory_at_peak", _TABLE_ROWS, ("bytes",)),
    Asked("memory_growth"),
    Asked("activations", _TABLE_ROWS, ("bytes",)),
    Asked("allocations", _TABLE_ROWS, ("size_bytes",)),
    # Inference
    Asked("inference_phases", _TABLE_ROWS, ("span_ns",)),
    Asked("token_times"),
    Asked("graph_replays", _TABLE_ROWS, ("device_ns",)),
)
"""The analyses of a rank, in the order in which they are asked."""

ASKED_OF_JOB: tuple[Asked, ...] = (
    Asked("clocks"),
    Asked("matched_groups", _JOB_ROWS, ("members",)),
    Asked("collectives", _JOB_ROWS, ("transfer_ns", "waiting_ns")),
    Asked("collective_totals", _JOB_ROWS, ("caused_ns", "waiting_ns")),
    Asked("collective_bandwidth", _JOB_ROWS, ("transfer_ns",)),
    Asked("collective_fit"),
    Asked("collective_imbalance", _LONG_TABLE_ROWS, ("transfer_ns",)),
    Asked("rank_steps"),
    Asked("rank_waits", _JOB_ROWS, ("waiting_ns",)),
    Asked("late_arrivals", _JOB_ROWS, ("caused_ns", "lateness_ns")),
    Asked("stragglers"),
)
"""The analyses of the whole job."""
