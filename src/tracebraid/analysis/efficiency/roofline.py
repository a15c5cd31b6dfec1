"""Return the peaks of a rank's device: as given, else from the table by device name."""

from __future__ import annotations

import polars as pl
from msgspec import Struct

from tracebraid.analysis.answering import answer
from tracebraid.analysis.device import device_events
from tracebraid.analysis.efficiency.calls import has_shapes
from tracebraid.analysis.efficiency.counted_ops import counted_ops, counted_ops_by_step
from tracebraid.analysis.time.collective_events import collective_events
from tracebraid.analysis.time.step_windows import in_order_of_steps, step_windows
from tracebraid.model.analysis import Family, Need, OnPage, Rows, Stored, analysis
from tracebraid.model.answers import DOUBTFUL, RANK, STEP
from tracebraid.model.answers.efficiency import OP_COSTS, ROOFLINE, Bound, OpFamily
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.device_peaks import DevicePeaks, Precision, device_peaks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.quantities import NS_PER_S
from tracebraid.model.questions import Limit, Transfers


def known_peaks(linked: LinkedTrace) -> DevicePeaks | None:
    """The peaks of the device that did the rank's work, as the caller named it, else as the trace names it.

    None if it is unknown, several differ, or no device did any work.
    """
    return linked.derived(_known_peaks)


def peak_flops_of(linked: LinkedTrace, peak_flops: float | None) -> dict[str, float]:
    """Peak FLOP/s by code of `Precision`; empty if none is known."""
    if peak_flops is not None and peak_flops > 0:
        return {precision.value: float(peak_flops) for precision in Precision}
    peaks = known_peaks(linked)
    if peaks is None:
        return {}
    found = {precision.value: flops for precision, flops in peaks.flops_per_s.items()}
    return {Precision.TF32.value: found[Precision.FP32.value], **found}


def peak_bandwidth_of(linked: LinkedTrace, peak_bandwidth: float | None) -> float | None:
    """Peak bytes/s of the device's memory; None if it is unknown."""
    if peak_bandwidth is not None and peak_bandwidth > 0:
        return float(peak_bandwidth)
    peaks = known_peaks(linked)
    return None if peaks is None else peaks.bytes_per_s


def _known_peaks(linked: LinkedTrace) -> DevicePeaks | None:
    if not linked.timeline.has_device:
        return None
    if linked.named_device is not None:
        return linked.named_device
    properties = linked.timeline.header.get("deviceProperties")
    rows = [row for row in properties if isinstance(row, dict)] if isinstance(properties, list) else []
    busy = set(device_events(linked).get_column("device").unique().to_list())
    named = [row for row in rows if str(row.get("id")) in busy] or rows
    found = {id(peaks): peaks for peaks in map(_peaks_of, named)}
    known = list(found.values())
    return known[0] if len(known) == 1 else None


def _peaks_of(row: dict[object, object]) -> DevicePeaks | None:
    memory, units = (
        value if isinstance(value, int) else None for value in map(row.get, ("totalGlobalMem", "numSms"))
    )
    return device_peaks(str(row.get("name", "")), memory, units)


_COUNTED = [family.value for family in (OpFamily.MATMUL, OpFamily.CONVOLUTION, OpFamily.ATTENTION)]
"""Families whose FLOPs count: those that `torch.utils.flop_counter.FlopCounterMode` counts."""
_KNOWN_SHARE = 0.9
"""Share of the ops' time with known FLOPs from which on there is no product where none is known."""
_NS = 1e9


