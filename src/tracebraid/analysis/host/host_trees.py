"""The host events of a rank as trees: of ops alone, and with Python functions and runtime calls."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.analysis.device import event_columns
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.op_tree import OpTree, op_tree
from tracebraid.model.rows import at_rows, nearest_ancestors, nearest_rows
from tracebraid.model.user_frame import at_line, is_line_frame, is_user_frame


def host_parents(linked: LinkedTrace) -> OpTree:
    """All rows of `host_tree`, each in the innermost host event of any kind that encloses it on its thread."""
    return linked.derived(_host_parents)


def _host_parents(linked: LinkedTrace) -> OpTree:
    tree = linked.host_tree
    event_id = tree.get_column("event_id").to_numpy()
    parent = tree.get_column("parent_event").fill_null(-1).to_numpy()
    rows = np.searchsorted(event_id, parent)
    enclosing = np.where(parent < 0, np.arange(len(event_id)), rows)
    return OpTree(event_id, enclosing)


def host_ops(linked: LinkedTrace) -> OpTree:
    """All rows of `host_tree`, each in the innermost op that encloses it on its thread."""
    return linked.derived(_host_ops)


def _host_ops(linked: LinkedTrace) -> OpTree:
    return op_tree(linked.host_tree)


def host_names(linked: LinkedTrace) -> pl.DataFrame:
    """The host events in the order of `host_tree`: event_id, name and category (categoricals), lane, ts_ns."""
    return linked.derived(_host_names)


def _host_names(linked: LinkedTrace) -> pl.DataFrame:
    event = linked.host_tree.get_column("event_id")
    columns = ("name", "category", "lane", "ts_ns")
    return pl.DataFrame([event, *event_columns(linked.timeline, event, **{name: name for name in columns})])


_Ints = NDArray[np.int64]
_BACKWARD_OP = "autograd::engine::evaluate_function: "
"""Prefix of autograd's ops around the nodes of a backward pass."""


def backward_ops(linked: LinkedTrace) -> tuple[_Ints, _Ints]:
    """Rows of `host_tree` that are backward ops, and for each the row of its forward op; -1: unknown."""
    tree = host_parents(linked)
    linked_rows, of_linked = _pairs(linked, tree)
    named = (
        host_names(linked)
        .select(as_text("name").str.starts_with(_BACKWARD_OP).fill_null(value=False))
        .to_series()
        .to_numpy()
    )
    forward = np.full(len(tree.event_id), -1, dtype=np.int64)
    forward[linked_rows] = of_linked
    named[linked_rows] = True
    rows = np.flatnonzero(named)
    return rows, forward[rows]


def with_forward(linked: LinkedTrace, own: _Ints) -> _Ints:
    """Value of each row of `host_tree`, else that of its forward op.

    Threads of autograd run no Python functions: the context of a backward op follows from the forward op
    alone, as in torch's own profiler.
    """
    tree = host_parents(linked)
    backward, forward = _pairs(linked, tree)
    of_forward = np.full(len(own), -1, dtype=np.int64)
    of_forward[backward] = own[forward]
    marked = np.zeros(len(own), dtype=np.bool_)
    marked[backward] = True
    nearest = nearest_rows(tree.enclosing, marked)
    inherited = np.where(nearest >= 0, of_forward[np.maximum(nearest, 0)], -1)
    found: _Ints = np.where(own >= 0, own, inherited)
    return found


def _pairs(linked: LinkedTrace, tree: OpTree) -> tuple[_Ints, _Ints]:
    """Rows of backward ops, and those of their forward ops."""
    pairs = linked.forward_backward.unique("backward_event", keep="first", maintain_order=True)
    backward, forward = (
        tree.rows(pairs.get_column(name).to_numpy()) for name in ("backward_event", "forward_event")
    )
    return backward, forward


_COMPREHENSION = r": <(listcomp|setcomp|dictcomp|genexpr)>$"
_STACK_SEPARATOR = ";"
"""Between the frames of `Call stack`, the innermost first."""


def call_sites(linked: LinkedTrace) -> pl.DataFrame:
    """The host events in the order of `host_tree`: `event_id`, `call_site` as `file(line): function`; null: unknown.

    It is the innermost frame of the user (`model.user_frame`) around an event, itself included, else the innermost
    frame that has a line; of a comprehension, which has no name, the function that it is in. Frames come from the
    Python functions of the trace, in traces before 2022 from the `Call stack` of the op. A backward op on a thread
    without Python frames has the call site of its forward op, as in torch's own profiler, and what runs in it has that
    too. The line is that of the call, where torch 2.14 or newer or a `Call stack` tells it; else that of the function's
    `def` (of the moment, for functions that ran already when the profiler started).
    """
    return linked.derived(_call_sites)


