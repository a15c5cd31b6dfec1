"""Host context of each allocation: op, module, phase of the step, allocator calls."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import asdict
from numpy.typing import NDArray

from tracebraid.analysis.answering import NO_STEP, answer
from tracebraid.analysis.device import event_columns
from tracebraid.analysis.host.host_rows import (
    NO_ROW,
    OPTIMIZER_STEP,
    HostRows,
    by_rules,
    host_rows,
    is_in_role,
    is_operator,
    kinds,
    modules_of_rows,
    names_of_rows,
    nearest_or_none,
    surroundings,
)
from tracebraid.analysis.memory.pairing import CPU, instants
from tracebraid.analysis.time.step_windows import in_order_of_steps, step_of_moments, step_windows
from tracebraid.model.analysis import Family, Need, analysis
from tracebraid.model.answers import DOUBTFUL, RANK
from tracebraid.model.answers.memory import MODULE, OP, AllocatorCall, TrainingPhase
from tracebraid.model.category import Role
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.device_peaks import host_op_communicates
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import CallAction, call_does

_Ints = NDArray[np.int64]

_PHASES = [phase.value for phase in TrainingPhase]
"""Phases in the order of their codes."""


def phase_code(phase: TrainingPhase) -> int:
    """The code of a phase."""
    return _PHASES.index(phase.value)


def phase_names(codes: _Ints) -> pl.Series:
    """The phases of some codes; null for -1."""
    numbers = pl.Series(codes, dtype=pl.Int64)
    names: pl.Series = numbers.replace_strict(
        list(range(len(_PHASES))), _PHASES, default=None, return_dtype=pl.String
    )
    return names


_ALLOCATES = (
    r"^aten::(new_)?(empty|zeros|ones|full|clone|resize)(_like|_strided|_quantized|_permuted)?_?$|"
    r"^aten::(to|_to_copy|contiguous|detach)$|^inductor::_alloc_from_pool$"
)
"""Ops that only create a tensor: the enclosing op is more informative."""

_BACKWARD = r"^autograd::engine::|^torch::autograd::|^(\w+::)*\w+Backward\d*$"
"""Nodes of autograd, as its engine runs them."""

_PHASE_OF_ANNOTATION = {
    TrainingPhase.OPTIMIZER: OPTIMIZER_STEP,
    TrainingPhase.ZERO_GRAD: r"^Optimizer\.zero_grad#",
    TrainingPhase.LOADING: r"^enumerate\(DataLoader\)#",
}
"""Annotations that PyTorch itself makes."""


def memory_rules(events: pl.DataFrame) -> pl.DataFrame:
    """Classification of host events by name and category.

    Columns: `allocates`, it is an op that only makes a tensor; `communicates`, it is of a communication library;
    `phase`, the code of the phase that it marks; -1: none.
    """
    name = pl.col("name")
    is_annotation = is_in_role(Role.OP, Role.ANNOTATION) & ~is_operator()
    marks = [
        pl.when(is_annotation & name.str.contains(pattern)).then(phase_code(marked))
        for marked, pattern in _PHASE_OF_ANNOTATION.items()
    ]
    marks.append(
        pl.when(is_operator() & name.str.contains(_BACKWARD)).then(phase_code(TrainingPhase.BACKWARD))
    )
    return events.select(
        (is_operator() & name.str.contains(_ALLOCATES)).alias("allocates"),
        host_op_communicates(events).fill_null(value=False).alias("communicates"),
        pl.coalesce(*marks, -1).cast(pl.Int64).alias("phase"),
    )


_Bools = NDArray[np.bool_]


class HostContext(HostRows, frozen=True):
    """The host events with what surrounds each; a row number of -1 means that there is none.

    Args:
        any_op: row of the innermost op around it, itself included.
        op: likewise, among ops that do more than allocate, else the innermost.
        top_op: row of the outermost op that holds it.
        module: row of the innermost nn.Module call that holds it, or the forward op that it is the backward of.
        annotation: row of the innermost annotation that holds it and is no step.
        phase: code of its phase: index in `list(TrainingPhase)`.
        phase_row: row of the op or annotation that says so.
        in_collective: whether it, or what holds it, is an op of a communication library.
    """

    any_op: _Ints
    op: _Ints
    top_op: _Ints
    module: _Ints
    annotation: _Ints
    phase: _Ints
    phase_row: _Ints
    in_collective: _Bools

    def of_rows(self, values: _Ints, rows: _Ints) -> _Ints:
        """Return a column of this context at some rows; -1 for -1."""
        none = np.full(len(rows), NO_ROW, dtype=np.int64)
        return np.where(rows >= 0, values[rows], none) if len(values) else none


def host_context(linked: LinkedTrace) -> HostContext:
    """The context of all host events, kept with the linked trace."""
    return linked.derived(_host_context)


def _host_context(linked: LinkedTrace) -> HostContext:
    host, within = host_rows(linked), surroundings(linked)
    found = by_rules(linked, memory_rules)
    any_op = within.op[:-1]
    op = nearest_or_none(linked, kinds(linked)["is_op"] & ~found["allocates"])[:-1]
    phase_row = nearest_or_none(linked, found["phase"] >= 0)[:-1]
    marked = np.where(phase_row >= 0, found["phase"][phase_row], NO_ROW) if len(op) else op
    unmarked = np.where(any_op >= 0, phase_code(TrainingPhase.FORWARD), phase_code(TrainingPhase.OTHER))
    return HostContext(
        **asdict(host),
        any_op=any_op,
        op=np.where(op == NO_ROW, any_op, op),
        top_op=within.top_op[:-1],
        module=within.module[:-1],
        annotation=within.annotation[:-1],
        phase=np.where(marked >= 0, marked, unmarked),
        phase_row=phase_row,
        in_collective=nearest_or_none(linked, found["communicates"])[:-1] != NO_ROW,
    )


def device_calls(linked: LinkedTrace) -> pl.DataFrame:
    """One row per call, in the order of time; kept.

    Columns: event_id, lane, ts_ns, dur_ns, call, kind, op, module, op_row (of `host_context`; -1: none), device (of
    the thread's next allocation or release; null: none follows), step, is_steady (in a step after the first).
    """
    return linked.derived(_device_calls)


def _device_calls(linked: LinkedTrace) -> pl.DataFrame:
    name = pl.col("call")
    kind = (
        pl.when(call_does(name, CallAction.ALLOCATE_ON_DEVICE))
        .then(pl.lit(AllocatorCall.ALLOCATION.value))
        .when(call_does(name, CallAction.RELEASE_ON_DEVICE))
        .then(pl.lit(AllocatorCall.RELEASE.value))
    )
    calls = linked.timeline.of_role(Role.CALL)
    known = calls.select(as_text("name").alias("call")).unique().with_columns(kind.alias("kind"))
    known = known.filter(pl.col("kind").is_not_null())
    found = (
        calls.select("event_id", "lane", "ts_ns", "dur_ns", as_text("name").alias("call"))
        .join(known, on="call")
        .sort("ts_ns", "event_id")
    )
    context = host_context(linked)
    rows = context.rows(found.get_column("event_id").to_numpy())
    op = context.of_rows(context.op, rows)
    found = found.with_columns(
        pl.Series("op_row", op, dtype=pl.Int64),
        names_of_rows(linked, op).cast(pl.String).alias("op"),
        modules_of_rows(linked, context.of_rows(context.module, rows)).cast(pl.String).alias("module"),
    )
    windows = step_windows(linked)
    first_end = windows.get_column("end_ns").head(1).to_numpy()
    steady = found.get_column("ts_ns").to_numpy() >= (
        first_end[0] if len(first_end) else np.iinfo(np.int64).max
    )
    by_step = step_of_moments(_with_device(found, linked), windows)
    return by_step.with_columns(
        (pl.Series(steady, dtype=pl.Boolean) & pl.col("step").is_not_null()).alias("is_steady")
    )


def _with_device(calls: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """Calls do not name their device: the thread's next allocation or release does."""
    changes = instants(linked).filter(pl.col("device") != CPU).select("event_id", "ts_ns", "device")
    lanes = event_columns(linked.timeline, changes.get_column("event_id"), lane="lane")
    of_lane = changes.with_columns(lanes).sort("ts_ns", "event_id").drop("event_id")
    return calls.join_asof(of_lane, on="ts_ns", by="lane", strategy="forward", check_sortedness=False)


NEVER = np.iinfo(np.int64).max
"""A moment after all others."""


class Passes(Struct, frozen=True):
    """The backward passes in the order of their starts, and the starts of forward ops that autograd follows.

    Args:
        begin_ns: start of each pass's first op.
        end_ns: end of its last op.
        forward_ns: start of the first forward op since the pass before; `begin_ns` where none is known.
        step_starts_ns: starts of all steps.
        step_ends_ns: their ends.
    """

    begin_ns: _Ints
    end_ns: _Ints
    forward_ns: _Ints
    step_starts_ns: _Ints
    step_ends_ns: _Ints

    def after(self, moments: _Ints) -> _Ints:
        """Number of the first pass that begins after each moment; the number of passes where none does."""
        found: _Ints = np.searchsorted(self.begin_ns, moments, side="right")
        return found

    def holding(self, moments: _Ints) -> _Ints:
        """Number of the last pass that begins at or before each moment; -1 where none does."""
        return self.after(moments) - 1

    def coming(self, moments: _Ints) -> _Ints:
        """Number of the first pass that begins after each moment, in the same step where it lies in a step.

        The number of passes where there is none.
        """
        number = self.after(moments)
        found: _Ints = np.where(
            self.at(self.begin_ns, number) < self.step_end(moments), number, len(self.begin_ns)
        )
        return found

    def of_next_step(self, moments: _Ints) -> _Ints:
        """Number of the first pass after the step of the pass that is `coming`; the one after that without steps."""
        coming = self.coming(moments)
        end = self.step_end(self.at(self.begin_ns, coming))
        later: _Ints = np.searchsorted(self.begin_ns, end, side="left")
        return np.minimum(np.where(end < NEVER, later, coming + 1), len(self.begin_ns))

    def step_end(self, moments: _Ints) -> _Ints:
        """End of the step in which each moment lies; `NEVER` where it lies in none."""
        step = np.searchsorted(self.step_starts_ns, moments, side="right") - 1
        end = np.r_[self.step_ends_ns, NEVER][step]
        found: _Ints = np.where((step >= 0) & (moments < end), end, NEVER)
        return found

    def phases(self, codes: _Ints, moments: _Ints) -> _Ints:
        """Phases of what starts at some moments: what precedes a pass's forward, or follows the pass, is no forward.

        In a step without a pass, and in a trace without any, all that could be forward is.
        """
        if not len(self.begin_ns):
            return codes
        coming = self.coming(moments)
        before = (coming < len(self.begin_ns)) & (moments < self.at(self.forward_ns, coming))
        last = self.holding(moments)
        step = np.searchsorted(self.step_starts_ns, moments, side="right") - 1
        step_start = np.where(self.step_end(moments) < NEVER, np.r_[self.step_starts_ns, 0][step], -NEVER)
        follows = (coming == len(self.begin_ns)) & (last >= 0) & (self.at(self.begin_ns, last) >= step_start)
        outside = (codes == phase_code(TrainingPhase.FORWARD)) & (before | follows)
        found: _Ints = np.where(outside, phase_code(TrainingPhase.OTHER), codes)
        return found

    def at(self, of_pass: _Ints, numbers: _Ints) -> _Ints:
        """A moment of some passes; `NEVER` for numbers that no pass has."""
        found: _Ints = np.r_[of_pass, NEVER][
            np.where(numbers < 0, len(of_pass), np.minimum(numbers, len(of_pass)))
        ]
        return found


def passes(linked: LinkedTrace) -> Passes:
    """The backward passes of a rank, kept with the linked trace.

    A pass is a run of autograd's ops, on any thread: a forward op that autograd follows ends it, and so does the
    start of a step. Ops of the forward that run again inside backward (checkpoints) end none.
    """
    return linked.derived(_passes)


def _passes(linked: LinkedTrace) -> Passes:
    context = host_context(linked)
    windows = step_windows(linked)
    starts = np.sort(windows.get_column("start_ns").to_numpy())
    rows = np.flatnonzero(
        (context.phase == phase_code(TrainingPhase.BACKWARD))
        & (context.phase_row == np.arange(len(context.phase)))
    )
    rows = rows[np.argsort(context.start_ns[rows], kind="stable")]
    forward = _forward_starts(linked, context)
    cuts = np.sort(np.r_[starts, forward])
    run = np.searchsorted(cuts, context.start_ns[rows], side="right")
    first = np.flatnonzero(np.r_[True, np.diff(run) != 0]) if len(rows) else rows
    begin = context.start_ns[rows][first]
    end = np.maximum.reduceat(context.end_ns[rows], first) if len(rows) else begin
    before = np.r_[np.iinfo(np.int64).min, begin[:-1]] if len(begin) else begin
    next_forward = np.r_[forward, NEVER][np.searchsorted(forward, before, side="right")]
    ends = windows.sort("start_ns").get_column("end_ns").to_numpy()
    return Passes(begin, end, np.minimum(next_forward, begin), starts, ends)


def _forward_starts(linked: LinkedTrace, context: HostContext) -> _Ints:
    """Starts of the forward ops whose backward is in the trace, those inside backward left out; rising."""
    rows = context.rows(linked.forward_backward.get_column("forward_event").unique().to_numpy())
    rows = rows[rows >= 0]
    starts: _Ints = np.sort(context.start_ns[rows[context.phase[rows] != phase_code(TrainingPhase.BACKWARD)]])
    return starts


_KEY = ["call", "kind", "op", "module"]


ALLOCATOR_CALLS = Table(
    "allocator_calls",
    "One row per op and call that took memory from a device or gave it back, the longest in total first.",
    (
        RANK,
        Column(
            "step", Kind.TEXT, "the step in which they started; null: the whole trace, or by step: in none"
        ),
        Column("call", Kind.TEXT, "name of the runtime or driver call"),
        Column("kind", Kind.TEXT, "`allocation` or `release`: see `AllocatorCall`"),
        OP,
        MODULE,
        Column("count", Kind.INT, "calls"),
        Column("steady_count", Kind.INT, "of them those in a step after the first"),
        Column("total_ns", Kind.INT, "host time in them"),
        Column("max_ns", Kind.INT, "longest"),
        DOUBTFUL,
    ),
)


@analysis(
    ALLOCATOR_CALLS,
    Family.MEMORY,
    needs=(Need.DEVICE_WORK,),
    uses=(Need.KNOWN_CALLS, Need.HOST_OPS, Need.STEPS),
    shown="call count steady_count total_ns max_ns op module",
    when_empty="no call is known to ask a device for memory",
)
def allocator_calls(linked: LinkedTrace, per_step: bool = False) -> pl.DataFrame:
    """Which ops make the allocator ask the device for memory?

    Calls such as `cudaMalloc` and `cudaFree` by op, the longest in total first.

    A caching allocator makes none in steady state: both wait for the device. `steady_count` counts those in a step
    after the first.

    Args:
        linked: one rank.
        per_step: rows for each step in which the calls started, instead of over all.
    """
    calls = device_calls(linked)
    if not per_step:
        calls = calls.with_columns(NO_STEP)
    found = calls.group_by("step", *_KEY).agg(
        pl.len().alias("count"),
        pl.col("is_steady").sum().alias("steady_count"),
        pl.col("dur_ns").sum().alias("total_ns"),
        pl.col("dur_ns").max().alias("max_ns"),
    )
    in_order = found.sort("total_ns", *_KEY, descending=[True, False, False, False, False])
    return answer(ALLOCATOR_CALLS, in_order_of_steps(in_order, linked), linked)
