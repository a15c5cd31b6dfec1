"""Which columns of nodes are attributes in an `.et` file, and how each is written."""

from __future__ import annotations

from enum import Enum

__all__ = ["ATTRIBUTE_COLUMNS", "AttributeKind"]


class AttributeKind(Enum):
    """How an attribute is written: the member of `AttributeProto`'s `value` that holds it.

    Its value is the member's number in the schema.
    """

    INT32 = 7
    INT64 = 9
    UINT64 = 13
    BOOL = 27
    STRING = 29


_INT32, _INT64, _UINT64 = AttributeKind.INT32, AttributeKind.INT64, AttributeKind.UINT64
_BOOL, _STRING = AttributeKind.BOOL, AttributeKind.STRING

ATTRIBUTE_COLUMNS: dict[str, AttributeKind] = {
    "is_cpu_op": _BOOL,
    "comm_type": _INT64,
    "comm_size": _INT64,
    "comm_priority": _INT32,
    "comm_src": _INT32,
    "comm_dst": _INT32,
    "comm_tag": _INT32,
    "pg_name": _STRING,
    "num_ops": _INT64,
    "tensor_size": _UINT64,
    "duration_ns": _INT64,
    "kind": _STRING,
    "op": _STRING,
    "et_node_id": _INT64,
    "event_id": _INT64,
    "module": _STRING,
    "step": _STRING,
    "stream": _INT64,
    "thread": _INT64,
    "collective": _STRING,
}
"""In the order in which they are written. Kinds of what simulators read are those that Chakra's own feeder asks for:
it takes 0 for an attribute of another kind. `shapes` stands in `Node.inputs`, where Chakra's tools have it."""
