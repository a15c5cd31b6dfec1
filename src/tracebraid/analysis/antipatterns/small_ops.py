"""Anti-patterns of copies, optimizers and activations."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.analysis.antipatterns.communication import calls_for_objects
from tracebraid.analysis.antipatterns.evidence import (
    device_work,
    evidence_of,
    numel,
    op_table,
    shapes_of,
    work_of_ops,
)
from tracebraid.analysis.antipatterns.tensor_types import STALL_NS, json_list
from tracebraid.analysis.device import event_columns, fetched, rows_of_events
from tracebraid.analysis.efficiency.counted_ops import counted_ops
from tracebraid.analysis.efficiency.operands import BITS
from tracebraid.analysis.efficiency.roofline import LATENCY_NS
from tracebraid.analysis.host.host_rows import (
    OPTIMIZER_STEP,
    HostWork,
    all_ranges,
    by_rules,
    host_rows,
    is_in_role,
    kinds,
    names_of_rows,
    nearest_or_none,
    ranges_of,
    surroundings,
)
from tracebraid.analysis.host.host_trees import backward_ops, host_names, host_ops
from tracebraid.analysis.memory.host import passes
from tracebraid.analysis.time.breakdown import cover_of, work_events
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.analysis import Need
from tracebraid.model.answers.efficiency import OpFamily
from tracebraid.model.answers.job import EVIDENCE
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import flags_by_name
from tracebraid.model.questions import Detector, Removal

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]

_LEAST_OPS = 100
"""Ops of one call of a function, from which on it is a loop over something small."""
_TINY_NS = 40_000
"""Up to this mean an op takes about as long to call as to compute: 5 to 10 us, and as much again under a profiler. Each
counts as the median of those of its name in the call: where another program has its turn, an op lasts milliseconds."""
_APART_NS = 200_000
"""Backward ops that are further apart have something else between them, such as another forward pass."""
_NAMED = 3
_LESS = 1 - pl.col("kinds") / pl.col("ops")
"""What falls away where each kind of op runs once."""


def _detect(linked: LinkedTrace) -> pl.DataFrame:
    """Calls of a user's function that call 100 ops or more, short ones. Batched, each kind of op runs once.

    A device hides what the host takes; there `launch-bound` looks for this.
    """
    is_user = kinds(linked)["is_user_frame"]
    if linked.timeline.has_device or not is_user.any():
        return EVIDENCE.empty()
    host = host_rows(linked)
    in_optimizer = by_rules(
        linked,
        lambda names: names.select(
            (is_in_role(Role.OP, Role.ANNOTATION) & pl.col("name").str.contains(OPTIMIZER_STEP)).alias("is")
        ),
    )["is"]
    every = op_table(linked)
    rows = every.get_column("row").to_numpy()
    is_outermost = pl.Series(surroundings(linked).top_op[rows] == rows)
    # A backward pass, a collective or a custom op between two ops is no part of the loop over them.
    others = (is_outermost & ~every.get_column("name").str.starts_with("aten::")).alias("other")
    every = every.with_columns(others, is_outermost.alias("outermost")).sort(
        "lane", "start_ns", maintain_order=True
    )
    every = every.with_columns(pl.col("other").cast(pl.Int64).cum_sum().alias("run"))
    ops = every.filter(pl.col("name").str.starts_with("aten::"))
    rows, outermost = ops.get_column("row").to_numpy(), ops.get_column("outermost").to_numpy()
    # What loads, records, and copies or communicates objects is another cause.
    bounds = [ops.get_column(name).to_numpy() for name in ("start_ns", "end_ns")]
    beside = pl.concat(
        found.select("start_ns", "end_ns")
        for found in (ranges_of(linked, HostWork.COPIES_OBJECTS), calls_for_objects(linked))
    )
    copies = cover_of(*(beside.get_column(name).to_numpy() for name in ("start_ns", "end_ns")))
    known = all_ranges(linked).within(*bounds) + copies.within(*bounds)
    free = (nearest_or_none(linked, in_optimizer)[rows] < 0) & (known == 0)
    frame = nearest_or_none(linked, is_user)[rows]
    calls = (
        ops.with_columns(pl.Series("frame", frame))
        .filter(pl.Series(outermost & free & (frame >= 0)))
        .with_columns(
            (pl.col("end_ns") - pl.col("start_ns")).median().over("frame", "name").alias("usual_ns")
        )
        .with_columns(pl.col("usual_ns").mean().over("frame"), pl.len().over("frame").alias("ops"))
        .filter((pl.col("ops") >= _LEAST_OPS) & (pl.col("usual_ns") <= _TINY_NS))
    )
    named = calls.group_by("frame").agg(
        pl.col("name").n_unique().alias("kinds"),
        pl.col("name").value_counts(sort=True).struct.field("name").head(_NAMED).str.join(", ").alias("op"),
    )
    calls = (
        calls.group_by("frame", "run", maintain_order=True)
        .agg(pl.col("ops").first(), pl.col("start_ns").min(), pl.col("end_ns").max())
        .join(named, on="frame", how="left", maintain_order="left")
    )
    event = host.event_id[calls.get_column("frame").to_numpy().astype(np.int64)]
    saving = ((pl.col("end_ns") - pl.col("start_ns")) * _LESS).cast(pl.Int64)
    found = calls.with_columns(
        pl.Series("event_id", event, dtype=pl.Int64),
        pl.Series("host_event", event, dtype=pl.Int64),
        saving.alias("saving_ns"),
        (pl.col("ops").cast(pl.String) + " ops in a call").alias("subject"),
    )
    backward = _backward_of(
        linked, found.unique("frame", keep="first", maintain_order=True), nearest_or_none(linked, is_user)
    )
    return evidence_of(linked, pl.concat([found.drop("run"), backward.drop("run")], how="diagonal"))


def _backward_of(linked: LinkedTrace, calls: pl.DataFrame, frame: NDArray[np.int64]) -> pl.DataFrame:
    """The backward ops of the ops of each call: each of them runs its own, so these are as many and as short."""
    host = host_rows(linked)
    rows, forward = backward_ops(linked)
    # Autograd's op around a node and the node itself are both of the same forward op.
    outermost = ~np.isin(host.parent[rows], rows[forward >= 0])
    rows, forward = rows[outermost], forward[outermost]
    nodes = pl.DataFrame(
        {
            "frame": np.where(forward >= 0, frame[forward], -1),
            "event_id": host.event_id[rows],
            "name": names_of_rows(linked, rows).cast(pl.String),
            "start_ns": host.start_ns[rows],
            "end_ns": host.end_ns[rows],
        }
    )
    long = pl.col("end_ns") - pl.col("start_ns")
    return (
        nodes.sort("start_ns")
        .join(calls.select("frame", "host_event", "op"), on="frame", maintain_order="left")
        .with_columns(
            pl.len().over("frame").alias("ops"),
            pl.col("name").n_unique().over("frame").alias("kinds"),
            (pl.col("start_ns") - pl.col("end_ns").shift(1).over("frame") > _APART_NS)
            .fill_null(value=False)
            .cum_sum()
            .alias("run"),
        )
        .group_by("frame", "run", maintain_order=True)
        .agg(
            pl.col("ops", "kinds", "event_id", "host_event", "op").first(),
            pl.col("start_ns").min(),
            pl.col("end_ns").max(),
            long.sum().alias("long_ns"),
        )
        .with_columns(
            (pl.col("long_ns") * _LESS).cast(pl.Int64).alias("saving_ns"),
            (pl.col("ops").cast(pl.String) + " backward ops").alias("subject"),
        )
    )


TINY_OPS = Detector(
    "tiny-ops",
    "a loop calls many short ops one by one",
    "Process all rows at once with batched or broadcast ops, or compile the function that loops "
    "with torch.compile",
    _detect,
    (Need.STACKS,),
    apart=("call_site",),
    generality=1,
    removes=Removal.HOST,
)


LEAST_BYTES = 1 << 20
"""Bytes of the largest tensor between two ops of a chain at least: smaller ones take no time to read."""

_FUSABLE = [OpFamily.POINTWISE.value, OpFamily.COPY.value, OpFamily.REDUCTION.value]
_LEFT_OUT = OPTIMIZER_STEP + r"|^Torch-Compiled Region|^CompiledFunction"
"""Ops in an optimizer's step have a detector of their own; in a compiled region a compiler has chosen kernels."""
_COPY = "aten::copy_"
_SHOWN = 8

