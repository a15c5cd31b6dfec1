"""Host ops by name and input shapes, or by other keys, the most device time first."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import numpy as np
import polars as pl

from tracebraid.analysis.answering import StepOptions, answer, by_start
from tracebraid.analysis.device import fetched, rows_of_events
from tracebraid.analysis.host.host_trees import call_sites, host_ops
from tracebraid.analysis.ops.annotations import annotation_paths
from tracebraid.analysis.ops.modules import module_tree
from tracebraid.analysis.ops.op_times import op_times
from tracebraid.analysis.statistics import extremes, spread
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.errors import ArgumentError
from tracebraid.model.analysis import Family, Need, OnPage, Rows, Stored, analysis
from tracebraid.model.answers.ops import OPS
from tracebraid.model.linked_trace import LinkedTrace


class OpKey(Enum):
    """Grouping of ops."""

    NAME = "name"
    SHAPES = "shapes"
    TYPES = "types"
    STRIDES = "strides"
    CONCRETE_INPUTS = "concrete_inputs"
    CALL_SITE = "call_site"
    MODULE = "module"
    ANNOTATION = "annotation"


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
    """The keys of those names, each once, in the order of `OpKey`."""
    names = {name.strip() for name in (by.split(",") if isinstance(by, str) else by)} - {""}
    known = {key.value for key in OpKey}
    if unknown := sorted(names - known):
        raise ArgumentError(
            f"ops cannot be grouped by {', '.join(unknown)}: the keys are {', '.join(key.value for key in OpKey)}"
        )
    return tuple(key for key in OpKey if key.value in names)


def with_keys(
    linked: LinkedTrace, found: pl.DataFrame, keys: tuple[OpKey, ...]
) -> tuple[pl.DataFrame, list[str]]:
    """Ops with the columns of the keys, and the names of these; columns of other keys are null."""
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
        path, texts, _ = annotation_paths(linked)
        found = found.with_columns(_texts(texts, path[rows]).alias("annotation"))
    columns = [column for key in keys for column in _COLUMNS_OF[key]]
    absent = [column for column in KEY_COLUMNS if column not in columns]
    found = found.with_columns(pl.col(column).cast(pl.String) for column in columns)
    return found.with_columns(pl.lit(None, dtype=pl.String).alias(column) for column in absent), columns


def _texts(texts: list[str], number: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pl.Series:
    """The text of each number; null below 0."""
    with_none = pl.Series([*texts, None], dtype=pl.String)
    return with_none.gather(np.where(number < 0, len(texts), number))


@analysis(
    OPS,
    Family.OPS,
    needs=(Need.HOST_OPS,),
    uses=(Need.DEVICE_WORK, Need.LAUNCHES, Need.SHAPES),
    shown=(
        "name device_total_ns device_self_ns host_self_ns host_total_ns count kernels input_dims "
        "call_site module annotation input_types input_strides concrete_inputs category"
    ),
    formula=(
        "host self: the op's duration without ops inside it. host total: with them, of the ops that are "
        "in no other of the row. device self and total: durations of what was launched in the op, without"
        " and with ops inside it."
    ),
    on_page=OnPage(Rows.TABLE_ROWS, by=("device_self_ns", "host_self_ns")),
    stored=Stored.OF_FEW_EVENTS,
)
def ops(
    linked: LinkedTrace,
    per_step: bool = False,
    by: str | Iterable[str] = (OpKey.NAME.value, OpKey.SHAPES.value),
    with_doubtful: bool = False,
) -> pl.DataFrame:
    """Which ops take the most time, on host and device?

    Host ops by name and input shapes, or by other keys, the most device time first.

    Host self time is the op's time less that of the ops directly inside it; runtime calls inside it are its
    own. Device self time is the duration of what the op launched itself; the total adds what ops inside it
    launched. Durations are summed: work on two streams at once counts twice. An op inside another of its row (by
    name and shapes: recursion) counts in no total again, and not in the means and percentiles of totals.

    Args:
        linked: one rank.
        per_step: a row for each step in which the ops started, instead of one over all.
        by: what makes two ops one row: names of `OpKey`, as a sequence or joined by commas. Columns of what is not
            grouped by are null.
        with_doubtful: what lies in doubtful steps counts in means and percentiles, too.

    Raises:
        ArgumentError: there is no key of that name.
    """
    keys = op_keys(by)
    found, columns = with_keys(linked, op_times(linked), keys)
    if found.is_empty():
        return OPS.empty()
    found = by_start(found, linked, StepOptions(per_step, with_doubtful))
    found = found.with_columns(_totals(linked, found, columns))
    return (
        found.group_by("step", *KEY_COLUMNS)
        .agg(
            pl.len().alias("count"),
            pl.col("op_exclusive_ns").sum().alias("host_self_ns"),
            pl.col("host_ns").sum().alias("host_total_ns"),
            *spread("host_ns", "host"),
            *extremes("host_ns", "host"),
            pl.col("kernels").sum(),
            pl.col("device_self_ns").sum(),
            pl.col("device_ns").sum().alias("device_total_ns"),
            *spread("device_ns", "device"),
            *extremes("device_ns", "device"),
        )
        .sort("device_self_ns", "host_self_ns", *KEY_COLUMNS, descending=[True, True] + [False] * 9)
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(OPS, frame, linked))
    )


def _totals(linked: LinkedTrace, found: pl.DataFrame, columns: list[str]) -> list[pl.Expr]:
    """Total times on the host and the device, null if an op is inside another that makes one row with it."""
    if columns:
        number = found.select(pl.struct(columns).rank("dense").cast(pl.Int64)).to_series().to_numpy()
    else:
        number = np.zeros(found.height, dtype=np.int64)
    outermost = pl.Series(host_ops(linked).outermost(found.get_column("row").to_numpy(), number))
    return [
        pl.when(outermost).then("inclusive_ns").alias("host_ns"),
        pl.when(outermost).then("device_total_ns").alias("device_ns"),
    ]
