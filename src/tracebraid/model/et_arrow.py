"""An Execution Trace in columns: `.arrow.zip`, an archive with a table to an Arrow file and the header as JSON.

Its tables hold what an Execution Trace's JSON holds, before anything is made of it.
"""

from __future__ import annotations

from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.schema import ET_NODES, ET_TENSOR_USES, ET_TENSORS, ET_VALUES

__all__ = ["HEADER", "RECORDED_TABLES", "RECORDED_TENSOR_USES", "SUFFIX", "is_arrow", "member_of"]

SUFFIX = ".arrow.zip"
HEADER = "execution_trace.json"
"""The member of the archive that holds the members of the JSON form beside its nodes."""

RECORDED_TENSOR_USES = Table(
    "tensor_uses",
    "Uses of tensors as recorded, each with the members of the tensor's tuple.",
    (*ET_TENSOR_USES.columns[:-1], *ET_TENSORS.columns[1:-1]),
)
_ATTRS = Table(
    "attrs",
    "One row per attribute of a node that `nodes` has no column for.",
    (
        ET_NODES.column("node_id"),
        Column("key", Kind.NAME, "its name"),
        Column("type", Kind.NAME, "its type, as the trace has it"),
        Column("value", Kind.JSON, "its value, as JSON text"),
    ),
)
RECORDED_TABLES = (
    Table(ET_NODES.name, ET_NODES.doc, ET_NODES.columns[:-1]),
    ET_VALUES,
    RECORDED_TENSOR_USES,
    _ATTRS,
)
"""The tables of the archive."""


def is_arrow(name: str) -> bool:
    """Whether a file of this name is such an archive."""
    return name.lower().endswith(SUFFIX)


def member_of(table: Table) -> str:
    """The member of the archive that holds a table."""
    return f"{table.name}.arrow"
