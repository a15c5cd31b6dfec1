"""Do the Execution Trace's parents and the nesting in time agree on the linked ops?"""

from __future__ import annotations

import polars as pl

from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.finding import Finding
from tracebraid.model.nearest import nearest

__all__ = ["parents_that_differ"]


def parents_that_differ(et: ExecutionTrace, tree: pl.DataFrame, host_links: pl.DataFrame) -> list[Finding]:
    """A finding that counts the linked nodes whose nearest linked ancestor is not that of their op.

    Ids and names prove each link by themselves, so a node with a wrong parent stays linked. Kineto's nesting is
    the one to trust: PyTorch's observer loses track of parents when an operator ends on another thread.
    """
    linked = host_links.filter(pl.col("node_id").is_not_null()).select("event_id", "node_id")
    suspects = _with_another_parent(et, tree, linked)
    if suspects.is_empty():
        return []
    node_of = dict(linked.iter_rows())
    linked_nodes = set(node_of.values())
    parent_of = dict(et.nodes.select("node_id", "parent_id").iter_rows())
    around = dict(tree.select("event_id", "op_event").iter_rows())
    differ = []
    for event, node in suspects.iter_rows():
        outer = nearest(around[event], around, node_of)
        if nearest(parent_of[node], parent_of, linked_nodes) != (None if outer is None else node_of[outer]):
            differ.append(node)
    placed = linked.filter(pl.col("node_id").is_in(differ)).sort("node_id")
    if placed.is_empty():
        return []
    first = ", ".join(str(node) for node in placed.get_column("node_id").head(3))
    text = (
        f"of {linked.height:,} linked nodes, these have another parent than the op that was running around them "
        "(PyTorch's observer loses track where ops end on another thread); times follow the latter"
    )
    return [Finding("parents-differ", text, et.path, f"nodes {first}, ...", placed.height)]


def _with_another_parent(et: ExecutionTrace, tree: pl.DataFrame, linked: pl.DataFrame) -> pl.DataFrame:
    """The linked pairs whose parent and whose op around are not a linked pair: the few that need a closer look."""
    event_of_parent = linked.select(
        pl.col("node_id").alias("parent_id"), pl.col("event_id").alias("parent_event")
    )
    return (
        linked.join(et.nodes.select("node_id", "parent_id"), on="node_id")
        .join(event_of_parent, on="parent_id", how="left")
        .join(tree.select("event_id", "op_event"), on="event_id")
        .filter(pl.col("parent_event").ne_missing(pl.col("op_event")))
        .select("event_id", "node_id")
    )