_Sizes = tuple[int, ...]


class _Traffic(Struct, frozen=True):
    """The bytes that an op reads, by tensor, and those that it writes."""

    reads: _Sizes
    writes: int


def unfused_elementwise(linked: LinkedTrace) -> pl.DataFrame:
    """Two or more such ops in a row on a stream, each of which takes a tensor as large as the one before makes.

    One kernel reads what comes from outside of the chain and writes what leaves it. Each op saves so much of its time
    as it has of its bytes in tensors of the chain: those it reads that an op before wrote, and what it writes and a
    later one reads. What the first op writes stays: it may be a residual that others need. Whose data a tensor holds
    follows from order and sizes. Ops of an optimizer's step and of compiled regions are left out, and
    copies alone: casts and layouts are other causes.
    """
    ops = _ops(linked)
    if ops.height < 2:
        return evidence_of(linked, _as_found([]))
    key = ["name", "input_dims", "input_types", "bytes"]
    unique = ops.select(key).unique(maintain_order=True)
    traffic = {row: _traffic(*row) for row in unique.iter_rows()}
    moved = [traffic[row] for row in ops.select(key).iter_rows()]
    next_to = _next_to_each_other(ops)
    found, begin = [], 0
    for row in range(1, ops.height + 1):
        if row < ops.height and next_to[row] and _follows(ops, moved, row):
            continue
        large = max((each.writes for each in moved[begin : row - 1]), default=0) >= LEAST_BYTES
        if large and (ops["name"][begin:row] != _COPY).any():
            found.append(_chain(ops[begin:row], moved[begin:row]))
        begin = row
    return evidence_of(linked, _as_found(found))


