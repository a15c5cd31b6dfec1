"""Schema of links: the tables that linking adds to a `LinkedTrace`."""

from __future__ import annotations

from tracebraid.model.column import Column, Kind, Table

_INT = Kind.INT
_FLOAT = Kind.FLOAT
_NAME = Kind.NAME
_TEXT = Kind.TEXT
_INTS = Kind.INTS

_EVENT_ID = Column("event_id", _INT, "the event: its row in `events`")
_NODE_ID = Column("node_id", _INT, "the Execution Trace node")

HOST_TREE = Table(
    "host_tree",
    "One row per host event that has a duration: op, annotation, call or Python function.",
    (
        _EVENT_ID,
        Column("parent_event", _INT, "innermost host event that encloses it on its thread; null at the top"),
        Column("op_event", _INT, "innermost op or annotation that encloses it, itself left out; null: none"),
        Column("depth", _INT, "number of host events that enclose it"),
        Column("body_start_ns", _INT, "annotations: the end of the call that opened it; else its start"),
        Column("body_end_ns", _INT, "annotations: the start of the call that closes it; else its end"),
        Column("inclusive_ns", _INT, "its duration, cut at the end of the op around it"),
        Column("exclusive_ns", _INT, "time of its body less that of the events directly inside"),
        Column(
            "op_exclusive_ns", _INT, "ops: inclusive time less that of the ops directly inside; else null"
        ),
    ),
)

HOST_LINKS = Table(
    "host_links",
    "One row per host op or annotation: the Execution Trace node that is the same op.",
    (
        _EVENT_ID,
        Column("node_id", _INT, "the node; null if none is proven"),
        Column(
            "method",
            _NAME,
            "`record_function_id`, `external_id`, `alignment`, `alignment_name`, `position`; null without a node",
        ),
        Column("confidence", _FLOAT, "1.0 for ids that names confirm; null without a node"),
        Column("reason", _NAME, "why there is no node, a code of `OrphanReason`; null with one"),
        Column("candidates", _INTS, "nodes that it could be as well as any other; null: none"),
    ),
)

NODE_LINKS = Table(
    "node_links",
    "One row per Execution Trace node: the host event that is the same op.",
    (
        _NODE_ID,
        Column("event_id", _INT, "the host event; null if none is proven"),
        Column("reason", _NAME, "why there is no event, a code of `OrphanReason`; null with one"),
        Column("candidates", _INTS, "host events that it could be as well as any other; null: none"),
    ),
)

_CALL = Column("call_event", _INT, "the host's call with its correlation; null: none in the trace")
_OP = Column("op_event", _INT, "innermost op that encloses that call, else annotation; null: none")
_LAUNCH_METHOD = Column("method", _NAME, "`correlation`, `external_id`; null without an op")
_LAUNCH_REASON = Column("reason", _NAME, "why there is no op, a code of `OrphanReason`; null with one")

LAUNCHES = Table(
    "launches",
    "One row per device event: its launch, by the Kineto trace only.",
    (_EVENT_ID, _CALL, _OP, _LAUNCH_METHOD, _LAUNCH_REASON),
)

DEVICE_LINKS = Table(
    "device_links",
    "One row per device event: its launch, and the Execution Trace node of the launch.",
    (
        _EVENT_ID,
        _CALL,
        _OP,
        Column(
            "node_id",
            _INT,
            "the Execution Trace node of that op, or of the nearest enclosing op that has one",
        ),
        _LAUNCH_METHOD,
        _LAUNCH_REASON,
    ),
)

FORWARD_BACKWARD = Table(
    "forward_backward",
    "One row per backward op whose forward op is known.",
    (
        Column("forward_event", _INT, "the forward op that made the autograd node"),
        Column("backward_event", _INT, "the backward op"),
        Column("sequence_number", _INT, "the sequence number that both carry"),
    ),
)

DEPENDENCIES = Table(
    "dependencies",
    "One row per dependency: a moment of one event that waits for a moment of another.",
    (
        Column("before_event", _INT, "the event that is waited for"),
        Column("before_moment", _NAME, "`start` or `end`: which moment of it is waited for"),
        Column("after_event", _INT, "the event that waits"),
        Column("after_moment", _NAME, "`start` or `end`: which moment of it waits"),
        Column(
            "kind",
            _NAME,
            "`launch`, `stream_order`, `event_wait`, `sync`, `inter_thread` or `forward_backward`",
        ),
        Column("slack_ns", _INT, "from the one moment to the other; below 0 by rounding only"),
        Column("evidence", _TEXT, "its proof"),
    ),
)


_BOOL = Kind.BOOL

