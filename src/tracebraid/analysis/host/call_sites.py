"""Which Python function of the user is each host event in?"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.host.backward_ops import with_forward
from tracebraid.analysis.host.host_trees import host_names, host_parents
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.user_frame import is_line_frame, is_user_frame

__all__ = ["call_sites"]

_Ints = NDArray[np.int64]
_STACK_SEPARATOR = ";"
"""Between the frames of `Call stack`, the innermost first."""


def call_sites(linked: LinkedTrace) -> pl.DataFrame:
    """The host events in the order of `host_tree`: `event_id`, `call_site` as `file(line): function`; null: unknown.

    It is the innermost frame of the user (`model.user_frame`) around an event, itself included, else the innermost
    frame that has a line. Frames come from the Python functions of the trace, in traces before 2022 from the
    `Call stack` of the op. A backward op on a thread without Python frames has the call site of its forward op, as
    in torch's own profiler, and what runs in it has that too. The line is that of the function's `def` (of the
    moment, for functions that ran already when the profiler started); in a `Call stack` it is that of the call.
    """
    return linked.derived(_call_sites)


def _call_sites(linked: LinkedTrace) -> pl.DataFrame:
    names = host_names(linked)
    is_frame = as_text("category").is_in(categories_of(Role.PYTHON))
    frames = names.select(is_frame.fill_null(value=False)).to_series().to_numpy()
    of_stacks = _of_stacks(linked)
    if not frames.any() and of_stacks.is_empty():
        return names.select("event_id", pl.lit(None, dtype=pl.String).alias("call_site"))
    site = _frame_rows(linked, names, frames)
    found = names.select("event_id").with_columns(
        names.get_column("name").gather(np.maximum(site, 0)).cast(pl.String).set(pl.Series(site < 0), None)
    )
    if not of_stacks.is_empty():
        found = found.join(of_stacks, on="event_id", how="left", maintain_order="left").with_columns(
            pl.coalesce("call_site", "name").alias("name")
        )
    return found.select("event_id", pl.col("name").alias("call_site"))


def _frame_rows(linked: LinkedTrace, names: pl.DataFrame, frames: NDArray[np.bool_]) -> _Ints:
    """The row of the frame that is each host event's call site; -1: none."""
    unique = names.filter(pl.Series(frames)).select("name").unique()
    judged = unique.with_columns(
        is_user_frame(as_text("name")).alias("user"), is_line_frame(as_text("name")).alias("line")
    )
    flags = names.select("name").join(judged, on="name", how="left", maintain_order="left")
    user, line = (
        flags.get_column(name).fill_null(value=False).to_numpy() & frames for name in ("user", "line")
    )
    tree = host_parents(linked)
    innermost = tree.nearest(user)
    site = np.where(innermost >= 0, innermost, tree.nearest(line))
    return with_forward(linked, site)


def _of_stacks(linked: LinkedTrace) -> pl.DataFrame:
    """`event_id`, `call_site` of the ops that carry a call stack."""
    stacks = linked.timeline.host_ops.select("event_id", stack="call_stack").drop_nulls()
    unique = stacks.select("stack").unique()
    frames = (
        unique.with_columns(as_text("stack").str.split(_STACK_SEPARATOR).alias("frame"))
        .explode("frame")
        .with_columns(pl.col("frame").str.strip_chars())
        .filter(is_line_frame(pl.col("frame")))
        .with_columns(is_user_frame(pl.col("frame")).alias("user"))
    )
    first = frames.group_by("stack").agg(
        pl.coalesce(pl.col("frame").filter("user").first(), pl.col("frame").first()).alias("call_site")
    )
    return stacks.join(first, on="stack").select("event_id", "call_site")
