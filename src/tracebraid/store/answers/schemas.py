"""What answers of ranks look like that are no analysis of their own: what questions about a job take of each rank."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import polars as pl

from tracebraid.model.answers import EVIDENCE
from tracebraid.model.schema.ranks import MEMBERS, RANKS

__all__ = ["schemas"]

_Schema = Mapping[str, pl.DataType]

_INT, _FLOAT, _TEXT, _BOOL = pl.Int64(), pl.Float64(), pl.String(), pl.Boolean()
_STEP: _Schema = {"rank": _INT, "step": _TEXT}
_LENGTHS = (
    *(
        "span_ns",
        "device_span_ns",
        "compute_ns",
        "communication_ns",
        "overlap_ns",
        "exposed_communication_ns",
    ),
    *("exposed_memory_ns", "idle_ns", "launch_bound_ns"),
)
_TIMES = ("mean_ns", "median_ns", "p95_ns", "median_interval_ns", "tokens_per_second")
_FLOPS = ("span_ns", "model_flops", "hardware_flops")


@cache
def schemas() -> Mapping[str, _Schema]:
    """Their columns and dtypes, by the questions' names."""
    gathered: dict[str, _Schema] = {
        "members": MEMBERS.polars_schema(),
        "measured_steps": {
            **_STEP,
            "occurrence": _INT,
            **dict.fromkeys(_LENGTHS, _INT),
            "warmup": _BOOL,
            "doubtful": _BOOL,
        },
        "steps_of_rank": {**_STEP, **_ints("start_ns", "span_ns", "compute_ns", "idle_ns")},
        "rank_segments": {
            **_ints("rank", "event_id"),
            "kind": pl.Int8(),
            "name": _TEXT,
            "merged": _BOOL,
            **_ints("communication", "time_ns", "count"),
        },
        "flops_of_steps": {**_STEP, **_ints(*_FLOPS), "peak_flops_per_s": _FLOAT, "doubtful": _BOOL},
        "memory_of_devices": {
            "rank": _INT,
            "device": _TEXT,
            **_ints("allocated_bytes", "reserved_bytes"),
        },
        "times_of_phases": {
            "rank": _INT,
            "phase": _TEXT,
            **dict.fromkeys(_TIMES, _FLOAT),
            "with_doubtful": _BOOL,
        },
        "step_compute": {**_STEP, **_ints("length_ns", "compute_ns")},
        "collective_sites": EVIDENCE.polars_schema(),
    }
    return {
        "rank_facts": RANKS.polars_schema(),
        "advice.evidence": {**EVIDENCE.polars_schema(), "detector": _TEXT},
        "advice.windows": {**_STEP, **_ints("start_ns", "end_ns")},
        **{f"gather.{name}": schema for name, schema in gathered.items()},
    }


def _ints(*names: str) -> _Schema:
    return dict.fromkeys(names, _INT)
