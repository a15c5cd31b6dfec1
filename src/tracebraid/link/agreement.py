"""Do the Execution Trace's parents and the nesting in time agree on the linked ops?"""

from __future__ import annotations

import polars as pl

from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.finding import Finding

__all__ = ["parents_that_differ"]


def parents_that_differ(et: ExecutionTrace, tree: pl.DataFrame, host_links: pl.DataFrame) -> list[Finding]:
    """A finding that counts the linked nodes whose parent is linked to another op than the one around them.

    Ids and names prove each link by themselves, so a node with a wrong parent stays linked. Kineto's nesting is
    the one to trust: PyTorch's observer loses track of parents when an operator ends on another thread.
    """
    linked = host_links.filter(pl.col("node_id").is_not_null()).select("event_id", "node_id")
    event_of_parent = linked.select(
        pl.col("node_id").alias("parent_id"), pl.col("event_id").alias("parent_event")
    )
    placed = (
        linked.join(et.nodes.select("node_id", "parent_id"), on="node_id")
        .join(event_of_parent, on="parent_id", how="left")
        .join(tree.select("event_id", "op_event"), on="event_id")
        .with_columns(
            pl.when(pl.col("op_event").is_in(linked.get_column("event_id").implode())).then("op_event")
        )
        .filter(pl.col("parent_event").ne_missing(pl.col("op_event")))
        .sort("node_id")
    )
    if placed.is_empty():
        return []
    first = ", ".join(str(node) for node in placed.get_column("node_id").head(3))
    text = (
        f"of {linked.height:,} linked nodes, these have another parent than the op that was running around them "
        "(PyTorch's observer loses track where ops end on another thread); times follow the latter"
    )
    return [Finding("parents-differ", text, et.path, f"nodes {first}, ...", placed.height)]
