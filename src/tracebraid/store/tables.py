"""The tables of a store, each by the name of its folder."""

from __future__ import annotations

from tracebraid.model import schema
from tracebraid.model.column import Table

__all__ = ["ET_TABLES", "LINK_TABLES", "MATCHED_TABLES", "STORED_TABLES", "TENSOR_TABLES", "TIMELINE_TABLES"]

TIMELINE_TABLES = {table.name: table for table in schema.KINETO_TABLES}
"""Of a `Timeline`."""

ET_TABLES = {
    "nodes": schema.ET_NODES,
    "values": schema.ET_VALUES,
    "et_collectives": schema.ET_COLLECTIVES,
    "extra_attrs": schema.ET_EXTRA_ATTRS,
    "et_process_groups": schema.PROCESS_GROUPS,
}
"""Of an `ExecutionTrace`; `et_` where a timeline has a table of that name."""

TENSOR_TABLES = {
    "tensors": schema.ET_TENSORS,
    "tensor_uses": schema.ET_TENSOR_USES,
    "tensor_edges": schema.ET_TENSOR_EDGES,
}
"""Of a `TensorGraph`."""

LINK_TABLES = {
    "host_tree": schema.HOST_TREE,
    "host_tree_by_et": schema.HOST_TREE,
    "host_links": schema.HOST_LINKS,
    "node_links": schema.NODE_LINKS,
    "launches": schema.LAUNCHES,
    "device_links": schema.DEVICE_LINKS,
    "forward_backward": schema.FORWARD_BACKWARD,
    "dependencies": schema.DEPENDENCIES,
}
"""Of the stages of a `LinkedTrace`."""

MATCHED_TABLES = {"iterations": schema.ITERATIONS, "node_times": schema.NODE_TIMES}
"""Of a `Matched`."""

STORED_TABLES: dict[str, Table] = {
    **TIMELINE_TABLES,
    "process_groups": schema.PROCESS_GROUPS,
    **ET_TABLES,
    **TENSOR_TABLES,
    **LINK_TABLES,
    **MATCHED_TABLES,
}
