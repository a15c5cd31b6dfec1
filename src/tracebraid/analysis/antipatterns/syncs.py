"""Anti-patterns in which the host waits for the device."""

from __future__ import annotations

from enum import Enum

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.antipatterns.evidence import (
    device_work,
    evidence_of,
    idle_after,
    in_idle_stretches,
    is_on_device,
    op_table,
    work_of_ops,
)
from tracebraid.analysis.device import device_events, event_columns, event_names, fetched, rows_of_events
from tracebraid.analysis.host.host_rows import (
    NO_ROW,
    HostWork,
    all_ranges,
    by_rules,
    host_rows,
    is_in_role,
    modules_of_rows,
    names_of_rows,
    nearest_or_none,
    ranges_of,
    surroundings,
)
from tracebraid.analysis.launches.copied import copied
from tracebraid.analysis.launches.launch_bound import launch_bound
from tracebraid.analysis.launches.sync_calls import sync_calls
from tracebraid.analysis.memory.host import device_calls
from tracebraid.analysis.time.breakdown import cover_of, work_events
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.analysis import Need
from tracebraid.model.answers.job import EVIDENCE
from tracebraid.model.answers.launches import Direction, SyncKind
from tracebraid.model.category import Role
from tracebraid.model.device_peaks import WAIT
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions import Detector, Removal


def _detect(linked: LinkedTrace) -> pl.DataFrame:
    stretches = launch_bound(linked)
    events = device_events(linked)
    work = work_events(linked).select("device", pl.col("ts_ns").alias("start_ns"), "event_id")
    first = work.sort("event_id").unique(["device", "start_ns"], keep="first", maintain_order=True)
    found = stretches.join(first, on=["device", "start_ns"], how="left", maintain_order="left").select(
        "start_ns",
        (pl.col("start_ns") + pl.col("span_ns")).alias("end_ns"),
        pl.col("idle_ns").alias("saving_ns"),
        "device",
        "event_id",
    )
    idle = in_idle_stretches(linked, found)
    return evidence_of(linked, _with_launches(linked, idle, events))