def _ops(linked: LinkedTrace) -> pl.DataFrame:
    """The ops that one kernel could do together with their neighbours, in the order of streams."""
    ops = counted_ops(linked).filter(pl.col("family").is_in(_FUSABLE) & pl.col("bytes").is_not_null())
    tree = host_ops(linked)
    names = host_names(linked).get_column("name")
    left_out = flags_by_name(names, lambda name: name.str.contains(_LEFT_OUT))
    if left_out.any():
        outside = tree.nearest(left_out)[tree.rows(ops.get_column("event_id").to_numpy())] < 0
        ops = ops.filter(pl.Series(outside, dtype=pl.Boolean))
    work = work_of_ops(linked, ops.get_column("event_id")).filter(~pl.col("leaves"))
    named = ops.select(
        pl.col("event_id").alias("op_event"), "name", "input_dims", "input_types", "bytes"
    ).with_columns(pl.col("name", "input_dims", "input_types").cast(pl.String))
    found = work.join(named, on="op_event", how="inner", maintain_order="left").sort(
        "device", "lane", "first"
    )
    return found.with_columns(event_columns(linked.timeline, found.get_column("op_event"), thread="lane"))


def _next_to_each_other(ops: pl.DataFrame) -> NDArray[np.bool_]:
    """Return whether each op directly follows the previous one on its stream and thread."""
    before = {name: pl.col(name).shift(1) for name in ("last", "end_ns")}
    same = [pl.col(name).eq_missing(pl.col(name).shift(1)) for name in ("device", "lane", "thread")]
    next_to = (
        pl.all_horizontal(same)
        & (pl.col("first") == before["last"] + 1)
        & (pl.col("start_ns") - before["end_ns"] < STALL_NS)
    )
    return ops.select(next_to.fill_null(value=False)).to_series().to_numpy()


def _follows(ops: pl.DataFrame, moved: list[_Traffic], row: int) -> bool:
    """Return whether an op may read the result of the previous one; a copy does not copy a copy."""
    names = ops.get_column("name")
    both_copy = names[row] == names[row - 1] == _COPY and moved[row] == moved[row - 1]
    return not both_copy and moved[row - 1].writes in moved[row].reads