MFU = Table(
    "mfu",
    "One row for the whole trace and per step: FLOPs of matmul, convolution and attention against the peak.",
    (
        RANK,
        STEP,
        Column("span_ns", Kind.INT, "length of the step, or from the trace's first event to its last"),
        Column("precision", Kind.TEXT, "that of most of these FLOPs, a code of `Precision`; null: none"),
        Column("peak_flops_per_s", Kind.FLOAT, "of the device at that precision; null: unknown"),
        Column(
            "model_flops",
            Kind.INT,
            "FLOPs without recomputation, be it by checkpoints or in attention; null: of no op are they known",
        ),
        Column("hardware_flops", Kind.INT, "FLOPs, recomputation included; null: of no op are they known"),
        Column("model_flops_per_s", Kind.FLOAT, "model FLOPs / span; null: unknown"),
        Column("hardware_flops_per_s", Kind.FLOAT, "hardware FLOPs / span; null: unknown"),
        Column("mfu", Kind.FLOAT, "model FLOPs / (span x peak), 0 to 1; null: the peak is unknown"),
        Column("hfu", Kind.FLOAT, "hardware FLOPs / (span x peak), 0 to 1; null: the peak is unknown"),
        Column(
            "known_share", Kind.FLOAT, "share of the ops' device time whose FLOPs are known; null: no time"
        ),
        DOUBTFUL,
    ),
)


@analysis(
    MFU,
    Family.EFFICIENCY,
    needs=(Need.HOST_OPS, Need.SHAPES_OF_EITHER),
    uses=(Need.KNOWN_OPS, Need.STEPS, Need.DEVICE_PEAKS),
    shown=(
        "span_ns mfu hfu model_flops model_flops_per_s peak_flops_per_s precision known_share hardware_flops"
    ),
    formula=(
        "MFU = model FLOPs / (span * peak); HFU = hardware FLOPs, with those computed again, / (span * "
        "peak) (Chowdhery et al.: 'PaLM', appendix B)."
    ),
    on_page=OnPage(),
    stored=Stored.ALWAYS,
)
def mfu(linked: LinkedTrace, peak_flops: float | None = None) -> pl.DataFrame:
    """How much of the device's peak does the model reach?

    Model and hardware FLOPs utilisation, over all steps (`step` null), and for each. Without ops
    in steps, over the trace.

    MFU = model FLOPs / (span x peak), HFU = hardware FLOPs / (span x peak) (Chowdhery et al.: "PaLM", appendix B).
    FLOPs are those of matmul, convolution and attention; hardware FLOPs, as in `torch.utils.flop_counter`, count what
    activation checkpointing and a fused backward of attention compute again, model FLOPs do not. Pairs that a causal
    mask leaves out count in both. The peak is that of the
    precision in which most of these FLOPs are computed. The span of a step is its annotation's time on
    the host, summed where steps share a name. Empty if neither trace has shapes.

    Args:
        linked: one rank.
        peak_flops: of the device, in FLOP/s; None: as `model.device_peaks` has it.
    """
    if not has_shapes(linked) or counted_ops(linked).is_empty():
        return MFU.empty()
    peaks = peak_flops_of(linked, peak_flops)
    steps = (
        step_windows(linked)
        .group_by("step", maintain_order=True)
        .agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("span_ns"))
    )
    by_step = _sums(counted_ops_by_step(linked, True))
    ops = counted_ops_by_step(linked, False)
    in_steps = counted_ops_by_step(linked, True).get_column("step").is_not_null()
    if in_steps.any():
        ops, length = ops.filter(in_steps), steps.get_column("span_ns").sum()
    else:
        start, end = linked.timeline.span_ns or (0, 0)
        length = end - start
    whole = _sums(ops).with_columns(pl.lit(length, dtype=pl.Int64).alias("span_ns"))
    found = steps.join(by_step, on="step", how="left", maintain_order="left")
    rows = pl.concat([whole, found.select(whole.columns)]).with_columns(
        (
            pl.col("precision").replace_strict(peaks, default=None, return_dtype=pl.Float64)
            if peaks
            else pl.lit(None, dtype=pl.Float64)
        ).alias("peak_flops_per_s"),
    )
    return answer(MFU, rows.with_columns(*_rates()).with_columns(*_shares()), linked)