ITERATIONS = Table(
    "iterations",
    "One row per iteration of the longer trace, if one has more of them than the other.",
    (
        Column("iteration", _INT, "its index, from 0"),
        Column("name", _TEXT, "its annotation's name, or `iteration` and its index"),
        Column("start_ns", _INT, "start of its first op; null if the Execution Trace is longer"),
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


_JSON = Kind.JSON

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
    "One row per rank: its clock relative to the reference, in the order of ranks.",
    (
        _RANK,
        Column("host", _TEXT, "name of its host; null: unknown"),
        Column("reference", _INT, "the rank whose clock all others are compared with"),
        Column("method", _TEXT, "how that is known (`ClockMethod`)"),
        Column("collectives", _INT, "matched collectives that it comes from"),
        Column(
            "at_ns",
            _INT,
            "moment on the rank's own clock at which `offset_ns` is valid; null: unknown, or any",
        ),
        Column("offset_ns", _INT, "is added to a time of this rank at `at_ns` to align it; null: unknown"),
        Column("offset_low_ns", _INT, "the least that it can be; null: unknown"),
        Column("offset_high_ns", _INT, "the most that it can be; null: unknown"),
        Column("drift_ppm", _FLOAT, "growth of `offset_ns`, in ns for each ms; 0 if not measured"),
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
        Column("type", _TEXT, "type of communication (`CollectiveType`); null: unknown"),
        Column("name", _TEXT, "the collective as the trace names it"),
        Column("library", _TEXT, "whose it is (NCCL, RCCL, gloo, vLLM, ...); null: unknown"),
        Column("device", _TEXT, "device on which it runs; `cpu` on the host"),
        Column("stream", _TEXT, "stream, or thread, on which it runs"),
        Column("kernel", _TEXT, "name of the kernel, or of the host's range"),
        Column("algorithm", _TEXT, "NCCL's algorithm, if the kernel's name has it"),
        Column("protocol", _TEXT, "NCCL's protocol, if the kernel's name has it"),
        Column(
            "communicator",
            _TEXT,
            "id of the communicator, or of the collective itself (PyTorch since 2026-03); null: unknown",
        ),
        Column("process_group", _TEXT, "name of the process group; ranks may name a group differently"),
        Column("description", _TEXT, "description of the process group"),
        Column("group_ranks", _JSON, "ranks of the process group, as a list; null: unknown"),
        Column("group_size", _INT, "ranks of the process group; null: unknown"),
        Column("evidence", _TEXT, "how the process group is known (`GroupEvidence`); null: it is not"),
        Column("sequence", _INT, "number of the collective in its group, as the trace says; null: unknown"),
        Column("source", _INT, "global rank of the sender or root; null: unknown, or there is none"),
        Column("destination", _INT, "global rank of the receiver; null: unknown, or there is none"),
        Column(
            "peers",
            _JSON,
            "sends and receives of one kernel, in the order of their issue, as a list of `type`, `peer` (global rank) "
            "and `size_bytes`; null: it is not several, or they are unknown",
        ),
        Column("dtype", _TEXT, "element type"),
        Column("in_bytes", _INT, "bytes that this rank sends; null: unknown"),
        Column("out_bytes", _INT, "bytes that this rank receives; null: unknown"),
        Column("in_split", _JSON, "parts for each rank, of an all-to-all; `[]`: equal ones; null: unknown"),
        Column("out_split", _JSON, "parts from each rank, of an all-to-all; as there"),
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
        Column("type", _TEXT, "type of communication (`CollectiveType`)"),
        Column("sequence", _INT, "number in its group, as the traces say; null: they do not"),
        Column("number", _INT, "number in its group by the order of the windows, from 0"),
        Column("dtype", _TEXT, "element type; null: unknown, or members differ"),
        Column("group_size", _INT, "ranks of the group; null: unknown"),
        Column("ranks", _INTS, "ranks with a known member"),
        Column("missing", _INTS, "ranks of the group without; null: the group's ranks are unknown"),
        Column("method", _TEXT, "how the members were matched (`MatchMethod`)"),
        Column("confidence", _FLOAT, "how sure that is, 0 to 1"),
        Column("agrees", _BOOL, "whether type, size and dtype agree between the members"),
    ),
)


ACTIVITIES = Table(
    "activities",
    "One row per activity of a dependency graph; by rank, collectives of several ranks last.",
    (
        Column("rank", _INT, "the rank; null: a collective of several ranks"),
        Column("event_id", _INT, "the event: its row in `events` of the rank's timeline; null: it has none"),
        Column("kind", _NAME, "its kind (`ActivityKind`)"),
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
        Column(
            "annotation", _NAME, "innermost annotation around it or its launch that is no step; null: none"
        ),
        Column(
            "frames",
            _NAME,
            "the user's Python functions around it or its launch, the outermost first, ` > ` between; null: none",
        ),
        Column("line", _INT, "line of the innermost of `frames` that calls what leads to it; null: unknown"),
        Column("host_work", _NAME, "host work in it (`HostWork`); null: it computes, launches or calls"),
        Column("lane", _INT, "thread or stream: its row in `lanes` of the rank's timeline"),
        Column("stream", _INT, "number of the stream; null: it is on no device"),
        Column("group", _TEXT, "process group of communication, as in `matched_collectives`; else null"),
        Column("type", _NAME, "type of communication, as in `matched_collectives`; else null"),
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
    "One row per step and rank; without steps, one row per rank for everything.",
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
        Column("samples", _INT, "samples: edges on which the moment waited for nothing else"),
        Column("typical_ns", _FLOAT, "the work of these edges, or their own time where that is less"),
        Column("low_ns", _FLOAT, "10th percentile of the samples; null: none"),
        Column("high_ns", _FLOAT, "their 90th percentile"),
        Column("source", _NAME, "source of `typical_ns` (`LatencySource`)"),
    ),
)