def _with_launches(linked: LinkedTrace, idle: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Each idle stretch with the call that ends it, that of the first work behind it, and its module or annotation."""
    calls = events.select("device", pl.col("ts_ns").alias("end_ns"), pl.col("call_event").alias("host_event"))
    found = idle.sort("end_ns").join_asof(
        calls.sort("end_ns"), on="end_ns", by="device", strategy="forward", check_sortedness=False
    )
    rows = host_rows(linked).rows(found.get_column("host_event").fill_null(-1).to_numpy())
    context = surroundings(linked)
    modules = modules_of_rows(linked, context.module[rows]).cast(pl.String)
    ranges = names_of_rows(linked, context.annotation[rows]).cast(pl.String)
    return found.with_columns(modules.zip_with(modules.is_not_null(), ranges).alias("subject"))


LAUNCH_BOUND_STRETCH = Detector(
    "launch-bound",
    "the device waits for launches, which take longer than its kernels",
    'Launch many kernels at once with torch.compile(mode="reduce-overhead"), CUDA graphs, or '
    "foreach or fused optimizers; or give each kernel more work (larger batches)",
    _detect,
    (Need.DEVICE_WORK, Need.HOST_OPS, Need.LAUNCHES),
    generality=1,
    removes=Removal.HOST,
)


_PINNED_BYTES_PER_NS = 25.0
"""Pinned memory over 16 lanes of PCIe 4.0, whose 31.5 GB/s copies reach to four fifths."""

_WHAT = ["start_ns", "end_ns", "saving_ns", "event_id", "host_event", "subject"]


def _pageable_copies(linked: LinkedTrace) -> pl.DataFrame:
    pageable = (pl.col("direction") == Direction.HOST_TO_DEVICE.value) & ~pl.col("pinned")
    copies = copied(linked).filter(pageable.fill_null(value=False))
    named = copies.with_columns(
        pl.coalesce("call_event", "event_id").alias("host_event"), pl.col("name").alias("subject")
    )
    calls = named.filter(pl.col("call_event").is_not_null()).with_columns(
        pl.col("called_ns").alias("start_ns"), pl.col("returned_ns").alias("end_ns")
    )
    waited = idle_after(linked, calls).select(_WHAT)
    return evidence_of(linked, pl.concat([waited, _exposed(linked, named).select(_WHAT)]))


def beyond_pinned() -> pl.Expr:
    """`saving_ns` of copies: what of `alone_ns` is beyond the time of a copy of `size_bytes` of pinned memory."""
    pinned_ns = pl.col("size_bytes").fill_null(0) / _PINNED_BYTES_PER_NS
    return (pl.col("alone_ns") - pinned_ns).clip(lower_bound=0).cast(pl.Int64).alias("saving_ns")


def _exposed(linked: LinkedTrace, copies: pl.DataFrame) -> pl.DataFrame:
    """The copies themselves: what nothing else that works on a device hides, less the time of a pinned copy."""
    others = work_events(linked).join(copies.select("event_id"), on="event_id", how="anti")
    starts = others.get_column("ts_ns").to_numpy()
    hidden = cover_of(starts, starts + others.get_column("dur_ns").to_numpy())
    starts, ends = (copies.get_column(name).to_numpy() for name in ("ts_ns", "end_ns"))
    return copies.with_columns(
        pl.col("ts_ns").alias("start_ns"),
        pl.Series("alone_ns", ends - starts - hidden.within(starts, ends)),
    ).with_columns(beyond_pinned())


PAGEABLE_COPY = Detector(
    "pageable-copy",
    "copies from unpinned memory block the host",
    "Use pin_memory=True in the DataLoader, or tensor.pin_memory(), together with to(device, "
    "non_blocking=True)",
    _pageable_copies,
    (Need.DEVICE_WORK, Need.KNOWN_CALLS),
    removes=Removal.COPY,
)


class Waiting(Enum):
    """What makes the host wait."""

    ITEM = "a value is read: `.item()`, `float(tensor)`, `if tensor:`"
    SIZE = "the size of a result depends on the data: `nonzero`, masks, `unique`"
    READ = "a tensor is copied to the host, and the host waits for it: `.cpu()`, `.tolist()`, `.numpy()`"
    PAGEABLE = "a tensor is copied to the device from memory that is not pinned"
    EXPLICIT = "the program asks for it: `torch.cuda.synchronize()`, `event.synchronize()`"


_ITEM_OPS = r"^aten::(item|_local_scalar_dense|is_nonzero|equal|allclose)$"
_SIZE_OPS = (
    r"^aten::(nonzero|nonzero_numpy|argwhere|masked_select|unique|unique_dim|_unique|_unique2|unique_consecutive"
    r"|bincount|repeat_interleave|where|index|index_put_?|_index_put_impl_|combinations|histc)$"
)
"""Ops whose outputs have shapes that depend on values, or that index by a mask."""

_PROFILER = r"(^|/)torch/profiler/profiler\.py\(\d+\): "
"""Functions that start, step and stop the profiler."""

_COUNTED = [SyncKind.DEVICE.value, SyncKind.STREAM.value, SyncKind.EVENT.value, SyncKind.COPY.value]
_TO_DEVICE = [Direction.HOST_TO_DEVICE.value, Direction.HOST_TO_HOST.value]


def host_waits(linked: LinkedTrace) -> pl.DataFrame:
    """The calls that waited.

    Columns: `start_ns`, `end_ns`, `event_id`, `op`, `subject` (the
    API), `waiting`.

    `op` is the op that a user calls: the outermost around the call. Waits in saving, logging or compiling belong to
    those: they are left out. So are those that the recording makes: called by the profiler, or by the program before
    the first launch of the trace (for work that is older than it) or behind the last (nothing follows).
    """
    return linked.derived(_host_waits)


def waits_for(linked: LinkedTrace, waiting: Waiting) -> pl.DataFrame:
    """The evidence of all waits of a kind: what the device was idle because of them."""
    found = host_waits(linked).filter(pl.col("waiting") == waiting.name)
    return evidence_of(linked, idle_after(linked, found, are_waits=True))


def _host_waits(linked: LinkedTrace) -> pl.DataFrame:
    calls = sync_calls(linked).filter(pl.col("kind").is_in(_COUNTED) & (pl.col("blocked_ns") > 0))
    copies = copied(linked).filter(pl.col("call_event").is_not_null())
    copies = copies.sort("call_event").unique("call_event", keep="first", maintain_order=True)
    rows = rows_of_events(copies.get_column("call_event"), calls.get_column("call_event"))
    directions = fetched(copies.select("direction"), rows).to_series()
    op = pl.coalesce("top_op", "op", pl.lit(""))
    ops = pl.coalesce("op", pl.lit(""))
    waiting = (
        pl.when(op.str.contains(_ITEM_OPS) | ops.str.contains(_ITEM_OPS))
        .then(pl.lit(Waiting.ITEM.name))
        .when(op.str.contains(_SIZE_OPS) | ops.str.contains(_SIZE_OPS))
        .then(pl.lit(Waiting.SIZE.name))
        .when(pl.Series(directions.is_in(_TO_DEVICE).fill_null(value=False)))
        .then(pl.lit(Waiting.PAGEABLE.name))
        .when((pl.col("kind") == SyncKind.COPY.value) | op.str.contains(r"^aten::"))
        .then(pl.lit(Waiting.READ.name))
        .otherwise(pl.lit(Waiting.EXPLICIT.name))
    )
    found = calls.with_columns(waiting.alias("waiting"))
    found = found.select(
        "start_ns",
        (pl.col("start_ns") + pl.col("host_ns")).alias("end_ns"),
        pl.col("call_event").alias("event_id"),
        pl.col("top_op").alias("op"),
        pl.col("api").alias("subject"),
        "waiting",
    )
    starts = found.get_column("start_ns").to_numpy()
    own = (all_ranges(linked).within(starts, starts + 1) == 0) & ~_of_recording(linked, found)
    return found.filter(pl.Series(own, dtype=pl.Boolean))


def _of_recording(linked: LinkedTrace, calls: pl.DataFrame) -> NDArray[np.bool_]:
    """Return whether a wait is the profiler's, or the program's outside all launches of the trace."""
    launches = device_events(linked).filter(pl.col("kind") != WAIT).get_column("call_event").drop_nulls()
    (launched,) = event_columns(linked.timeline, launches, ts_ns="ts_ns")
    first, last = launched.min(), launched.max()
    is_explicit = pl.col("waiting") == Waiting.EXPLICIT.name
    outside = (
        (pl.col("start_ns") < first) | (pl.col("start_ns") > last) if len(launched) else pl.lit(value=False)
    )
    profiler = by_rules(
        linked,
        lambda names: names.select(
            (is_in_role(Role.PYTHON) & pl.col("name").str.contains(_PROFILER)).alias("profiler")
        ),
    )["profiler"]
    rows = host_rows(linked).rows(calls.get_column("event_id").to_numpy())
    inside = nearest_or_none(linked, profiler)[rows] != NO_ROW
    found: NDArray[np.bool_] = inside | calls.select(is_explicit & outside).to_series().to_numpy()
    return found


def _explicit_syncs(linked: LinkedTrace) -> pl.DataFrame:
    return waits_for(linked, Waiting.EXPLICIT)


EXPLICIT_SYNC = Detector(
    "explicit-sync",
    "the program synchronizes with the device",
    "Remove torch.cuda.synchronize() and event.synchronize() from the step; measure time with "
    "events, and read those after the step",
    _explicit_syncs,
    (Need.DEVICE_WORK, Need.KNOWN_CALLS),
    removes=Removal.EVENT,
)


def _item_syncs(linked: LinkedTrace) -> pl.DataFrame:
    return waits_for(linked, Waiting.ITEM)


ITEM_SYNC = Detector(
    "item-sync",
    "the step reads a value from the device",
    "Keep the value on the device (accumulate losses as tensors), and read it every few hundred "
    "steps or after the step",
    _item_syncs,
    (Need.DEVICE_WORK, Need.KNOWN_CALLS),
    removes=Removal.EVENT,
)


def _read_syncs(linked: LinkedTrace) -> pl.DataFrame:
    waits = waits_for(linked, Waiting.READ)
    return EVIDENCE.conform(pl.concat([waits, _slow_copies(linked)]).sort("start_ns", "end_ns"))


def _slow_copies(linked: LinkedTrace) -> pl.DataFrame:
    """The copies that are waited for, as far as they are slower than copies into pinned memory."""
    waits = host_waits(linked).filter(pl.col("waiting") == Waiting.READ.name)
    copies = copied(linked).filter(
        (pl.col("direction") == Direction.DEVICE_TO_HOST.value)
        & ~pl.col("pinned").fill_null(value=False)
        & pl.col("call_event").is_in(waits.get_column("event_id").implode())
    )
    alone = device_work(linked).select("event_id", "alone_ns")
    found = copies.join(alone, on="event_id", how="inner", maintain_order="left")
    return evidence_of(
        linked,
        found.select(
            pl.col("ts_ns").alias("start_ns"),
            "end_ns",
            beyond_pinned(),
            "event_id",
            pl.col("call_event").alias("host_event"),
            pl.col("name").alias("subject"),
        ),
    )


READ_SYNC = Detector(
    "read-sync",
    "the host waits for a tensor to be copied to it",
    "Copy with non_blocking=True into pinned memory and read it a step later, or leave it on the device",
    _read_syncs,
    (Need.DEVICE_WORK, Need.KNOWN_CALLS),
    removes=Removal.EVENT,
)


def _size_syncs(linked: LinkedTrace) -> pl.DataFrame:
    return waits_for(linked, Waiting.SIZE)


SIZE_SYNC = Detector(
    "size-sync",
    "the host waits for a data-dependent size",
    "Avoid boolean masks, nonzero and unique in the step: use torch.where, masked_fill, or a "
    "fixed upper bound (nonzero_static)",
    _size_syncs,
    (Need.DEVICE_WORK, Need.KNOWN_CALLS),
    removes=Removal.EVENT,
)


def _allocator_retries(linked: LinkedTrace) -> pl.DataFrame:
    calls = device_calls(linked).filter("is_steady")
    found = calls.select(
        pl.col("ts_ns").alias("start_ns"),
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
        "event_id",
        pl.col("call").alias("subject"),
    )
    starts = found.get_column("start_ns").to_numpy()
    apart = found.filter(pl.Series(all_ranges(linked).within(starts, starts + 1) == 0))
    return evidence_of(linked, idle_after(linked, apart, are_waits=True))


ALLOCATOR_RETRY = Detector(
    "allocator-retry",
    "device memory is allocated or freed in a later step",
    "Keep tensor sizes the same from step to step, or set "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; do not call torch.cuda.empty_cache() in "
    "the step; use less memory",
    _allocator_retries,
    (Need.DEVICE_WORK, Need.STEPS),
    removes=Removal.EVENT,
)


_REGION = "Torch-Compiled Region"
_WRAPPER = r"(^|/)torch/_dynamo/eval_frame\.py\(\d+\): compile_wrapper$"
_FUSED = 0.4
"""Share of separate ops' time that fusing saves (heuristic)."""
_BACKWARD = "autograd::engine::evaluate_function"
_FRAME = r"^Torch-Compiled Region: (\d+)"
"""The number of the compiled frame: what continues behind a graph break has a larger one than what it continues."""


def _graph_breaks(linked: LinkedTrace) -> pl.DataFrame:
    if not any(name.startswith(_REGION) for name in event_names(linked)):
        return evidence_of(linked, _not_compiled(linked))
    ops = linked.timeline.of_role(Role.OP, Role.ANNOTATION).select(
        "event_id", as_text("name"), "lane", "ts_ns", (pl.col("ts_ns") + pl.col("dur_ns")).alias("stop_ns")
    )
    found = _between_regions(linked, ops)
    return evidence_of(
        linked, idle_after(linked, found) if is_on_device(linked) else _outside_of_ops(found, ops)
    )


def _not_compiled(linked: LinkedTrace) -> pl.DataFrame:
    """Calls of compiled functions in a trace without any compiled region: Dynamo gave them up, and they run as Python.

    A break in a loop does that. Of the time `_FUSED` is saved.
    """
    calls = linked.timeline.of_role(Role.PYTHON).filter(as_text("name").str.contains(_WRAPPER))
    if calls.is_empty() or is_on_device(linked):
        return _NONE
    reach = (pl.col("ts_ns") + pl.col("dur_ns")).cum_max().shift(1).over("lane")
    outermost = (pl.col("ts_ns") >= reach).fill_null(value=True)
    return (
        calls.sort("lane", "ts_ns", "event_id")
        .filter(outermost)
        .select(
            "event_id",
            pl.col("ts_ns").alias("start_ns"),
            (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
            (pl.col("dur_ns") * _FUSED).cast(pl.Int64).alias("saving_ns"),
            pl.lit("no compiled region runs in the compiled function").alias("subject"),
        )
    )


def _between_regions(linked: LinkedTrace, ops: pl.DataFrame) -> pl.DataFrame:
    """Gaps from the end of each region to the next of its thread and step, without a backward pass in between.

    Where the next is the same frame again, or one that was compiled earlier, the program calls it anew: layers that
    are compiled apart are no graph breaks. Names without a number count.
    """
    regions = ops.filter(pl.col("name").str.starts_with(_REGION)).sort("lane", "ts_ns", "event_id")
    regions = step_of_moments(regions, step_windows(linked))
    before = pl.col("stop_ns").cum_max().shift(1).over("lane")
    frame = pl.col("name").str.extract(_FRAME).cast(pl.Int64, strict=False)
    goes_on = (frame > frame.shift(1).over("lane")).fill_null(value=True)
    found = regions.with_columns(
        before.alias("start_ns"),
        pl.col("step").shift(1).over("lane").alias("step_before"),
        goes_on.alias("goes_on"),
    ).filter(
        (pl.col("start_ns") < pl.col("ts_ns"))
        & pl.col("step").eq_missing(pl.col("step_before"))
        & pl.col("goes_on")
    )
    backward = np.sort(ops.filter(pl.col("name").str.starts_with(_BACKWARD)).get_column("ts_ns").to_numpy())
    starts, ends = (found.get_column(name).to_numpy() for name in ("start_ns", "ts_ns"))
    alone = np.searchsorted(backward, starts) == np.searchsorted(backward, ends)
    return found.filter(pl.Series(alone)).select(
        "start_ns", pl.col("ts_ns").alias("end_ns"), "event_id", pl.lit(_REGION).alias("op")
    )


def _outside_of_ops(found: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Without a device ops between regions compute: what could be saved is the rest."""
    computing = ops.filter(pl.col("name").str.starts_with("aten::"))
    cover = cover_of(*(computing.get_column(name).to_numpy() for name in ("ts_ns", "stop_ns")))
    starts, ends = (found.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    return found.with_columns(pl.Series("saving_ns", ends - starts - cover.within(starts, ends)))


_NONE = pl.DataFrame(
    schema={"start_ns": pl.Int64, "end_ns": pl.Int64, "saving_ns": pl.Int64, "event_id": pl.Int64}
)

GRAPH_BREAK = Detector(
    "graph-break",
    "Python runs between the compiled regions of a step",
    "Find graph breaks with TORCH_LOGS=graph_breaks and remove them (print, .item(), calls into "
    "other libraries), or compile the enclosing function with fullgraph=True",
    _graph_breaks,
    (Need.STEPS,),
    removes=Removal.HOST,
)


_SAVED = 0.75
"""Of ops with more threads than cores: at the end of each, threads wait for those that have not had their turn."""


def _oversubscribed_ops(linked: LinkedTrace) -> pl.DataFrame:
    """All ops of a process without a device whose PyTorch has more threads than it may use cores."""
    facts = linked.capture_facts
    threads, cores, cpus = facts.threads, facts.cores, facts.cpus
    if linked.timeline.has_device or not threads or not cores or not cpus or threads <= cores:
        return EVIDENCE.empty()
    pinned = cores < min(threads, cpus)
    ops = op_table(linked)
    rows = ops.get_column("row").to_numpy()
    outermost = ops.filter(pl.Series(surroundings(linked).top_op[rows] == rows, dtype=pl.Boolean))
    work = work_of_ops(linked, outermost.get_column("event_id"))
    what = f"{threads} threads on {cores} of {cpus} cores"
    found = work.with_columns(
        (pl.col("alone_ns") * _SAVED).cast(pl.Int64).alias("saving_ns"),
        pl.col("op_event").alias("host_event"),
        pl.lit(f"{what}: pinned by the affinity of the process" if pinned else what).alias("subject"),
    )
    return evidence_of(linked, found)


OVERSUBSCRIPTION = Detector(
    "oversubscription",
    "more threads compute than the process has cores",
    "Use as many threads as this process has cores (torch.set_num_threads, OMP_NUM_THREADS; "
    "DataLoader workers and other processes need cores, too), and check its affinity (taskset, "
    "numactl, cpusets of containers)",
    _oversubscribed_ops,
    (Need.HOST_OPS,),
    removes=Removal.RUN,
)


def _later_compilations(linked: LinkedTrace) -> pl.DataFrame:
    first_end = step_windows(linked).get_column("end_ns").head(1)
    found = ranges_of(linked, HostWork.COMPILES)
    later = found.filter(pl.col("start_ns") >= pl.lit(first_end).first())
    return evidence_of(linked, idle_after(linked, later))


RECOMPILATION = Detector(
    "recompilation",
    "code is recompiled in a later step",
    "Find what changes with TORCH_LOGS=recompiles; mark changing sizes with "
    "torch._dynamo.mark_dynamic, and keep Python values out of compiled functions",
    _later_compilations,
    (Need.STEPS,),
    removes=Removal.EVENT,
)