def _chain(ops: pl.DataFrame, moved: list[_Traffic]) -> dict[str, object]:
    """A chain as an occurrence."""
    inside = [0] * len(moved)
    is_read = [False] * len(moved)
    for number, each in enumerate(moved):
        made = list(range(number))
        for size in each.reads:
            # An op reads as many of a size from the chain as there are: the latest first.
            source = next((earlier for earlier in reversed(made) if moved[earlier].writes == size), None)
            if source is not None:
                made.remove(source)
                inside[number] += size
                is_read[source] = True
    saving = 0.0
    alone, sizes = ops.get_column("alone_ns").to_list(), ops.get_column("bytes").to_list()
    for number, each in enumerate(moved):
        gone = inside[number] + (each.writes if is_read[number] and number else 0)
        saving += alone[number] * min(gone / max(sizes[number], 1), 1.0)
    longest = int(np.argmax(ops.get_column("dur_ns").to_numpy()))
    names = [name.removeprefix("aten::") for name in ops.get_column("name")]
    shown = [*names[:_SHOWN], "..."] if len(names) > _SHOWN else names
    return {
        "start_ns": ops.get_column("start_ns")[0],
        "end_ns": ops.get_column("end_ns")[-1],
        "saving_ns": int(saving),
        "event_id": ops.get_column("event_id")[longest],
        "host_event": ops.get_column("op_event")[longest],
        "subject": " > ".join(shown),
    }


def _traffic(name: str, dims: str | None, types: str | None, size: int) -> _Traffic:
    """Bytes read and written by an op of known shapes and types."""
    reads = [
        BITS[dtype] * numel(tuple(shape)) // 8
        for shape, dtype in zip(json_list(dims), json_list(types), strict=False)
        if isinstance(dtype, str) and dtype in BITS and isinstance(shape, list)
    ]
    if not reads:
        # Of a list of tensors, which are joined, as much is written as is read.
        counts = [numel(shape) for shape in shapes_of(dims)]
        reads = [round(size / 2 * count / max(sum(counts), 1)) for count in counts]
    elif name == _COPY:
        reads = reads[1:]
    return _Traffic(tuple(reads), max(size - sum(reads), 0))


def _as_found(rows: list[dict[str, object]]) -> pl.DataFrame:
    whole = ("start_ns", "end_ns", "saving_ns", "event_id", "host_event")
    return pl.DataFrame(rows, schema={**dict.fromkeys(whole, pl.Int64), "subject": pl.String})


UNFUSED_ELEMENTWISE_DETECTOR = Detector(
    "unfused-elementwise",
    "elementwise ops in a row write and read each other's results",
    "Let one kernel do them: torch.compile, or a fused norm, activation or rotary embedding "
    "(torch.nn.functional.rms_norm, Liger, Apex)",
    unfused_elementwise,
    (Need.DEVICE_WORK, Need.SHAPES, Need.KNOWN_OPS),
    removes=Removal.RUN,
)


LEAST_RUNS = 10
"""Runs of the same op in one step of the optimizer from which on it goes over parameters one by one."""

_PER_PARAMETER = (
    r"^aten::(?:add|addcdiv|addcmul|clamp_min|copy|div|lerp|maximum|mul|neg|pow|"
    r"reciprocal|rsqrt|sign|sqrt|sub|zero)_?$"
)
"""Elementwise ops of which optimizers are made, on one tensor each; `_foreach_` and `_fused_` ops take lists."""


