"""Field-by-field description of an Execution Trace's nodes."""

from __future__ import annotations

from typing import Any

import msgspec
import polars as pl
from msgspec import Struct

from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.schema import ET_COLLECTIVES, ET_NODES, KINETO_TABLES

__all__ = ["HTA_COLUMNS", "IN_KINETO_TOO", "Field", "field_of", "fields"]

HTA_COLUMNS = (
    "et_node_name",
    "op_schema",
    "input_shapes",
    "input_types",
    "output_shapes",
    "output_types",
)
"""The columns that HTA's `add_et_column` knows."""

_PREFIX = "et_"
_OF_VALUES = {
    f"{direction}{ending}": (direction == "output", column)
    for direction in ("input", "output")
    for ending, column in (("_shapes", "shape"), ("_types", "type"), ("_strides", "strides"), ("s", "value"))
}
_OF_NODES = tuple(column.name for column in ET_NODES.columns if column.name != "node_id")
_OF_COLLECTIVES = tuple(column.name for column in ET_COLLECTIVES.columns if column.name != "node_id")

IN_KINETO_TOO = frozenset(column.name for table in KINETO_TABLES for column in table.columns).intersection(
    (*_OF_NODES, *_OF_COLLECTIVES)
)
"""Fields whose names Kineto uses too, for its own: `name`, `tid`, `collective_name`, ..."""


class Field(Struct, frozen=True):
    """One field of the nodes that have it.

    Args:
        values: `node_id`, and its `value`.
        is_json: whether the values are JSON text.
    """

    values: pl.DataFrame
    is_json: bool

    def by_node(self) -> dict[int, Any]:
        """Node to value; JSON text decoded, so that no two nodes share a list."""
        column = self.values.get_column("value")
        values = column.to_list()
        if self.is_json:
            values = msgspec.json.decode("[" + ",".join(values) + "]")
        return dict(zip(self.values.get_column("node_id").to_list(), values, strict=True))


def fields(et: ExecutionTrace) -> list[str]:
    """The names of all fields of this trace: HTA's first."""
    extra = et.extra_attrs.get_column("key").cast(pl.String).unique().sort().to_list()
    plain = [*_OF_VALUES, *_OF_NODES, *_OF_COLLECTIVES, *extra]
    prefixed = [_PREFIX + name for name in plain if name in IN_KINETO_TOO and name != "name"]
    return list(dict.fromkeys([*HTA_COLUMNS, *plain, *prefixed]))


def field_of(et: ExecutionTrace, name: str) -> Field:
    """A field by its name, one of `fields`; nodes that do not have it are left out."""
    name = "name" if name == "et_node_name" else name
    plain = name.removeprefix(_PREFIX)
    name = plain if plain in IN_KINETO_TOO else name
    if name in _OF_VALUES:
        return _values(et, *_OF_VALUES[name])
    if name in _OF_NODES or name in _OF_COLLECTIVES:
        table = et.nodes if name in _OF_NODES else et.collectives
        return Field(_present(table.select("node_id", pl.col(name).alias("value"))), False)
    extra = et.extra_attrs.filter(as_text("key") == name).select("node_id", "value")
    return Field(_present(extra).unique("node_id", keep="last", maintain_order=True), True)


def _present(values: pl.DataFrame) -> pl.DataFrame:
    plain = values.with_columns(as_text("value")) if _is_text(values) else values
    return plain.drop_nulls("value")


def _is_text(values: pl.DataFrame) -> bool:
    return isinstance(values.schema["value"], pl.Categorical)


def _values(et: ExecutionTrace, is_output: bool, column: str) -> Field:
    """A list for each node, in the order of its inputs or outputs; empty if it has none."""
    text = as_text(column)
    known = et.values.filter(pl.col("is_output") == is_output)
    if column == "strides" and known.get_column(column).null_count() == known.height:
        return Field(et.nodes.select("node_id", value=pl.lit(None, pl.String)).clear(), True)
    each = known.sort("node_id", "position").group_by("node_id", maintain_order=True).agg(text.alias("value"))
    lists = et.nodes.select("node_id").join(each, on="node_id", how="left").sort("node_id")
    if column == "type":
        empty = pl.lit([], pl.List(pl.String))
        return Field(lists.with_columns(pl.col("value").fill_null(empty)), False)
    joined = pl.col("value").list.eval(pl.element().fill_null("null")).list.join(",").fill_null("")
    return Field(lists.with_columns(value="[" + joined + "]"), True)
