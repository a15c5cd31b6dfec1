"""The copies inside the host's ops that change the element type or the layout of a tensor."""

from __future__ import annotations

import json
from itertools import zip_longest

import numpy as np
import polars as pl

from tracebraid.analysis.antipatterns.evidence import (
    HOST_STALL_NS,
    Shape,
    device_work,
    evidence_of,
    in_order_of_ops,
    numel,
    op_table,
    shapes_of,
    work_of_ops,
)
from tracebraid.analysis.device import event_columns
from tracebraid.analysis.efficiency.calls import calls_of
from tracebraid.analysis.efficiency.operands import BITS
from tracebraid.analysis.efficiency.roofline import peak_flops_of
from tracebraid.analysis.host.host_rows import host_rows, nearest_or_none, surroundings
from tracebraid.analysis.host.host_trees import host_names, host_ops
from tracebraid.model.analysis import Need
from tracebraid.model.answers.job import EVIDENCE
from tracebraid.model.device_peaks import Precision
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import flags_by_name
from tracebraid.model.quantities import NS_PER_MS
from tracebraid.model.questions import Detector, Removal

_COPY = "aten::copy_"
_FLOATS = ("double", "float", "c10::Half", "c10::BFloat16", "c10::Float8_e4m3fn", "c10::Float8_e5m2")


def copies_between_tensors(linked: LinkedTrace) -> pl.DataFrame:
    """One row per `aten::copy_` between tensors of known shapes, that copies nothing from or to the host.

    Columns: those of `work_of_ops`; target, source (C++ names of element types), is_cast (between two types of
    floats), shape (of the target, as JSON), source_strides (as JSON, null: not recorded), same_layout (null: the
    strides were not recorded).
    """
    return linked.derived(_copies)


def _copies(linked: LinkedTrace) -> pl.DataFrame:
    key = ["input_dims", "input_types", "input_strides"]
    calls = calls_of(linked).filter((pl.col("name") == _COPY) & pl.col("input_dims").is_not_null())
    unique = calls.select(key).unique(maintain_order=True)
    judged = pl.concat(
        [
            unique,
            pl.DataFrame(
                [_row(*row) for row in unique.iter_rows()],
                schema={
                    "target": pl.String,
                    "source": pl.String,
                    "shape": pl.String,
                    "same_layout": pl.Boolean,
                },
                orient="row",
            ),
        ],
        how="horizontal",
    )
    calls = calls.join(judged, on=key, how="left", nulls_equal=True, maintain_order="left").filter(
        pl.col("shape").is_not_null()
    )
    floats = list(_FLOATS)
    is_cast = (
        pl.col("target").is_in(floats)
        & pl.col("source").is_in(floats)
        & (pl.col("target") != pl.col("source"))
    )
    work = work_of_ops(linked, calls.get_column("event_id"))
    return (
        work.filter(~pl.col("leaves"))
        .join(
            calls.select(pl.col("event_id").alias("op_event"), "target", "source", "shape", "same_layout"),
            on="op_event",
            how="inner",
            maintain_order="left",
        )
        .with_columns(is_cast.alias("is_cast"))
    )


def _row(
    dims: str | None, types: str | None, strides: str | None
) -> tuple[str | None, str | None, str | None, bool | None]:
    """Target's and source's types, the shape, and whether both are laid out alike; null where that is unknown."""
    shapes, names, steps = (json_list(text) for text in (dims, types, strides))
    if len(shapes) < 2 or len(names) < 2 or not shapes[0] or shapes[0] != shapes[1]:
        return (None, None, None, None)
    known = len(steps) > 1 and isinstance(steps[0], list) and isinstance(steps[1], list)
    if not all(isinstance(name, str) and name in BITS for name in names[:2]) or not isinstance(
        shapes[0], list
    ):
        return (None, None, None, None)
    alike = _moving(shapes[0], steps[0]) == _moving(shapes[0], steps[1]) if known else None
    return (str(names[0]), str(names[1]), json.dumps(shapes[0]), alike)