def unfused_optimizer(linked: LinkedTrace) -> pl.DataFrame:
    """Steps of an optimizer in which an elementwise op runs `LEAST_RUNS` times or more, on one tensor each.

    An occurrence lasts from the first to the last work of these ops. Fused, it takes at least as long as the most
    expensive of the ops over all parameters, without the `LATENCY_NS` that each small kernel takes anyway. So it
    saves at most the time of these ops and the idle time between them, less that.
    """
    ops = _ops_of_steps(linked)
    work = work_of_ops(linked, ops.get_column("op_event")).filter(~pl.col("leaves"))
    work = work.join(ops, on="op_event", how="inner", maintain_order="left")
    counted = work.filter(pl.len().over("optimizer", "name") >= LEAST_RUNS)
    needed = pl.max_horizontal(pl.col("dur_ns") - LATENCY_NS * pl.max_horizontal("kernels", 1), 0)
    least = counted.group_by("optimizer", "name").agg(needed.sum().alias("least_ns"))
    least = least.group_by("optimizer").agg(pl.col("least_ns").max())
    found = (
        counted.sort("start_ns", "op_event")
        .group_by("optimizer", maintain_order=True)
        .agg(
            pl.col("start_ns", "op_event", "event_id").first(),
            pl.col("end_ns").max(),
            pl.col("alone_ns").sum(),
            pl.col("title").first().alias("op"),
            pl.col("name").mode().sort().first().alias("subject"),
        )
        .join(least, on="optimizer", how="left", maintain_order="left")
    )
    saving = pl.col("alone_ns") + pl.Series("idle_ns", _idle(linked, found)) - pl.col("least_ns")
    return evidence_of(
        linked, found.with_columns(saving.alias("saving_ns"), pl.col("optimizer").alias("host_event"))
    )


def _ops_of_steps(linked: LinkedTrace) -> pl.DataFrame:
    """The elementwise ops that an optimizer's step calls itself: op_event, name, optimizer (its event), title."""
    names = host_names(linked)
    is_step = flags_by_name(names.get_column("name"), lambda name: name.str.contains(OPTIMIZER_STEP))
    elementwise = flags_by_name(names.get_column("name"), lambda name: name.str.contains(_PER_PARAMETER))
    tree = host_ops(linked)
    is_op = names.select(as_text("category").is_in(categories_of(Role.OP))).to_series().fill_null(value=False)
    own = is_op.to_numpy() & ~is_step
    # Called by the step itself: the op around it is no op of ATen but an annotation.
    outer = tree.enclosing
    within = own[outer] & (outer != np.arange(len(outer)))
    step = tree.nearest(is_step)
    chosen = np.asarray(own & elementwise & ~within & (step >= 0))
    rows = np.flatnonzero(chosen)
    return names[rows].select(
        pl.col("event_id").alias("op_event"),
        as_text("name"),
        pl.Series("optimizer", tree.event_id[step[rows]], dtype=pl.Int64),
        names.get_column("name").gather(step[rows]).cast(pl.String).alias("title"),
    )


