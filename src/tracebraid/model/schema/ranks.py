"""What joins the ranks of a job: the ranks themselves, their clocks, and what they communicate.

Clocks are of hosts. `clocks` says what to add to a rank's times; in `members` that is done.
"""

from __future__ import annotations

from tracebraid.model.column import Column, Kind, Table

__all__ = ["CLOCKS", "MATCHED_COLLECTIVES", "MEMBERS", "RANKS"]

_INT, _FLOAT, _BOOL, _TEXT, _INTS, _JSON = (
    Kind.INT,
    Kind.FLOAT,
    Kind.BOOL,
    Kind.TEXT,
    Kind.INTS,
    Kind.JSON,
)

_RANK = Column("rank", _INT, "the rank")

RANKS = Table(
    "ranks",
    "One row per rank that was read, in the order of ranks.",
    (
        _RANK,
        Column("host", _TEXT, "name of its host; null: the trace does not say"),
        Column("process_id", _INT, "the process; null: unknown"),
        Column("world_size", _INT, "ranks of the job, as this trace says; null: it does not"),
        Column("groups", _INT, "process groups that this trace lists; 0: it lists none"),
        Column("start_ns", _INT, "first event, on the rank's own clock; null: it has none"),
        Column("end_ns", _INT, "end of the last event, on the rank's own clock"),
        Column("path", _TEXT, "its Kineto trace"),
    ),
)

CLOCKS = Table(
    "clocks",
    "One row per rank: how its clock goes against that of the reference, in the order of ranks.",
    (
        _RANK,
        Column("host", _TEXT, "name of its host; null: unknown"),
        Column("reference", _INT, "the rank whose clock all others are compared with"),
        Column("method", _TEXT, "how that is known (`ClockMethod`)"),
        Column("collectives", _INT, "matched collectives that it comes from"),
        Column(
            "at_ns",
            _INT,
            "moment on the rank's own clock at which `offset_ns` holds; null: none is known, or at any",
        ),
        Column("offset_ns", _INT, "is added to a time of this rank at `at_ns` to align it; null: unknown"),
        Column("offset_low_ns", _INT, "the least that it can be; null: unknown"),
        Column("offset_high_ns", _INT, "the most that it can be; null: unknown"),
        Column(
            "drift_ppm", _FLOAT, "how much `offset_ns` grows, in ns for each ms; 0 where it is not measured"
        ),
        Column("drift_low_ppm", _FLOAT, "the least that it can be; null: unknown"),
        Column("drift_high_ppm", _FLOAT, "the most that it can be; null: unknown"),
    ),
)

MEMBERS = Table(
    "members",
    "One row per collective, send or receive of a rank: its part in it. By rank, then in the order of starts.",
    (
        _RANK,
        Column("event_id", _INT, "the event: its row in `events` of the rank's timeline"),
        Column("collective", _INT, "the row of `matched_collectives`; null: not matched"),
        Column(
            "group", _TEXT, "the group, as in `matched_collectives`; null: not compared with other ranks yet"
        ),
        Column("step", _TEXT, "the step in which it was issued; null: in none"),
        Column("type", _TEXT, "what is communicated (`CollectiveType`); null: unknown"),
        Column("name", _TEXT, "the collective as the trace names it"),
        Column("library", _TEXT, "whose it is (NCCL, RCCL, gloo, vLLM, ...); null: unknown"),
        Column("device", _TEXT, "device on which it runs; `cpu` on the host"),
        Column("stream", _TEXT, "stream, or thread, on which it runs"),
        Column("kernel", _TEXT, "name of the kernel, or of the host's range"),
        Column("algorithm", _TEXT, "NCCL's algorithm, where the kernel's name says it"),
        Column("protocol", _TEXT, "NCCL's protocol, where the kernel's name says it"),
        Column(
            "communicator",
            _TEXT,
            "id of the communicator, or of the collective itself (PyTorch since 2026-03); null: unknown",
        ),
        Column("process_group", _TEXT, "name of the process group; ranks may name a group differently"),
        Column("description", _TEXT, "description of the process group"),
        Column("group_ranks", _JSON, "ranks of the process group, as a list; null: unknown"),
        Column("group_size", _INT, "ranks of the process group; null: unknown"),
        Column("sequence", _INT, "number of the collective in its group, as the trace says; null: unknown"),
        Column("source", _INT, "global rank of the sender or root; null: unknown, or there is none"),
        Column("destination", _INT, "global rank of the receiver; null: unknown, or there is none"),
        Column("dtype", _TEXT, "element type"),
        Column("in_bytes", _INT, "what this rank gives; null: unknown"),
        Column("out_bytes", _INT, "what this rank gets; null: unknown"),
        Column("in_split", _JSON, "elements for each rank, of an uneven all-to-all"),
        Column("out_split", _JSON, "elements from each rank, of an uneven all-to-all"),
        Column("issued_ns", _INT, "start of the host's call that issued it; null: unknown"),
        Column("start_ns", _INT, "start: this rank's arrival"),
        Column("end_ns", _INT, "end"),
    ),
)

MATCHED_COLLECTIVES = Table(
    "matched_collectives",
    "One row per collective, or pair of a send and a receive, whose members were matched; in the order of starts.",
    (
        Column("collective", _INT, "row number"),
        Column(
            "group", _TEXT, "the group, by its communicator, its ranks or its name: the same for all ranks"
        ),
        Column("type", _TEXT, "what is communicated (`CollectiveType`)"),
        Column("sequence", _INT, "number in its group, as the traces say; null: they do not"),
        Column("number", _INT, "number in its group by the order of the windows, from 0"),
        Column("dtype", _TEXT, "element type; null: unknown, or members differ"),
        Column("group_size", _INT, "ranks of the group; null: unknown"),
        Column("ranks", _INTS, "ranks of which the member is there"),
        Column(
            "missing", _INTS, "ranks of the group of which it is not; null: the group's ranks are unknown"
        ),
        Column("method", _TEXT, "how the members were matched (`MatchMethod`)"),
        Column("confidence", _FLOAT, "how sure that is, 0 to 1"),
        Column("agrees", _BOOL, "whether type, size and dtype agree between the members"),
    ),
)