def _sums(ops: pl.DataFrame) -> pl.DataFrame:
    """Compute by step: FLOPs, the precision of most of them, and the time share of ops with known FLOPs."""
    counts, repeated = pl.col("family").is_in(_COUNTED), pl.col("repeated_flops").fill_null(0)
    flops, time = pl.col("flops"), pl.col("device_ns")
    matrices = ops.filter(counts & (flops > 0))
    precision = (
        matrices.group_by("step", "precision")
        .agg(flops.sum())
        .sort("flops", "precision", descending=[True, False])
        .unique("step", keep="first", maintain_order=True)
        .select("step", "precision")
    )
    all_time = time.sum()
    asked = pl.when((counts & flops.is_null()).any()).then(counts).otherwise(pl.lit(value=True))
    # Of a program whose ops all have names of their own, nothing says that none of them multiplies.
    known_ns = time.filter(flops.is_not_null()).sum()
    is_known = (asked & flops.is_not_null()).any() & (counts.any() | (known_ns >= _KNOWN_SHARE * all_time))
    sums = ops.group_by("step").agg(
        pl.when(is_known)
        .then((flops - repeated).filter(counts & ~pl.col("is_recompute")).sum())
        .alias("model_flops"),
        pl.when(is_known).then(flops.filter(counts).sum()).alias("hardware_flops"),
        pl.when(all_time > 0).then(known_ns / all_time).alias("known_share"),
    )
    return sums.join(precision, on="step", how="left", nulls_equal=True)


def _rates() -> list[pl.Expr]:
    span = pl.col("span_ns")
    return [
        pl.when(span > 0).then(pl.col(f"{name}_flops") / span * _NS).alias(f"{name}_flops_per_s")
        for name in ("model", "hardware")
    ]


def _shares() -> list[pl.Expr]:
    peak = pl.col("peak_flops_per_s")
    return [
        (pl.col("model_flops_per_s") / peak).alias("mfu"),
        (pl.col("hardware_flops_per_s") / peak).alias("hfu"),
    ]


LATENCY_NS = 2_000
"""Least time of a run below which latency limits it, in ns: an empty kernel takes 1 to 2 us on the devices of today."""

_KEY = ["step", "name", "family", "input_dims", "input_types", "is_recompute", "precision"]


class Peaks(Struct, frozen=True):
    """Peaks of a device.

    Args:
        flops: FLOP/s, for each precision; None: those of the device.
        bandwidth: bytes/s; None: that of the device.
    """

    flops: float | None = None
    bandwidth: float | None = None


def costs_by_shape(linked: LinkedTrace, per_step: bool, peaks: Peaks) -> pl.DataFrame:
    """One row per name, shapes, types and precision, in no order.

    Adds to sums of costs: peak_flops_per_s, peak_bytes_per_s, bound and least_ns. With F FLOPs, B bytes and n runs,
    least_ns = max(F / peak_flops_per_s, B / peak_bytes_per_s), where each part that is not known is left out. The bound
    is `interconnect` for collectives and copies from and to the host, whose least time no peak here tells; `latency`
    where the least time of a run is below `LATENCY_NS`; else `compute` or `memory`, whichever takes longer.
    """
    ops = counted_ops_by_step(linked, per_step)
    sums = ops.group_by(_KEY).agg(
        pl.len().cast(pl.Int64).alias("count"),
        *(_known_sum(name) for name in ("flops", "causal_flops", "bytes")),
        pl.col("unknown_flops").drop_nulls().min(),
        pl.col("kernels", "device_ns").sum(),
        pl.col("moves_between_memories").any(),
    )
    flops_per_s = peak_flops_of(linked, peaks.flops)
    peak = pl.col("precision").replace_strict(flops_per_s, default=None, return_dtype=pl.Float64)
    bandwidth = peak_bandwidth_of(linked, peaks.bandwidth)
    found = sums.with_columns(
        (peak if flops_per_s else pl.lit(None, dtype=pl.Float64)).alias("peak_flops_per_s"),
        pl.lit(bandwidth, dtype=pl.Float64).alias("peak_bytes_per_s"),
    )
    return found.with_columns(*_times()).with_columns(*_bound()).drop("compute_ns", "memory_ns")


def _known_sum(name: str) -> pl.Expr:
    """A sum, null if any part of it is: less than all would look like all."""
    return pl.when(pl.col(name).is_null().any()).then(None).otherwise(pl.col(name).sum()).alias(name)