def _call_sites(linked: LinkedTrace) -> pl.DataFrame:
    names = host_names(linked)
    is_frame = as_text("category").is_in(categories_of(Role.PYTHON))
    frames = names.select(is_frame.fill_null(value=False)).to_series().to_numpy()
    of_stacks = _of_stacks(linked)
    if not frames.any() and of_stacks.is_empty():
        return names.select("event_id", pl.lit(None, dtype=pl.String).alias("call_site"))
    places = places_of(linked, _frame_rows(linked, names, frames))
    found = names.select("event_id").with_columns(at_rows(places.names, places.number).alias("name"))
    if not of_stacks.is_empty():
        found = found.join(of_stacks, on="event_id", how="left", maintain_order="left").with_columns(
            pl.coalesce("call_site", "name").alias("name")
        )
    return found.select("event_id", pl.col("name").alias("call_site"))


class Places(Struct, frozen=True):
    """Lines of Python frames at which host events are called.

    Args:
        number: index in `names` for each row of `host_tree`; -1: none.
        names: `file(line): function`; a frame without a line as it is.
    """

    number: _Ints
    names: pl.Series


def places_of(linked: LinkedTrace, frame: _Ints) -> Places:
    """Where a frame around each row of `host_tree` calls what leads to the row; `frame` is its row, -1 for none."""
    event = host_names(linked).get_column("name")
    pairs = pl.DataFrame(
        {
            "name": at_rows(event, frame),
            "line": lines_of_calls(linked, frame),
        }
    )
    distinct = pairs.drop_nulls("name").unique(maintain_order=True).with_row_index("number")
    number = pairs.join(distinct, on=["name", "line"], how="left", maintain_order="left").get_column("number")
    texts = [
        name if line < 0 else at_line(name, line)
        for name, line in distinct.select(as_text("name"), "line").iter_rows()
    ]
    return Places(number.cast(pl.Int64).fill_null(-1).to_numpy(), pl.Series("name", texts, dtype=pl.String))


def lines_of_calls(linked: LinkedTrace, frame: _Ints) -> _Ints:
    """The line in a frame around each row of `host_tree` that calls what leads to the row; -1: unknown.

    Known is that of a call of a Python function, or of a built-in one, where torch 2.14 or newer recorded it.
    """
    functions = linked.timeline.tables["python_functions"].drop_nulls("called_from")
    if functions.is_empty():
        return np.full(len(frame), -1, dtype=np.int64)
    tree = host_parents(linked)
    called = np.full(len(frame), -1, dtype=np.int64)
    is_function = np.isin(tree.event_id, functions.get_column("event_id").to_numpy())
    called[is_function] = np.searchsorted(
        functions.get_column("event_id").to_numpy(), tree.event_id[is_function]
    )
    parent = np.where(tree.enclosing == np.arange(len(frame)), -1, tree.enclosing)
    caller = nearest_ancestors(parent, called >= 0)
    is_frame = np.zeros(len(frame), dtype=np.bool_)
    is_frame[frame[frame >= 0]] = True
    # The outermost function between a row and its frame, and those of frames further out.
    call = with_forward(linked, tree.nearest((caller >= 0) & is_frame[caller] & (called >= 0)))
    known = np.flatnonzero((call >= 0) & (frame >= 0) & (caller[call] == frame))
    pairs = pl.DataFrame(
        {
            "name": host_names(linked).get_column("name").gather(frame[known]),
            "called_from": functions.get_column("called_from").gather(called[call[known]]),
        }
    )
    place = pl.col("place").struct
    lines = (
        pairs.unique()
        .with_columns(as_text("called_from").str.extract_groups(r"^(?<file>.*):(?<line>\d+)$").alias("place"))
        .filter(as_text("name").str.starts_with(pl.format("{}(", place.field("file"))))
        .select("name", "called_from", place.field("line").cast(pl.Int64, strict=False))
    )
    found = np.full(len(frame), -1, dtype=np.int64)
    line = pairs.join(lines, on=["name", "called_from"], how="left", maintain_order="left").get_column("line")
    found[known] = line.fill_null(-1).to_numpy()
    return found


def _frame_rows(linked: LinkedTrace, names: pl.DataFrame, frames: NDArray[np.bool_]) -> _Ints:
    """The row of the frame that is each host event's call site; -1: none."""
    unique = names.filter(pl.Series(frames)).select("name").unique()
    judged = unique.with_columns(
        is_user_frame(as_text("name")).alias("user"),
        is_line_frame(as_text("name")).alias("line"),
        (~as_text("name").str.contains(_COMPREHENSION)).alias("named"),
    )
    flags = names.select("name").join(judged, on="name", how="left", maintain_order="left")
    user, named, line = (
        flags.get_column(name).fill_null(value=False).to_numpy() & frames
        for name in ("user", "named", "line")
    )
    tree = host_parents(linked)
    site = tree.nearest(line)
    for wanted in (user, user & named):
        innermost = tree.nearest(wanted)
        site = np.where(innermost >= 0, innermost, site)
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
