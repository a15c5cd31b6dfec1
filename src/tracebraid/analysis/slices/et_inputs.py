"""Shapes and types of ops as the Execution Trace has them."""

from __future__ import annotations

import polars as pl

from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["et_inputs"]


def et_inputs(linked: LinkedTrace, nodes: pl.Series) -> pl.DataFrame:
    """`shapes` and `types` of the inputs of some nodes, JSON lists; null where the node is.

    Args:
        linked: one rank.
        nodes: ids of nodes, with nulls; named `node_id`.
    """
    nothing = pl.Series("shapes", [None] * len(nodes), dtype=pl.String)
    if linked.et is None or nodes.null_count() == len(nodes):
        return pl.DataFrame([nothing, nothing.alias("types")])
    quoted = (
        as_text("type").str.replace_all("\\", "\\\\", literal=True).str.replace_all('"', '\\"', literal=True)
    )
    listed = [
        as_text("shape").fill_null("null").alias("shapes"),
        pl.format('"{}"', quoted.fill_null("")).alias("types"),
    ]
    inputs = linked.et.values.filter(
        ~pl.col("is_output") & pl.col("node_id").is_in(nodes.drop_nulls().implode())
    )
    lists = (
        inputs.sort("node_id", "position")
        .select("node_id", *listed)
        .group_by("node_id")
        .agg(pl.format("[{}]", pl.col(name).str.join(",")).alias(name) for name in ("shapes", "types"))
    )
    found = nodes.alias("node_id").to_frame().join(lists, on="node_id", how="left", maintain_order="left")
    return found.select("shapes", "types")
