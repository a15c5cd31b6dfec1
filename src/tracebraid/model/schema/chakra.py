"""Nodes of Chakra's `.et` files in columns, and what of a rank's communication becomes such nodes."""

from __future__ import annotations

from tracebraid.model.column import Column, Kind, Table

__all__ = ["CHAKRA_COMMUNICATION", "CHAKRA_NODES"]

_INT, _BOOL, _NAME, _TEXT, _JSON = Kind.INT, Kind.BOOL, Kind.NAME, Kind.TEXT, Kind.JSON

CHAKRA_NODES = Table(
    "chakra_nodes",
    "One row per node of an `.et` file, in the order of the file; what it waits for stands beside the table. "
    "Columns behind `duration_micros` are attributes of these names; those behind `tensor_size` are our own.",
    (
        Column("node_id", _INT, "its id, unique in the file"),
        Column("name", _NAME, "its name"),
        Column("type", _NAME, "Chakra's `NodeType`, such as `COMP_NODE`"),
        Column(
            "start_time_micros",
            _INT,
            "start in us, on a clock of its own; simulators do not read it; null: none",
        ),
        Column("duration_micros", _INT, "what it takes in us, rounded so that no chain of nodes drifts"),
        Column(
            "is_cpu_op", _BOOL, "whether the host does it; null: not said, which simulators take as false"
        ),
        Column(
            "comm_type", _NAME, "Chakra's `CollectiveCommType`, such as `ALL_REDUCE`; null: no collective"
        ),
        Column("comm_size", _INT, "bytes as simulators count them; null: no communication"),
        Column("comm_priority", _INT, "null: not said"),
        Column("comm_src", _INT, "dense rank that sends, of a receive; null: none"),
        Column("comm_dst", _INT, "dense rank that receives, of a send; null: none"),
        Column(
            "comm_tag", _INT, "what pairs a send with its receive, with both ranks and the size; null: none"
        ),
        Column(
            "pg_name",
            _TEXT,
            "number of the process group as text, as in the comm-group file; null: all ranks",
        ),
        Column("num_ops", _INT, "floating-point operations; null: unknown"),
        Column("tensor_size", _INT, "bytes that it reads and writes at least; null: unknown"),
        Column("duration_ns", _INT, "what it takes in ns; null: the file does not say"),
        Column(
            "kind", _NAME, "what it stands for: an `ActivityKind`, or `delay`; null: the file does not say"
        ),
        Column("op", _NAME, "name of the innermost op; null: none"),
        Column("et_node_id", _INT, "node of that op in the Execution Trace; null: there is none"),
        Column("event_id", _INT, "event of the Kineto trace; null: none, or several"),
        Column(
            "shapes", _JSON, "shapes of the inputs of the op, in `Node.inputs.shapes`; null: not recorded"
        ),
        Column("module", _NAME, "nn.Module; null: none"),
        Column("step", _NAME, "the step in which it was issued; null: in none"),
        Column("stream", _INT, "stream of the device; null: on the host, or merged"),
        Column("thread", _INT, "thread of the host; null: on a device"),
        Column(
            "collective", _NAME, "what the trace calls the communication, before it was mapped; null: none"
        ),
        Column(
            "inputs",
            _JSON,
            "what else `Node.inputs` holds: a JSON object with the texts of `values` and `types`; process groups stand "
            "in `values` of a `METADATA_NODE`; null: nothing",
        ),
        Column("outputs", _JSON, "likewise of `Node.outputs`, with `shapes`; null: nothing"),
        Column(
            "attributes",
            _JSON,
            "all further attributes as a JSON object: integers (`int64_val`), numbers with a point (`double_val`), "
            "booleans and texts as they are; of other types, or with a `doc_string`, an object such as "
            '`{"uint32_val": 7}`; of a name that is there several times, a list. For an attribute that has a column, '
            'but another type than the usual one, `{"type": "uint64_val"}`; null: none',
        ),
    ),
)

CHAKRA_COMMUNICATION = Table(
    "chakra_communication",
    "One row per communication node that an event of a rank becomes: most events have one, a kernel of sends and "
    "receives several; in the order in which the rank has to issue them.",
    (
        Column("event_id", _INT, "the event of the rank's timeline"),
        Column("type", _NAME, "Chakra's `NodeType`"),
        Column("comm_type", _NAME, "Chakra's `CollectiveCommType`; null: a send or receive"),
        Column("comm_size", _INT, "bytes as simulators count them"),
        Column("comm_src", _INT, "dense rank that sends, of a receive; null: none"),
        Column("comm_dst", _INT, "dense rank that receives, of a send; null: none"),
        Column("comm_tag", _INT, "what pairs a send with its receive; null: none"),
        Column("pg_name", _TEXT, "number of the process group as text; null: all ranks"),
        Column("collective", _NAME, "what the trace calls it: a `CollectiveType`, or the name of the op"),
        Column("transfer_ns", _INT, "time from the last arrival to its own end: what the transfer took"),
        Column(
            "order",
            _INT,
            "its position among all communication of the job: ascending on every rank, so that ranks which issue "
            "in this order never wait for each other in a circle",
        ),
    ),
)