def _moving(shape: list[object], strides: object) -> list[object]:
    """Strides of dimensions that have more than one element: those of the others say nothing."""
    found = strides if isinstance(strides, list) else []
    return [stride for size, stride in zip(shape, found, strict=False) if size != 1]


def json_list(text: str | None) -> list[object]:
    """The list that a text of JSON holds; empty if it holds none."""
    try:
        found = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


_DOUBLE = r'"double"|^double$|\bc10::complex<double>'
_SAVED = 0.5
"""Half the bytes, and twice the FLOPs of a CPU's vectors."""
_PRODUCTS = r"^aten::(matmul|linear|(add)?mm|(badd)?bmm|einsum|(conv|_convolution)\w*)"
"""Ops that a device's FLOPs bound: what they save is the ratio of its peaks, which is 0 from A100 to H200."""


def _detect(linked: LinkedTrace) -> pl.DataFrame:
    """Outermost ops with a tensor of doubles among their inputs. In single precision they take half of the time.

    Products on a device of known peaks take FP64 / FP32 of it.
    """
    ops = op_table(linked).filter(pl.col("types").str.contains(_DOUBLE))
    inputs = ops.select("dims", "types").unique(maintain_order=True)
    ops = ops.join(
        inputs.filter(pl.Series([*map(_has_doubles, *inputs)], dtype=pl.Boolean)), on=["dims", "types"]
    )
    ops = ops.sort("row")
    host = host_rows(linked)
    has_doubles = np.zeros(len(host.event_id), dtype=np.bool_)
    has_doubles[ops.get_column("row").to_numpy()] = True
    enclosing = nearest_or_none(linked, has_doubles)[host.parent[ops.get_column("row").to_numpy()]]
    ops = ops.filter(pl.Series(enclosing < 0, dtype=pl.Boolean))
    work = work_of_ops(linked, ops.get_column("event_id"))
    names = ops.select(op_event="event_id", is_product=as_text("name").str.contains(_PRODUCTS))
    saved = pl.when("is_product").then(pl.lit(_saved_of_products(linked))).otherwise(pl.lit(_SAVED))
    found = work.join(names, on="op_event", how="left", maintain_order="left").with_columns(
        (pl.col("alone_ns") * saved.fill_null(_SAVED)).cast(pl.Int64).alias("saving_ns"),
        pl.col("op_event").alias("host_event"),
        pl.lit("float64").alias("subject"),
    )
    return evidence_of(linked, found)


def _saved_of_products(linked: LinkedTrace) -> float:
    """The share of a product's time that single precision saves."""
    peaks = peak_flops_of(linked, None)
    double, single = (peaks.get(precision.value) for precision in (Precision.FP64, Precision.FP32))
    return max(1 - double / single, 0.0) if double and single else _SAVED


def _has_doubles(dims: str | None, types: str | None) -> bool:
    """Return whether a tensor of several elements has doubles: a Python number is a tensor of one element."""
    try:
        shapes, kinds = json.loads(dims or "[]"), json.loads(types or "[]")
    except ValueError:
        return False
    return any(
        isinstance(kind, str)
        and "double" in kind
        and isinstance(shape, list)
        and bool(shape)
        and shape != [1]
        for shape, kind in zip(shapes, kinds, strict=False)
    )


DOUBLE_PRECISION = Detector(
    "double-precision",
    "ops compute in double precision",
    "Use float32: find where the first double comes from (NumPy arrays and Python floats are "
    "double), and cast it there",
    _detect,
    (Need.SHAPES, Need.KNOWN_OPS),
    removes=Removal.RUN,
)


MOST_BETWEEN = 1
"""Events of the stream, or on a host computing ops of the thread, between the two casts at most: one op whose type did
not fit. Norms and softmax, which compute in FP32 with reason, have more."""

STALL_NS = NS_PER_MS
"""Time between the two casts at most: from here on they belong to different parts of the program."""


