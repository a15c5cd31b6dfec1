"""What ops may be grouped by, as columns."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from tracebraid.analysis.event_columns import fetched, rows_of_events
from tracebraid.analysis.host.call_sites import call_sites
from tracebraid.analysis.ops.annotations.annotation_tree import annotation_paths
from tracebraid.analysis.ops.modules.module_tree import module_tree
from tracebraid.errors import ArgumentError
from tracebraid.model.answers import OpKey
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["KEY_COLUMNS", "op_keys", "with_keys"]

_COLUMNS_OF = {
    OpKey.NAME: ("name", "category"),
    OpKey.SHAPES: ("input_dims",),
    OpKey.TYPES: ("input_types",),
    OpKey.STRIDES: ("input_strides",),
    OpKey.CONCRETE_INPUTS: ("concrete_inputs",),
    OpKey.CALL_SITE: ("call_site",),
    OpKey.MODULE: ("module",),
    OpKey.ANNOTATION: ("annotation",),
}
KEY_COLUMNS = tuple(column for columns in _COLUMNS_OF.values() for column in columns)
"""The columns of all keys, in the order of the table."""

_OF_ARGUMENTS = {OpKey.SHAPES, OpKey.TYPES, OpKey.STRIDES, OpKey.CONCRETE_INPUTS}


def op_keys(by: str | Iterable[str]) -> tuple[OpKey, ...]:
    """The keys of those names, each once, in the order of `OpKey`.

    Args:
        by: names, or a text of names joined by commas.

    Raises:
        ArgumentError: there is no key of that name.
    """
    names = {name.strip() for name in (by.split(",") if isinstance(by, str) else by)} - {""}
    known = {key.value for key in OpKey}
    if unknown := sorted(names - known):
        raise ArgumentError(
            f"ops cannot be grouped by {', '.join(unknown)}: the keys are {', '.join(key.value for key in OpKey)}"
        )
    return tuple(key for key in OpKey if key.value in names)


def with_keys(
    linked: LinkedTrace, found: pl.DataFrame, keys: tuple[OpKey, ...], annotation: str
) -> tuple[pl.DataFrame, list[str]]:
    """Ops with the columns of the keys, and the names of these; columns of other keys are null.

    Args:
        linked: one rank.
        found: columns `row`, `event_id`, `name` and `category` of `op_times`.
        keys: what to group by.
        annotation: what marks a step: steps are no annotations to group by.
    """
    rows = found.get_column("row").to_numpy()
    if arguments := [column for key in keys if key in _OF_ARGUMENTS for column in _COLUMNS_OF[key]]:
        recorded = linked.timeline.host_ops
        of_ops = rows_of_events(recorded.get_column("event_id"), found.get_column("event_id"))
        found = found.with_columns(fetched(recorded.select(arguments), of_ops).get_columns())
    if OpKey.CALL_SITE in keys:
        found = found.with_columns(call_sites(linked).get_column("call_site").gather(rows))
    if OpKey.MODULE in keys:
        modules = module_tree(linked)
        texts = modules.paths.texts(modules.names, "/")
        found = found.with_columns(_texts(texts, modules.path[rows]).alias("module"))
    if OpKey.ANNOTATION in keys:
        path, texts, _ = annotation_paths(linked, annotation)
        found = found.with_columns(_texts(texts, path[rows]).alias("annotation"))
    columns = [column for key in keys for column in _COLUMNS_OF[key]]
    absent = [column for column in KEY_COLUMNS if column not in columns]
    found = found.with_columns(pl.col(column).cast(pl.String) for column in columns)
    return found.with_columns(pl.lit(None, dtype=pl.String).alias(column) for column in absent), columns


def _texts(texts: list[str], number: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pl.Series:
    """The text of each number; null below 0."""
    with_none = pl.Series([*texts, None], dtype=pl.String)
    return with_none.gather(np.where(number < 0, len(texts), number))