def _times() -> list[pl.Expr]:
    flops, size = pl.col("flops"), pl.col("bytes")
    compute = pl.when(flops == 0).then(0.0).otherwise(flops / pl.col("peak_flops_per_s") * _NS)
    memory = size / pl.col("peak_bytes_per_s") * _NS
    return [compute.alias("compute_ns"), memory.alias("memory_ns")]


def _bound() -> list[pl.Expr]:
    leaves = pl.col("moves_between_memories")
    compute, memory = pl.col("compute_ns"), pl.col("memory_ns")
    computes = (pl.col("flops") > 0).fill_null(value=False)
    is_known = ~leaves & memory.is_not_null() & (compute.is_not_null() | ~computes)
    least = pl.when(is_known).then(pl.max_horizontal(compute, memory))
    bound = (
        pl.when(leaves)
        .then(pl.lit(Bound.INTERCONNECT.value))
        .when(least.is_null())
        .then(None)
        .when(least < LATENCY_NS * pl.col("count"))
        .then(pl.lit(Bound.LATENCY.value))
        .when(compute.fill_null(0.0) > memory)
        .then(pl.lit(Bound.COMPUTE.value))
        .otherwise(pl.lit(Bound.MEMORY.value))
    )
    return [least.round().cast(pl.Int64, strict=False).alias("least_ns"), bound.alias("bound")]


_LEAST_BYTES = 1 << 20
"""A smaller message says more of latency than of the network."""


def limit_of(linked: LinkedTrace) -> Limit | None:
    """The limit that bounds most of the time of a device's ops; None: no device, or one whose peaks are unknown."""
    if not linked.timeline.has_device:
        return None
    costs = costs_by_shape(linked, False, Peaks())
    limits = costs.filter(
        pl.col("bound").is_in([Bound.MEMORY.value, Bound.COMPUTE.value]) & pl.col("least_ns").is_not_null()
    )
    by_bound = limits.group_by("bound").agg(pl.col("device_ns", "least_ns").sum())
    rows = by_bound.filter(pl.col("device_ns") > 0).sort("device_ns", "bound", descending=[True, False])
    if rows.is_empty():
        return None
    row = rows.row(0, named=True)
    known, every = (int(frame.get_column("device_ns").sum()) for frame in (rows, costs))
    return Limit(
        row["bound"],
        row["device_ns"] / known,
        min(row["least_ns"] / row["device_ns"], 1.0),
        known / max(every, 1),
    )


def transfers_of(linked: LinkedTrace) -> Transfers | None:
    """Return the bandwidth of a rank's collectives of 1 MiB or more; None: there are none."""
    found = collective_events(linked).filter("counts", pl.col("message_bytes") >= _LEAST_BYTES)
    time_ns = int((found.get_column("end_ns") - found.get_column("ts_ns")).sum())
    if not time_ns:
        return None
    sent = int(found.get_column("message_bytes").sum())
    return Transfers(sent / time_ns * NS_PER_S, linked.timeline.world_size)


_ORDER = ["name", "input_dims", "input_types", "is_recompute", "precision", "family"]