def dtype_bounces(linked: LinkedTrace) -> pl.DataFrame:
    """Pairs of casts of equal shape, the second of which undoes the type of the first, with one op between at most.

    Without the pair the step saves at most the time of both casts. That both are of the same data follows from their
    order and shapes: ids of tensors are not asked for.
    """
    on_device = linked.timeline.has_device
    casts = copies_between_tensors(linked).filter("is_cast")
    casts = casts if on_device else in_order_of_ops(linked, casts)
    threads = event_columns(linked.timeline, casts.get_column("op_event"), thread="lane")
    casts = casts.with_columns(threads).sort("device", "lane", "start_ns", "op_event")
    before = {name: pl.col(name).shift(1) for name in casts.columns}
    gap = pl.col("start_ns") - before["end_ns"]
    stall = STALL_NS if on_device else HOST_STALL_NS
    near = (gap < stall) & (pl.col("first") - before["last"] - 1 <= MOST_BETWEEN)
    undoes = (pl.col("target") == before["source"]) & (pl.col("source") == before["target"])
    same = [pl.col(name).eq_missing(before[name]) for name in ("device", "lane", "thread", "shape")]
    pairs = casts.with_columns(
        pl.all_horizontal(near, undoes, *same).fill_null(value=False).alias("second"),
        before["start_ns"].alias("pair_start"),
        (pl.col("alone_ns") + before["alone_ns"]).alias("saving_ns"),
        pl.format("{} > {} > {}", before["source"], pl.col("source"), "target").alias("subject"),
    )
    # Of three casts in a row the first two are the pair.
    run = (~pl.col("second")).cum_sum()
    number = pl.col("second").cast(pl.Int64).cum_sum().over(run)
    pairs = pairs.with_columns(number.alias("number")).filter(pl.col("second") & (pl.col("number") % 2 == 1))
    return evidence_of(
        linked,
        pairs.with_columns(pl.col("pair_start").alias("start_ns"), pl.col("op_event").alias("host_event")),
    )


DTYPE_BOUNCES_DETECTOR = Detector(
    "dtype-bounces",
    "tensors are cast to another type and straight back",
    "Keep one type: run the op in between in it, or set the dtype of the module or buffer; "
    "torch.compile fuses casts",
    dtype_bounces,
    (Need.SHAPES_OF_EITHER, Need.KNOWN_OPS),
    removes=Removal.RUN,
)


_LAYING_OUT = ["aten::contiguous", "aten::reshape"]
"""Ops that copy only where the layout of their input does not fit."""
_CLONE = "aten::clone"
_KERNEL = r"(?i)nchw_?to_?nhwc|nhwc_?to_?nchw|tensorTransformGeneric|batched_transpose"
"""Names of kernels of cuDNN and MIOpen that lay tensors out anew for a convolution."""
_COLUMNS = ["start_ns", "end_ns", "saving_ns", "event_id", "host_event", "subject"]


def layout_copies(linked: LinkedTrace) -> pl.DataFrame:
    """Copies on the device, or on the host where it has none, between different layouts of the same type and shape.

    Those in `contiguous`, `reshape` and `clone` are known by strides; where these were not recorded, all copies in
    `contiguous` and `reshape`; and kernels that convolutions launch by their names. A copy into a part of another
    tensor, such as a cache, is none. Each saves at most its own time.
    """
    known = copies_between_tensors(linked)
    may_be = _copies_inside(linked, [*_LAYING_OUT, _CLONE])
    by_strides = known.filter((pl.col("target") == pl.col("source")) & ~pl.col("same_layout")).join(
        may_be, on="op_event", how="semi", maintain_order="left"
    )
    certain = _copies_inside(linked, _LAYING_OUT).get_column("op_event")
    inside = work_of_ops(linked, certain).filter(~pl.col("leaves"))
    with_layout = known.filter(pl.col("same_layout").is_not_null() | (pl.col("target") != pl.col("source")))
    inside = inside.join(with_layout, on="op_event", how="anti", maintain_order="left")
    inside = inside.join(by_strides, on="op_event", how="anti", maintain_order="left")
    columns = ["start_ns", "end_ns", "alone_ns", "event_id", "op_event", "kernel"]
    both = pl.concat([by_strides.select(columns), inside.select(columns)])
    copies = both.join(may_be, on="op_event", how="left", maintain_order="left").select(
        "start_ns",
        "end_ns",
        pl.col("alone_ns").alias("saving_ns"),
        "event_id",
        pl.col("enclosing").alias("host_event"),
        pl.col("kernel").alias("subject"),
    )
    work = device_work(linked)
    is_kernel = flags_by_name(work.get_column("name"), lambda name: name.str.contains(_KERNEL))
    kernels = (
        work.filter(pl.Series(is_kernel, dtype=pl.Boolean))
        .join(copies, on="event_id", how="anti")
        .select(
            pl.col("ts_ns").alias("start_ns"),
            "end_ns",
            pl.col("alone_ns").alias("saving_ns"),
            "event_id",
            pl.col("op_event").alias("host_event"),
            pl.col("name").alias("subject"),
        )
    )
    return evidence_of(linked, pl.concat([copies, kernels]).select(_COLUMNS))


