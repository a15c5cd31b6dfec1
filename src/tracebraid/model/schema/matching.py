"""Iterations, and what matching without ids adds: the tables of a `Matched`."""

from __future__ import annotations

from tracebraid.model.column import Column, Kind, Table

__all__ = ["ET_ITERATIONS", "ITERATIONS", "NODE_TIMES"]

_INT, _FLOAT, _BOOL, _TEXT = Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.TEXT

ITERATIONS = Table(
    "iterations",
    "One row per iteration of the longer trace, where one holds more of them than the other.",
    (
        Column("iteration", _INT, "its index, from 0"),
        Column("name", _TEXT, "its annotation's name, or `iteration` and its index"),
        Column(
            "start_ns", _INT, "start of its first op; null where it is the Execution Trace that is longer"
        ),
        Column("ops", _INT, "number of ops"),
        Column(
            "agreement",
            _FLOAT,
            "share of the shorter trace's ops with the same name in the same order from here on; null: it ends before",
        ),
        Column("is_chosen", _BOOL, "it was matched"),
    ),
)

ET_ITERATIONS = Table(
    "et_iterations",
    "One row per iteration of an Execution Trace, in order.",
    (
        Column("iteration", _INT, "its index, from 0"),
        Column("name", _TEXT, "the name of its annotation"),
        Column("first_node", _INT, "the node that begins it"),
        Column("last_node", _INT, "its last node to start, on any thread"),
        Column("nodes", _INT, "number of its nodes"),
    ),
)

NODE_TIMES = Table(
    "node_times",
    "One row per matched node of an Execution Trace of one iteration: its times over all iterations.",
    (
        Column("node_id", _INT, "the Execution Trace node"),
        Column("iterations", _INT, "in how many iterations its op was found"),
        Column("min_ns", _INT, "shortest duration"),
        Column("median_ns", _FLOAT, "median duration"),
        Column("mean_ns", _FLOAT, "mean duration"),
        Column("max_ns", _INT, "longest duration"),
        Column("std_ns", _FLOAT, "standard deviation; null for one iteration"),
    ),
)