@analysis(
    OP_COSTS,
    Family.EFFICIENCY,
    needs=(Need.HOST_OPS, Need.SHAPES_OF_EITHER),
    uses=(Need.KNOWN_OPS, Need.DEVICE_WORK, Need.DEVICE_PEAKS),
    shown=(
        "name input_dims device_ns count flops bytes achieved_flops_per_s achieved_bytes_per_s bound "
        "flops_per_byte precision family unknown_flops"
    ),
    formula=(
        "FLOPs and least bytes from shapes, by rules that agree with PyTorch's FlopCounterMode; rates = "
        "FLOPs or bytes / device time. Of nested ops with rules the outermost counts."
    ),
    on_page=OnPage(Rows.TABLE_ROWS, by=("device_ns",)),
)
def op_costs(
    linked: LinkedTrace,
    per_step: bool = False,
    peak_flops: float | None = None,
    peak_bandwidth: float | None = None,
) -> pl.DataFrame:
    """How much do ops compute and move, and at what rate?

    FLOPs, bytes, time and rates of ops by name, shapes and types.

    No FLOP, launch or ns counts twice: see `counted_ops`. The rows' device time adds up to that of all work that an
    op
    or annotation launched; without device work in the trace, to the host self time of all ops. Rates are per second
    and not rounded; a GB is 10**9 bytes. Empty if neither trace has shapes: no cost of an op is known then.

    Args:
        linked: one rank.
        per_step: rows for each step in which the ops started, instead of over all.
        peak_flops: of the device, for each precision, in FLOP/s; None: as `model.device_peaks` has them.
        peak_bandwidth: of the device's memory, in bytes/s; None: as `model.device_peaks` has it.
    """
    if not has_shapes(linked):
        return OP_COSTS.empty()
    found = costs_by_shape(linked, per_step, Peaks(peak_flops, peak_bandwidth))
    time, flops, size = pl.col("device_ns"), pl.col("flops"), pl.col("bytes")
    rates = found.with_columns(
        pl.when(time > 0).then(flops / time * _NS).alias("achieved_flops_per_s"),
        pl.when(time > 0).then(size / time * _NS).alias("achieved_bytes_per_s"),
        pl.when(size > 0).then(flops / size).alias("flops_per_byte"),
    )
    return (
        rates.sort("device_ns", *_ORDER, descending=[True, *[False] * len(_ORDER)])
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(OP_COSTS, frame, linked))
    )


@analysis(
    ROOFLINE,
    Family.EFFICIENCY,
    needs=(Need.KNOWN_OPS, Need.SHAPES_OF_EITHER, Need.DEVICE_PEAKS),
    shown=(
        "name input_dims lost_ns lost_share device_ns roofline_ns roofline_share bound count precision "
        "is_recompute"
    ),
    when_empty="of no op are both its least time and its device time known",
    formula=(
        "least = max(FLOPs / peak FLOP/s, bytes / peak bandwidth); of roofline = least / device time; "
        "lost = device time - least (Williams, Waterman and Patterson: 'Roofline', CACM 2009)."
    ),
    on_page=OnPage(Rows.TABLE_ROWS, by=("device_ns",)),
    stored=Stored.OF_FEW_EVENTS,
)
def roofline(
    linked: LinkedTrace,
    per_step: bool = False,
    peak_flops: float | None = None,
    peak_bandwidth: float | None = None,
) -> pl.DataFrame:
    """Which ops fall furthest short of the device's limits?

    Time of ops beyond the least that the device needs for them, the most first.

    The least time is max(FLOPs / peak FLOP/s, bytes / peak bandwidth) (Williams, Waterman, Patterson: "Roofline",
    CACM
    2009). Only rows whose least time is known are there: not collectives, copies from and to the host, and ops that
    no
    rule counts. Empty if the device is not in `model.device_peaks` and no bandwidth is given.

    Args:
        linked: one rank.
        per_step: rows for each step in which the ops started, instead of over all.
        peak_flops: of the device, for each precision, in FLOP/s; None: as `model.device_peaks` has them.
        peak_bandwidth: of the device's memory, in bytes/s; None: as `model.device_peaks` has it.
    """
    costs = costs_by_shape(linked, per_step, Peaks(peak_flops, peak_bandwidth))
    time, least, lost = pl.col("device_ns"), pl.col("least_ns"), pl.col("lost_ns")
    found = costs.filter(least.is_not_null() & (time > 0)).with_columns(
        least.alias("roofline_ns"),
        (least / time).alias("roofline_share"),
        (time - least).alias("lost_ns"),
    )
    all_lost = lost.clip(lower_bound=0).sum().over("step")
    share = pl.when(all_lost > 0).then(lost.clip(lower_bound=0) / all_lost)
    return (
        found.with_columns(share.alias("lost_share"))
        .sort("lost_ns", *_ORDER, descending=[True, *[False] * len(_ORDER)])
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(ROOFLINE, frame, linked))
    )
