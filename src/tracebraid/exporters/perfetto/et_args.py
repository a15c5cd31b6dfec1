"""What the Execution Trace says of the nodes of ops: shapes and types of what goes in and out, and the schema."""

from __future__ import annotations

import polars as pl

from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["JSON_ARGS", "et_args"]

JSON_ARGS = ("input shapes", "input types", "output shapes", "output types")
"""The arguments whose texts are JSON."""


def et_args(linked: LinkedTrace) -> pl.DataFrame:
    """`event_id` of each host op that has a node, and the arguments that its node has."""
    et = linked.et
    if et is None:
        return pl.DataFrame(schema={"event_id": pl.Int64})
    links = linked.host_links.filter(pl.col("node_id").is_not_null()).select("event_id", "node_id")
    schema = et.nodes.select("node_id", as_text("op_schema").alias("op schema"))
    return (
        links.join(schema, on="node_id", how="left", maintain_order="left")
        .join(_values(et, is_output=False), on="node_id", how="left", maintain_order="left")
        .join(_values(et, is_output=True), on="node_id", how="left", maintain_order="left")
        .rename({"node_id": "node id"})
    )


def _values(et: ExecutionTrace, is_output: bool) -> pl.DataFrame:
    """The shapes and types of each node's inputs or outputs, each a JSON list."""
    direction = "output" if is_output else "input"
    quoted = (
        '"'
        + as_text("type")
        .fill_null("")
        .str.replace_all("\\", "\\\\", literal=True)
        .str.replace_all('"', '\\"', literal=True)
        + '"'
    )
    return (
        et.values.filter(pl.col("is_output") == is_output)
        .sort("node_id", "position")
        .group_by("node_id", maintain_order=True)
        .agg(
            pl.format("[{}]", as_text("shape").fill_null("[]").str.join(",")).alias(f"{direction} shapes"),
            pl.format("[{}]", quoted.str.join(",")).alias(f"{direction} types"),
        )
    )