def _copies_inside(linked: LinkedTrace, ops: list[str]) -> pl.DataFrame:
    """The copies inside these ops: `op_event`, and `enclosing`, the innermost of the ops."""
    names = host_names(linked)
    name = names.get_column("name")
    lays_out = flags_by_name(name, lambda text: text.is_in(ops))
    copies = flags_by_name(name, lambda text: text == _COPY)
    rows = np.flatnonzero(copies)
    tree = host_ops(linked)
    enclosing = tree.nearest(lays_out)[rows] if lays_out.any() else np.full(len(rows), -1)
    inside = enclosing >= 0
    return pl.DataFrame(
        {"op_event": tree.event_id[rows[inside]], "enclosing": tree.event_id[enclosing[inside]]},
        schema={"op_event": pl.Int64, "enclosing": pl.Int64},
    )


LAYOUT_COPIES_DETECTOR = Detector(
    "layout-copies",
    "copies only change a tensor's layout",
    "Produce the layout that the next op needs (channels_last for convolutions), or let ops take "
    "strided tensors",
    layout_copies,
    (Need.HOST_OPS, Need.KNOWN_OPS),
    removes=Removal.RUN,
)


_LEAST_ELEMENTS = 1 << 20
_GROWS = 16
"""A broadcast result is large against both of its inputs from this factor on."""
_BROADCAST_SAVED = 0.9
"""A product or a fused kernel does the same without the tensor in memory."""
_REDUCTIONS = r"^aten::(sum|mean|amin|amax|max|min|norm|linalg_vector_norm|any|all|logsumexp)$"


def _broadcast_distances(linked: LinkedTrace) -> pl.DataFrame:
    """Elementwise ops that make such a tensor, ops on tensors of its shape, and the reduction at the end."""
    ops = op_table(linked).filter(pl.col("name").str.starts_with("aten::"))
    rows = ops.get_column("row").to_numpy()
    ops = ops.filter(pl.Series(surroundings(linked).top_op[rows] == rows, dtype=pl.Boolean))
    shapes = {dims: shapes_of(dims) for dims in ops.get_column("dims").unique().to_list()}
    made = {dims: shape for dims, found in shapes.items() if (shape := _made(found)) is not None}
    on_made = [dims for dims, found in shapes.items() if found and found[0] in set(made.values())]
    reduces = pl.col("name").str.contains(_REDUCTIONS)
    if ops.filter(pl.col("dims").is_in(on_made) & reduces).is_empty():
        on_made, made = [], {}
    chosen = ops.filter(pl.col("dims").is_in([*made, *on_made]))
    work = work_of_ops(linked, chosen.get_column("event_id"))
    if not linked.timeline.has_device:
        work = _with_release(work, ops)
    found = work.with_columns(
        (pl.col("alone_ns") * _BROADCAST_SAVED).cast(pl.Int64).alias("saving_ns"),
        pl.col("op_event").alias("host_event"),
    )
    return evidence_of(linked, found)


