"""What a dependency graph is made of, beside its flat arrays."""

from __future__ import annotations

from tracebraid.model.column import Column, Kind, Table

__all__ = ["ACTIVITIES", "GRAPH_COVERAGE", "GRAPH_STEPS", "LATENCIES"]

_INT, _FLOAT, _NAME, _TEXT, _JSON = Kind.INT, Kind.FLOAT, Kind.NAME, Kind.TEXT, Kind.JSON

ACTIVITIES = Table(
    "activities",
    "One row per activity of a dependency graph; by rank, collectives of several ranks last.",
    (
        Column("rank", _INT, "the rank; null: a collective of several ranks"),
        Column("event_id", _INT, "the event: its row in `events` of the rank's timeline; null: it has none"),
        Column("kind", _NAME, "what it is (`ActivityKind`)"),
        Column("name", _NAME, "name of the event, or of the thread; of a collective its type"),
        Column(
            "family",
            _NAME,
            "what kind of kernel it is (`KernelFamily`), of an op: launches; null: neither, or unknown",
        ),
        Column("op_event", _INT, "innermost op that it is or lies in, or that launched it; null: none"),
        Column("op", _NAME, "name of that op"),
        Column(
            "module",
            _NAME,
            "nn.Module in whose call it lies or was launched, of the backward that of the forward; null: none",
        ),
        Column("lane", _INT, "thread or stream: its row in `lanes` of the rank's timeline"),
        Column("stream", _INT, "number of the stream; null: it is on no device"),
        Column("group", _TEXT, "process group of communication, as in `matched_collectives`; else null"),
        Column("collective", _INT, "row of `matched_collectives`; null: no communication, or not matched"),
        Column("size_bytes", _INT, "bytes that are communicated, copied or filled; null: unknown"),
        Column("shapes", _JSON, "shapes of the inputs of `op_event`; null: not recorded"),
        Column("node_id", _INT, "Execution Trace node of `op_event`; null: there is none"),
        Column("step", _NAME, "the step in which it was issued; null: in none"),
        Column("start_ns", _INT, "start, on aligned clocks"),
        Column("end_ns", _INT, "end, on aligned clocks"),
    ),
)

GRAPH_COVERAGE = Table(
    "graph_coverage",
    "One row per rank, step, track, part and kind of time that there is; rows of a rank, step and track add up to "
    "the time of its threads or streams.",
    (
        Column("step", _TEXT, "the step; null: all of the graph"),
        Column("rank", _INT, "the rank"),
        Column("track", _NAME, "`host`: its threads, `device`: its streams (`Track`)"),
        Column("part", _NAME, "`work`, `latency`, `waiting` or `residual` (`TimePart`)"),
        Column(
            "kind",
            _NAME,
            "of work what does it (`ActivityKind`, `transfer`, or `transfer_bound` where ranks are missing); of "
            "latency and waiting the `EdgeKind`, of a residual the `Residual`, lower case",
        ),
        Column("ns", _INT, "how long, in ns"),
        Column("share", _FLOAT, "of the time of the rank, step and track, 0 to 1"),
    ),
)

GRAPH_STEPS = Table(
    "graph_steps",
    "One row per step and rank; where there are no steps, one row per rank, of all that there is.",
    (
        Column("step", _TEXT, "the step; null: the whole trace, which has no steps"),
        Column("rank", _INT, "the rank"),
        Column("start_moment", _INT, "moment at which it starts: row of the graph's moments"),
        Column("host_end_moment", _INT, "moment at which it ends on the host"),
        Column(
            "device_end_moment",
            _INT,
            "end of the last device work that was issued in it; null: there is none",
        ),
    ),
)

LATENCIES = Table(
    "latencies",
    "One row per latency that was learned from a rank's own edges, which they have as their work.",
    (
        Column("rank", _INT, "the rank"),
        Column("kind", _NAME, "the kind of edge (`EdgeKind`, lower case)"),
        Column(
            "key",
            _TEXT,
            "what tells apart several of a kind: of a launch the call and the kind of work, of stream order the "
            "kinds of both works, of a wait of the host the call; null: none",
        ),
        Column("edges", _INT, "edges that have it"),
        Column("samples", _INT, "edges on which the moment waited for nothing else: what it is learned from"),
        Column("typical_ns", _FLOAT, "the work of these edges, or their own time where that is less"),
        Column("low_ns", _FLOAT, "10th percentile of the samples; null: none"),
        Column("high_ns", _FLOAT, "their 90th percentile"),
        Column("source", _NAME, "what `typical_ns` comes from (`LatencySource`)"),
    ),
)