def _idle(linked: LinkedTrace, found: pl.DataFrame) -> _Ints:
    starts, ends = (found.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    if not linked.timeline.has_device:
        between: _Ints = np.maximum(ends - starts - found.get_column("alone_ns").to_numpy(), 0)
        return between
    work = work_events(linked)
    begins, lasts = (work.get_column(name).to_numpy() for name in ("ts_ns", "dur_ns"))
    idle: _Ints = ends - starts - cover_of(begins, begins + lasts).within(starts, ends)
    return idle


UNFUSED_OPTIMIZER_DETECTOR = Detector(
    "unfused-optimizer",
    "the optimizer updates the parameters one by one",
    "Create the optimizer with fused=True or foreach=True, or compile its step with torch.compile",
    unfused_optimizer,
    (Need.ANNOTATIONS,),
    removes=Removal.RUN,
)


LEAST_FREE = 0.1
"""Share of a device's memory that was free at all times, below which keeping more is no advice."""

_COSTLY = [OpFamily.MATMUL.value, OpFamily.CONVOLUTION.value, OpFamily.ATTENTION.value]
"""What computes much for each byte of its result: what selective checkpointing keeps."""


def costly_recomputation(linked: LinkedTrace) -> pl.DataFrame:
    """Products, convolutions and attention that a checkpoint computes again in the backward pass; without a device all.

    Kept, each saves at most its own time. Where the trace has allocations and the device's memory, and less than
    `LEAST_FREE` of it was free at the peak, nothing is found: then recomputation pays for itself.
    """
    # A host is slow at elementwise ops, too.
    costly = pl.col("family").is_in(_COSTLY) if linked.timeline.has_device else pl.lit(value=True)
    ops = counted_ops(linked).filter(pl.col("is_recompute") & costly)
    free = free_memory_share(linked)
    if free is not None and free < LEAST_FREE:
        ops = ops.clear()
    work = work_of_ops(linked, ops.get_column("event_id"))
    return evidence_of(
        linked,
        work.with_columns(
            pl.col("alone_ns").alias("saving_ns"),
            pl.col("op_event").alias("host_event"),
            pl.col("kernel").alias("subject"),
        ),
    )


def free_memory_share(linked: LinkedTrace) -> float | None:
    """The share of the device's memory that the allocator never reserved; None where the trace does not say."""
    reserved = linked.timeline.tables["memory"].filter(pl.col("device_type") != 0)
    peak = reserved.get_column("total_reserved_bytes").max()
    properties = linked.timeline.header.get("deviceProperties")
    rows = [row for row in properties if isinstance(row, dict)] if isinstance(properties, list) else []
    sizes = [row.get("totalGlobalMem") for row in rows]
    known = [size for size in sizes if isinstance(size, int) and size > 0]
    if not isinstance(peak, int) or not known:
        return None
    return max(0.0, 1 - peak / min(known))


COSTLY_RECOMPUTATION_DETECTOR = Detector(
    "costly-recomputation",
    "products and attention are recomputed for the backward pass",
    "Checkpoint selectively: keep products and attention, recompute elementwise ops; or "
    "checkpoint fewer layers",
    costly_recomputation,
    (Need.HOST_OPS,),
    removes=Removal.RUN,
)


_PRODUCTS = r"^aten::(linear|addmm|mm|bmm|baddbmm|matmul|scaled_dot_product_attention)$"
_LEAST_LENGTHS = 6
"""Lengths that follow each other by one, from which on it is a loop that grows a sequence."""


def _recomputed_prefixes(linked: LinkedTrace) -> pl.DataFrame:
    """Products whose first input grows by one row again and again: all rows but the new one were known.

    Attention of one new row reads all keys and values; linear layers of it cost one row.
    """
    ops = op_table(linked).filter(pl.col("name").str.contains(_PRODUCTS))
    rows = ops.get_column("row").to_numpy()
    ops = ops.filter(pl.Series(surroundings(linked).top_op[rows] == rows, dtype=pl.Boolean))
    steps = step_of_moments(ops.select(pl.col("start_ns").alias("ts_ns")), step_windows(linked)).get_column(
        "step"
    )
    ops = ops.with_columns(steps.alias("step"))
    grown = [frame for _, frame in ops.group_by("lane", "step", "name", maintain_order=True)]
    lengths = {event: length for frame in grown for event, length in _growing(frame).items()}
    found = work_of_ops(linked, pl.Series(list(lengths), dtype=pl.Int64))
    left = 1 / pl.col("op_event").replace_strict(lengths, default=1, return_dtype=pl.Float64)
    return evidence_of(
        linked,
        found.with_columns(
            (pl.col("alone_ns") * (1 - left)).cast(pl.Int64).alias("saving_ns"),
            pl.col("op_event").alias("host_event"),
        ),
    )


def _growing(ops: pl.DataFrame) -> dict[int, int]:
    """The ops of one name whose first input grows by one, and how long it is: by event."""
    first = [shapes[0] if (shapes := shapes_of(dims)) else () for dims in ops.get_column("dims").to_list()]
    events = ops.get_column("event_id").to_list()
    for axis in range(max(map(len, first), default=0)):
        by_rest: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        for event, shape in zip(events, first, strict=True):
            if len(shape) > axis:
                rest = (*shape[:axis], -1, *shape[axis + 1 :])
                by_rest.setdefault(rest, []).append((event, shape[axis]))
        grown = {event: n for found in by_rest.values() for run in _runs(found) for event, n in run}
        if grown:
            return grown
    return {}


def _runs(found: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Stretches of ops in which the length grows by one at a time, often enough; each begins where it falls back."""
    runs: list[list[tuple[int, int]]] = [[]]
    for event, length in found:
        if runs[-1] and length - runs[-1][-1][1] not in (0, 1):
            runs.append([])
        runs[-1].append((event, length))
    return [run for run in runs if len({length for _, length in run}) >= _LEAST_LENGTHS]


RECOMPUTED_PREFIX = Detector(
    "recomputed-prefix",
    "a growing sequence is recomputed from its beginning each time",
    "Keep the keys and values of earlier tokens (a KV cache: use_cache=True, past_key_values), "
    "and compute only the new token",
    _recomputed_prefixes,
    (Need.SHAPES, Need.KNOWN_OPS),
    removes=Removal.RUN,
)


STORED_ACTIVATIONS_LEAST_BYTES = 1024 * 1024
"""Size of an activation that is worth storing elsewhere; counters and losses are copied to the host, too."""

_TO_HOST = r"DtoH|CopyDeviceToHost"
_TO_DEVICE = r"HtoD|CopyHostToDevice"


def stored_activations(linked: LinkedTrace) -> pl.DataFrame:
    """Copies to the host in a forward pass, and copies of the same size back in its backward pass.

    Of each size as many count as went both ways. A copy saves at most its time in which nothing computes: behind
    compute, storing is free. What activations cost in the device's own memory takes no time of its own; where it is
    too much, the allocator's retries do, which have a detector.
    """
    work = device_work(linked)
    known = linked.timeline.device_work
    rows = rows_of_events(known.get_column("event_id"), work.get_column("event_id"))
    launch = work.select(pl.coalesce("call_event", "op_event")).to_series()
    to_host, to_device = (pl.col("name").str.contains(text) for text in (_TO_HOST, _TO_DEVICE))
    copies = (
        work.with_columns(
            fetched(known.select("size_bytes"), rows).to_series(),
            event_columns(linked.timeline, launch, called="ts_ns")[0],
        )
        .filter(
            (pl.col("size_bytes") >= STORED_ACTIVATIONS_LEAST_BYTES)
            & (to_host | to_device)
            & pl.col("called").is_not_null()
        )
        .with_columns(to_device.alias("back"))
    )
    number, fits = _passes_of(linked, copies)
    key = ["number", "size_bytes"]
    there = (~pl.col("back")).sum().over(key)
    again = pl.col("back").sum().over(key)
    found = (
        copies.with_columns(pl.Series("number", number))
        .filter(pl.Series(fits, dtype=pl.Boolean))
        .sort("ts_ns", "event_id")
        .filter(pl.int_range(pl.len()).over(*key, "back") < pl.min_horizontal(there, again))
    )
    return evidence_of(
        linked,
        found.select(
            pl.col("ts_ns").alias("start_ns"),
            "end_ns",
            pl.col("alone_ns").alias("saving_ns"),
            "event_id",
            pl.col("op_event").alias("host_event"),
            pl.col("name").alias("subject"),
        ),
    )


def _passes_of(linked: LinkedTrace, copies: pl.DataFrame) -> tuple[_Ints, _Bools]:
    """Number of the backward pass of each copy, and whether the copy lies in it or in its forward pass."""
    of_pass = passes(linked)
    called = copies.get_column("called").to_numpy()
    holding = of_pass.holding(called)
    inside = (holding >= 0) & (called < of_pass.at(of_pass.end_ns, holding))
    back = copies.get_column("back").to_numpy()
    number = np.where(back, np.where(inside, holding, -1), of_pass.coming(called))
    fits = (number >= 0) & (number < len(of_pass.begin_ns))
    fits &= back | (called >= of_pass.at(of_pass.forward_ns, number))
    return number, fits


STORED_ACTIVATIONS_DETECTOR = Detector(
    "stored-activations",
    "the device waits for activations stored on the host",
    "Recompute them (torch.utils.checkpoint), keep them on the device, or copy them on a stream of their own",
    stored_activations,
    (Need.DEVICE_WORK,),
    removes=Removal.RUN,
)