def _with_release(work: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Each op until the next one of its thread begins: memory of that size goes back to the system between them."""
    following = ops.select("event_id", pl.col("start_ns").shift(-1).over("lane").alias("next_ns"))
    found = work.join(following, left_on="op_event", right_on="event_id", how="left", maintain_order="left")
    end = pl.when(pl.col("next_ns") - pl.col("end_ns") <= pl.col("dur_ns")).then("next_ns")
    return found.with_columns(
        pl.max_horizontal("end_ns", end).alias("end_ns"),
    ).with_columns((pl.col("end_ns") - pl.col("start_ns")).alias("alone_ns"))


def _made(shapes: list[Shape]) -> Shape | None:
    """The shape that two inputs make, where each of them is far smaller."""
    if len(shapes) < 2:
        return None
    pairs = list(zip_longest(reversed(shapes[0]), reversed(shapes[1]), fillvalue=1))
    if any(a != b and 1 not in (a, b) for a, b in pairs):
        return None
    result = tuple(max(pair) for pair in reversed(pairs))
    largest = max(numel(shapes[0]), numel(shapes[1]))
    return result if numel(result) >= max(_LEAST_ELEMENTS, _GROWS * largest) else None


BROADCAST = Detector(
    "broadcast",
    "a broadcast creates a tensor of all pairs, which is reduced right away",
    "Write it as a matrix product (for distances |a - b|^2 = |a|^2 + |b|^2 - 2 ab, or "
    "torch.cdist), or compile it with torch.compile so that the tensor is never stored",
    _broadcast_distances,
    (Need.SHAPES, Need.KNOWN_OPS),
    removes=Removal.RUN,
)


_LOOKUP = "aten::embedding"
_BACKWARD = "aten::embedding_dense_backward"
_LEAST_ROWS = 10_000
_ROWS_PER_TOKEN = 10
"""A dense gradient is mostly zeros where the table has so many rows for each index that is looked up."""


def _dense_gradients(linked: LinkedTrace) -> pl.DataFrame:
    """The dense backward op of such a table, and what the step does with a tensor of the table's shape.

    With a sparse gradient that time is in proportion to the indices.
    """
    ops = op_table(linked)
    if not ops.get_column("name").is_in([_BACKWARD]).any():
        return EVIDENCE.empty()
    shapes = {dims: shapes_of(dims) for dims in ops.get_column("dims").unique().to_list()}
    tables: dict[Shape, float] = {}
    for dims in ops.filter(pl.col("name") == _LOOKUP).get_column("dims").unique().to_list():
        if len(shapes[dims]) < 2:
            continue
        table, indices = shapes[dims][:2]
        if len(table) == 2 and table[0] >= max(_LEAST_ROWS, _ROWS_PER_TOKEN * numel(indices)):
            tables[table] = numel(indices) / table[0]
    touches = [dims for dims, found in shapes.items() if any(shape in tables for shape in found)]
    is_backward = pl.col("name") == _BACKWARD
    chosen = ops.filter(
        (pl.lit(bool(tables)) & is_backward)
        | (
            pl.col("dims").is_in(touches)
            & (pl.col("name") != _LOOKUP)
            & pl.col("name").str.starts_with("aten::")
        )
    ).sort("lane", "start_ns", "end_ns", descending=[False, False, True])
    reach = pl.col("end_ns").cum_max().shift(1).over("lane")
    outermost = chosen.filter((pl.col("start_ns") >= reach).fill_null(value=True))
    work = work_of_ops(linked, outermost.get_column("event_id"))
    left = max(tables.values(), default=0.0)
    found = work.with_columns(
        (pl.col("alone_ns") * (1 - left)).cast(pl.Int64).alias("saving_ns"),
        pl.col("op_event").alias("host_event"),
        pl.lit(f"embedding of {max(tables, default=(0, 0))[0]:,} rows").alias("subject"),
    )
    return evidence_of(linked, found)


DENSE_GRADIENT = Detector(
    "dense-gradient",
    "the gradient of a large embedding is dense, though few of its rows are used",
    "Use nn.Embedding(..., sparse=True) with an optimizer that supports sparse gradients (SGD, "
    "SparseAdam), or shard the table",
    _dense_gradients,
    (Need.SHAPES, Need.KNOWN_OPS),
    removes=Removal.RUN,
)
