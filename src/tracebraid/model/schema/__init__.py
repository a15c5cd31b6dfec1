"""The tables: what each row is, what each column means, its type and its unit. This is the design.

Times are int64 nanoseconds on the unix clock. `event_id` is the row of `Timeline.events`, in the order of the
file; it joins every table of a timeline. `node_id` is the id of a node of an Execution Trace. `kineto` holds what
is in a Kineto trace, `execution_trace` what is in an Execution Trace, `links` what linking adds, `matching` what
matching without ids adds, `ranks` what joins the ranks of a job, `graph` what a
dependency graph is made of. Tables of answers stand beside the functions that answer with them, shared ones in
`model/answers/`.
"""

from __future__ import annotations

from tracebraid.model.schema.execution_trace import (
    ET_COLLECTIVES,
    ET_EXTRA_ATTRS,
    ET_NODES,
    ET_TENSOR_EDGES,
    ET_TENSOR_USES,
    ET_TENSORS,
    ET_VALUES,
    PROCESS_GROUPS,
)
from tracebraid.model.schema.kineto import (
    COLLECTIVES,
    DETAIL_TABLES_BY_CATEGORY,
    DEVICE_WORK,
    EVENTS,
    EXTRA_ARGS,
    FLOWS,
    HOST_CALLS,
    HOST_OPS,
    KINETO_TABLES,
    LANES,
    MEMORY,
    OTHER_EVENTS,
    PYTHON_FUNCTIONS,
    SYNCS,
    UNUSABLE_DURATIONS,
)
from tracebraid.model.schema.links import (
    ACTIVITIES,
    CLOCKS,
    DEPENDENCIES,
    DEVICE_LINKS,
    ET_ITERATIONS,
    FORWARD_BACKWARD,
    GRAPH_STEPS,
    HOST_LINKS,
    HOST_TREE,
    ITERATIONS,
    LATENCIES,
    LAUNCHES,
    MATCHED_COLLECTIVES,
    MEMBERS,
    NODE_LINKS,
    NODE_TIMES,
    RANKS,
)

__all__ = [
    "ACTIVITIES",
    "CLOCKS",
    "COLLECTIVES",
    "DEPENDENCIES",
    "DETAIL_TABLES_BY_CATEGORY",
    "DEVICE_LINKS",
    "DEVICE_WORK",
    "ET_COLLECTIVES",
    "ET_EXTRA_ATTRS",
    "ET_ITERATIONS",
    "ET_NODES",
    "ET_TENSORS",
    "ET_TENSOR_EDGES",
    "ET_TENSOR_USES",
    "ET_VALUES",
    "EVENTS",
    "EXTRA_ARGS",
    "FLOWS",
    "FORWARD_BACKWARD",
    "GRAPH_STEPS",
    "HOST_CALLS",
    "HOST_LINKS",
    "HOST_OPS",
    "HOST_TREE",
    "ITERATIONS",
    "KINETO_TABLES",
    "LANES",
    "LATENCIES",
    "LAUNCHES",
    "MATCHED_COLLECTIVES",
    "MEMBERS",
    "MEMORY",
    "NODE_LINKS",
    "NODE_TIMES",
    "OTHER_EVENTS",
    "PROCESS_GROUPS",
    "PYTHON_FUNCTIONS",
    "RANKS",
    "SYNCS",
    "UNUSABLE_DURATIONS",
]
