"""How well a replay of a dependency graph reproduces the run."""

from __future__ import annotations

from tracebraid.model.column import Column, Kind, Table

__all__ = ["REPLAY_ERRORS"]

_INT, _FLOAT, _TEXT = Kind.INT, Kind.FLOAT, Kind.TEXT

REPLAY_ERRORS = Table(
    "replay_errors",
    "One row per step and rank, and one per step of the whole job: its time in a replay that uses no measured start.",
    (
        Column("step", _TEXT, "the step; null: the whole trace, which has no steps"),
        Column("rank", _INT, "the rank; null: the whole job"),
        Column(
            "measured_ns", _INT, "from the end of the step before to its own end; of the first step its span"
        ),
        Column("replayed_ns", _INT, "the same in a replay with residuals as other steps have them"),
        Column(
            "error",
            _FLOAT,
            "by what share of `measured_ns` the replayed time is longer; null: it took no time",
        ),
        Column(
            "modelled_share",
            _FLOAT,
            "of the whole job: share of the replayed time, along its latest chain, that is residuals; else null",
        ),
        Column(
            "next_ns",
            _INT,
            "what the step before says that it takes: time (after the first step: span) in a replay with residuals "
            "learned from that step alone; null: there is none before",
        ),
        Column(
            "next_error", _FLOAT, "by what share of its time (span) `next_ns` is longer; null: as `next_ns`"
        ),
    ),
)
