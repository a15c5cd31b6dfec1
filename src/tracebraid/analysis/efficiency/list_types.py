"""The type of the tensors in a list, from the names of the kernels that the op launched."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device.device_events import device_events
from tracebraid.model.device_kind import COMPUTE
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["with_list_types"]

_LIST = '"TensorList"'
"""All that a Kineto trace says of the types of a list, in the JSON text of an op's types."""

_ELEMENT = (
    r"(?:CatArrayBatchedCopy\w*|[a-z]Functor)<(?:[^<,]*::)?"
    r"(float|double|(?:c10::)?(?:Half|BFloat16)|long|int|short|signed char|unsigned char|bool|OpaqueType<\d+u>)[,>]"
)
"""The first template argument of PyTorch's kernels for lists: that of `cat`, and of what `multi_tensor_apply` calls."""

_TWO_TYPES = "CopyFunctor<"
"""What copies a list to one of another type."""


def with_list_types(calls: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """`input_types` with `TensorList(float)` for `TensorList`, where all kernels of the op name one type.

    Kernels of `cat` name but the size of an element: `TensorList(OpaqueType<2u>)`.

    Args:
        calls: columns event_id and input_types.
        linked: one rank.
    """
    types = pl.col("input_types")
    lists = calls.filter(types.str.contains(_LIST, literal=True)).select(pl.col("event_id").alias("op_event"))
    if lists.is_empty() or not linked.timeline.has_device:
        return calls
    name, element = pl.col("name"), pl.col("element")
    found = (
        device_events(linked)
        .filter(pl.col("kind") == COMPUTE)
        .join(lists, on="op_event", how="semi")
        .select(
            pl.col("op_event").alias("event_id"),
            pl.when(~name.str.contains(_TWO_TYPES, literal=True))
            .then(name.str.extract(_ELEMENT))
            .str.replace(r"^(Half|BFloat16)$", "c10::$1")
            .alias("element"),
        )
        .group_by("event_id")
        .agg(element.first(), element.null_count().alias("unnamed"), element.n_unique().alias("types"))
        .filter((pl.col("unnamed") == 0) & (pl.col("types") == 1))
    )
    named = pl.concat_str(pl.lit('"TensorList('), "element", pl.lit(')"'))
    joined = calls.join(
        found.select("event_id", named.alias("named")), on="event_id", how="left", maintain_order="left"
    )
    replaced = types.str.split(_LIST).list.join(pl.col("named"))
    return joined.with_columns(
        pl.when(pl.col("named").is_not_null()).then(replaced).otherwise(types).alias("input_types")
    ).drop("named")
