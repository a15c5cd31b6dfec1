"""The nodes of an ET+ file that all its forms have: those of the Execution Trace, and ids for those of the devices."""

from __future__ import annotations

from collections.abc import Iterator

from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text

__all__ = ["first_device_id", "host_nodes", "process_node"]


def host_nodes(et: ExecutionTrace) -> Iterator[tuple[int, str, int]]:
    """(id, name, parent) of each node in the order of ids; a node without parent is its own, as PyTorch writes it."""
    for node, name, parent in et.nodes.select("node_id", as_text("name"), "parent_id").iter_rows():
        yield node, name, node if parent is None else parent


def process_node(et: ExecutionTrace) -> int:
    """The node that stands for the process: the parent of device work without an op."""
    lowest = et.nodes.get_column("node_id").min()
    assert isinstance(lowest, int), "an Execution Trace has nodes"
    return lowest


def first_device_id(et: ExecutionTrace) -> int:
    """The id of the first node of device work, above those of all host nodes."""
    highest = et.nodes.get_column("node_id").max()
    assert isinstance(highest, int), "an Execution Trace has nodes"
    return highest + 1
