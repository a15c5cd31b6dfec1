"""The ops of a rank with their times on the host and on the device."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.host.host_trees import host_names, host_ops
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.op_tree import OpTree

__all__ = ["launched_by_rows", "op_times"]

_Ints = NDArray[np.int64]


def op_times(linked: LinkedTrace) -> pl.DataFrame:
    """One row per op or annotation, in the order of `host_tree`.

    Columns: row (in `host_tree`), event_id, name, category (categoricals), ts_ns, inclusive_ns, op_exclusive_ns;
    kernels and device_self_ns: device events that it launched itself, and their duration; device_total_ns: with those
    of the ops inside it.
    """
    return linked.derived(_op_times)


def _op_times(linked: LinkedTrace) -> pl.DataFrame:
    tree = host_ops(linked)
    launched = device_events(linked).filter(pl.col("op_event").is_not_null())
    kernels, device = launched_by_rows(launched, tree.rows(launched.get_column("op_event").to_numpy()), tree)
    return (
        host_names(linked)
        .select("event_id", "name", "category", "ts_ns")
        .with_row_index("row")
        .with_columns(
            pl.col("row").cast(pl.Int64),
            linked.host_tree.get_column("inclusive_ns"),
            linked.host_tree.get_column("op_exclusive_ns"),
            pl.Series("kernels", kernels),
            pl.Series("device_self_ns", device),
            pl.Series("device_total_ns", tree.sums(device)),
        )
        .filter(pl.col("op_exclusive_ns").is_not_null())
    )


def launched_by_rows(launched: pl.DataFrame, rows: _Ints, tree: OpTree) -> tuple[_Ints, _Ints]:
    """For each row of a tree the number of device events that it launched, and the sum of their durations.

    Args:
        launched: device events, column `dur_ns`.
        rows: the row that launched each.
        tree: the tree.
    """
    count, duration = (np.zeros(len(tree.event_id), dtype=np.int64) for _ in range(2))
    np.add.at(count, rows, 1)
    np.add.at(duration, rows, launched.get_column("dur_ns").to_numpy())
    return count, duration
