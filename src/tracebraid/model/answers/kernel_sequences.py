"""Answers about kernels in their order: sequences that come back, what an op launches, the nodes of a graph."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.answers.columns import DOUBTFUL, RANK, STEP_OF_LAUNCH
from tracebraid.model.column import Column, Kind, Table

__all__ = ["GRAPH_KERNELS", "KERNEL_SEQUENCES", "OP_KERNEL_SEQUENCES", "CaptureMatch"]

_INT, _FLOAT, _TEXT = Kind.INT, Kind.FLOAT, Kind.TEXT


class CaptureMatch(Enum):
    """How a kernel of a graph was joined to the launch that was captured for it, or why it was not."""

    NODE_ORDER = "node-order"
    STREAM_ORDER = "stream-order"
    NO_CAPTURE = "no-capture"
    SEVERAL_CAPTURES = "several-captures"
    FAMILIES_DIFFER = "families-differ"


_PATTERN = "names of its kernels, as a JSON list; of more than 32 the first 32"

KERNEL_SEQUENCES = Table(
    "kernel_sequences",
    "One row per sequence of kernels that comes back on a stream; the most time between its kernels first. "
    "No kernel lies in two of the occurrences: the rows of a step can be added.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("op", _TEXT, "the op or annotation that launched it, as asked for; null: any"),
        Column("length", _INT, "kernels in the sequence"),
        Column("pattern", _TEXT, _PATTERN),
        Column("first_event", _INT, "the first kernel of its first occurrence: its row in `events`"),
        Column("count", _INT, "occurrences that overlap no other of it, nor any of a sequence chosen before"),
        Column(
            "complete",
            _INT,
            "occurrences that no other kernel precedes or follows within the op or the stretch",
        ),
        Column("device_ns", _INT, "duration of the kernels of all occurrences"),
        Column(
            "gap_ns",
            _INT,
            "time between them in which their stream was empty: what a fused kernel would save",
        ),
        Column(
            "launch_ns",
            _INT,
            "host time in the calls that launched them, without the first of each occurrence: what a graph would save",
        ),
        Column(
            "op_ns",
            _INT,
            "host time of the ops that launched the occurrences; null where no op was asked for",
        ),
        DOUBTFUL,
    ),
)

OP_KERNEL_SEQUENCES = Table(
    "op_kernel_sequences",
    "One row per op and sequence of kernels that it launched itself, the most device time first.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("op", _TEXT, "the op's name"),
        Column("op_category", _TEXT, "`cpu_op` or `user_annotation`"),
        Column("length", _INT, "device events that it launches"),
        Column("pattern", _TEXT, _PATTERN),
        Column("count", _INT, "runs of the op with this sequence"),
        Column("device_ns", _INT, "duration of all their kernels"),
        Column(
            "op_launch_delay_ns",
            _FLOAT,
            "mean time from the op's start to its first launch; null: no launch is known",
        ),
        Column(
            "runtime_delay_ns",
            _FLOAT,
            "mean time from the first launch's start to the start of its kernel; null: no launch is known",
        ),
        DOUBTFUL,
    ),
)

GRAPH_KERNELS = Table(
    "graph_kernels",
    "One row per graph and node: what ran when the graph was launched, in the order of its nodes.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("graph", _INT, "number of the graph in this answer, from 0, in the order of first launches"),
        Column("graph_id", _INT, "the graph's id in the trace; null: the trace has none"),
        Column("launches", _INT, "launches of the graph"),
        Column("node", _INT, "number of the node in the graph, from 0"),
        Column("graph_node_id", _INT, "the node's id in the trace; null: the trace has none"),
        Column("family", _TEXT, "a code of `KernelFamily`; by the op, where it is known"),
        Column("name", _TEXT, "name of the kernel or copy"),
        Column("op", _TEXT, "op that launched it when the graph was captured; null: not known, see `method`"),
        Column("op_event", _INT, "that op: its row in `events`; null without an op"),
        Column("method", _TEXT, "how the op was found, or why not: a code of `CaptureMatch`"),
        Column(
            "confidence",
            _FLOAT,
            "of the graph's nodes whose op and name both show a family the share where these agree; null: no such node",
        ),
        Column("count", _INT, "how often it ran"),
        Column("total_ns", _INT, "sum of its durations"),
        Column(
            "mean_ns", _FLOAT, "mean duration, doubtful steps left out unless asked for; null: none is left"
        ),
        Column("share", _FLOAT, "of the sum of the graph's kernels' durations, 0 to 1"),
        DOUBTFUL,
    ),
)
