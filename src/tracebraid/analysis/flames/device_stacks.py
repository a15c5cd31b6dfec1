"""Device events on the stacks of the host that launched them."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.event_columns import rows_of_events
from tracebraid.analysis.flames.frame_table import Stacks
from tracebraid.analysis.flames.host_stacks import NO_NAME, in_step, stack_names
from tracebraid.analysis.host.host_trees import host_names, host_ops, host_parents
from tracebraid.analysis.ops.launch_rows import launched
from tracebraid.analysis.step_rows import StepOptions
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.answers.flames import FlameKind, FlameTree
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.nearest import nearest_ancestors, nearest_rows

__all__ = ["LAUNCHED_IN_NOTHING", "NOT_LAUNCHED", "device_stacks"]

_Ints = NDArray[np.int64]

LAUNCHED_IN_NOTHING = "(launched in no op)"
NOT_LAUNCHED = "(launch not in the trace)"
"""Roots of device time that no stack has."""


def device_stacks(linked: LinkedTrace, annotation: str, step: str | None) -> Stacks:
    """All device events, each on the host events around its launch, without the launching call itself.

    Args:
        linked: one rank.
        annotation: what marks a step.
        step: only what was launched in this step; None: all.
    """
    events = launched(linked, StepOptions(annotation, step is not None))
    names = stack_names(linked, annotation)
    parent = _parents_without_calls(linked, names)
    hosts = len(parent)
    outermost = pl.DataFrame(
        {"name": [LAUNCHED_IN_NOTHING, NOT_LAUNCHED], "kind": [FlameKind.UNATTRIBUTED.value] * 2}
    )
    counts = in_step(events, step)
    leaves = events.select(pl.col("name").replace("", NO_NAME).fill_null(NO_NAME), "kind")
    own = events.select(pl.when(counts).then("dur_ns").otherwise(0)).to_series().to_numpy()
    none = np.zeros(hosts + 2, dtype=np.int64)
    return Stacks(
        FlameTree.DEVICE,
        np.r_[parent, -1, -1, _launch_rows(linked, events, names, hosts)],
        pl.concat([names, outermost, leaves]),
        np.r_[none, own],
        pl.concat(
            [
                _host_counts(linked, annotation, step),
                pl.Series([None, None], dtype=pl.Int64),
                counts.cast(pl.Int64),
            ]
        ),
        np.r_[none > 0, counts.to_numpy()],
    )


def _parents_without_calls(linked: LinkedTrace, names: pl.DataFrame) -> _Ints:
    tree = host_parents(linked)
    parent = np.where(tree.enclosing == np.arange(len(tree.enclosing)), -1, tree.enclosing)
    return nearest_ancestors(parent, _is_frame(names))


def _is_frame(names: pl.DataFrame) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (names.get_column("kind") != FlameKind.CALL.value).to_numpy()
    return found


def _launch_rows(linked: LinkedTrace, events: pl.DataFrame, names: pl.DataFrame, hosts: int) -> _Ints:
    """The row that each device event is in: a host event's, else one of the two that stand for what no stack has."""
    tree, ops = host_parents(linked), host_ops(linked)
    kind = names.get_column("kind")
    is_op = np.r_[kind.is_in([FlameKind.OP.value, FlameKind.ANNOTATION.value]).to_numpy(), False]
    launch = events.get_column("row").to_numpy()
    op = rows_of_events(pl.Series(tree.event_id), events.get_column("op_event")).fill_null(-1).to_numpy()
    # The op may be known by its External id alone, on another thread than the call.
    by_call = np.where(is_op[launch], launch, np.r_[ops.enclosing, -1][launch])
    start = np.where((op >= 0) & (by_call != op), op, launch)
    parent = np.where(tree.enclosing == np.arange(len(tree.enclosing)), -1, tree.enclosing)
    frame = np.r_[nearest_rows(parent, _is_frame(names)), -1][start]
    return np.where(frame >= 0, frame, np.where(launch >= 0, hosts, hosts + 1))


def _host_counts(linked: LinkedTrace, annotation: str, step: str | None) -> pl.Series:
    """1 for each host event that starts in the step, else 0."""
    starts = host_names(linked).select("ts_ns")
    if step is None:
        return pl.Series("count", np.ones(starts.height, dtype=np.int64))
    counts = in_step(step_of_moments(starts, step_windows(linked, annotation)), step)
    return pl.Series("count", counts.to_numpy().astype(np.int64))
