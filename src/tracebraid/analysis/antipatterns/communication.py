"""Anti-patterns of communication."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.antipatterns.evidence import HOST_STALL_NS, evidence_of
from tracebraid.analysis.collectives.members import members
from tracebraid.analysis.device import (
    device_events,
    device_events_by_step,
    event_columns,
    fetched,
    rows_of_events,
)
from tracebraid.analysis.host.host_rows import (
    OPTIMIZER_STEP,
    by_rules,
    host_rows,
    is_in_role,
    names_of_rows,
    nearest_or_none,
)
from tracebraid.analysis.host.host_trees import host_names, host_ops
from tracebraid.analysis.memory.host import passes
from tracebraid.analysis.time.breakdown import HOST, Cover, compute_cover, cover_of, owned, work_events
from tracebraid.analysis.time.collective_events import collective_events
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.analysis import Need
from tracebraid.model.answers.job import EVIDENCE
from tracebraid.model.category import Role
from tracebraid.model.collectives import BETWEEN_TWO, CollectiveType
from tracebraid.model.device_peaks import COMPUTE
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import flags_by_name
from tracebraid.model.quantities import NS_PER_MS
from tracebraid.model.questions import Detector, Removal, Wrapper


def barriers(linked: LinkedTrace) -> pl.DataFrame:
    """All barriers, each with its whole time: what a rank waits in one it often waits for at the next collective."""
    found = members(linked).filter(pl.col("type") == CollectiveType.BARRIER.value)
    return evidence_of(
        linked,
        found.select(
            "event_id",
            "start_ns",
            "end_ns",
            (pl.col("end_ns") - pl.col("start_ns")).alias("saving_ns"),
            pl.lit("barrier").alias("subject"),
        ),
    )


BARRIER_DETECTOR = Detector(
    "barrier",
    "ranks wait for each other at a barrier",
    "Remove torch.distributed.barrier() from the step: collectives wait for their members anyway."
    " To measure time, wait for the device alone, every few hundred steps",
    barriers,
    (Need.COMMUNICATION,),
    removes=Removal.RUN,
)


_FORWARD = "DistributedDataParallel.forward"
_BROADCAST = "c10d::broadcast_"
_FLATTENS = "aten::flatten_dense_tensors"
_UNFLATTENS = "aten::unflatten_dense_tensors"
_COPIES_BACK = ("aten::copy_", "aten::detach")


def buffer_broadcasts(linked: LinkedTrace) -> pl.DataFrame:
    """The stretch of each `DistributedDataParallel.forward` in which buffers are joined, sent, parted and copied back.

    It reaches from the first op that joins or sends them to the last that parts them, with the copies behind it.
    """
    host = host_rows(linked)
    flags = by_rules(
        linked,
        lambda names: names.select(
            (is_in_role(Role.ANNOTATION) & (pl.col("name") == _FORWARD)).alias("forward"),
            is_in_role(Role.OP).alias("op"),
        ),
    )
    forward = nearest_or_none(linked, flags["forward"])[:-1]
    inside_op = nearest_or_none(linked, flags["op"])[host.parent]
    rows = np.flatnonzero(flags["op"] & (forward >= 0) & (inside_op < 0))
    ops = pl.DataFrame(
        {
            "forward": forward[rows],
            "start_ns": host.start_ns[rows],
            "end_ns": host.end_ns[rows],
            "event_id": host.event_id[rows],
            "name": names_of_rows(linked, rows).cast(pl.String),
        }
    ).sort("forward", "start_ns", "event_id")
    found = [_sent(of_call) for _, of_call in ops.group_by("forward", maintain_order=True)]
    stretches = pl.DataFrame(
        [row for row in found if row is not None],
        schema={"start_ns": pl.Int64, "end_ns": pl.Int64, "event_id": pl.Int64},
        orient="row",
    )
    saving = (pl.col("end_ns") - pl.col("start_ns")).alias("saving_ns")
    return evidence_of(
        linked, stretches.with_columns(saving, pl.lit("broadcast of buffers").alias("subject"))
    )


def _sent(ops: pl.DataFrame) -> tuple[int, int, int] | None:
    """Start and end of what sends buffers in one forward pass, and the event of its longest op; None: nothing does."""
    names = ops.get_column("name").to_list()
    parts = [number for number, name in enumerate(names) if name in (_FLATTENS, _BROADCAST, _UNFLATTENS)]
    if _BROADCAST not in names or _UNFLATTENS not in names:
        return None
    last = parts[-1]
    while last + 1 < len(names) and names[last + 1] in _COPIES_BACK:
        last += 1
    stretch = ops[parts[0] : last + 1]
    longest = stretch.row((stretch.get_column("end_ns") - stretch.get_column("start_ns")).arg_max() or 0)
    return stretch.get_column("start_ns")[0], stretch.get_column("end_ns")[-1], longest[3]


BUFFER_BROADCASTS_DETECTOR = Detector(
    "buffer-broadcast",
    "every forward pass sends the model's buffers to all ranks",
    "Pass broadcast_buffers=False to DistributedDataParallel, if each rank may keep its own statistics of "
    "BatchNorm, and save those of rank 0",
    buffer_broadcasts,
    (Need.HOST_OPS,),
    removes=Removal.CODE,
)


_Ints = NDArray[np.int64]
_BETWEEN_TWO = r"(?i)send|recv|barrier"


def exposed_events(linked: LinkedTrace) -> pl.DataFrame:
    """The collectives that count, by device and start; sends, receives and barriers are left out.

    Columns: those of `collective_events`; operation, its name in small letters without the backend, `_` and what is
    behind a dot; issued_ns, the start of its launch, and host_event, the op or call of the host; exposed_ns, its time
    in which nothing computes on its device and no collective runs that began before; step, in which it was issued.
    """
    return linked.derived(_exposed)


def _exposed(linked: LinkedTrace) -> pl.DataFrame:
    events = collective_events(linked).filter("counts").sort("device", "ts_ns", "event_id")
    exposed = np.zeros(events.height, dtype=np.int64)
    for device in events.get_column("device").unique().to_list():
        rows = (events.get_column("device") == device).to_numpy()
        starts, ends = (events.get_column(name).to_numpy()[rows] for name in ("ts_ns", "end_ns"))
        first, last = owned(starts, np.maximum(starts, ends))
        exposed[rows] = last - first - compute_cover(linked, device).within(first, last)
    work = device_events(linked)
    rows_of_work = rows_of_events(work.get_column("event_id"), events.get_column("event_id"))
    launch = fetched(work.select("call_event", "op_event"), rows_of_work)
    on_host = pl.when(pl.col("device") == HOST).then("event_id")
    found = events.with_columns(launch.get_columns()).with_columns(
        pl.coalesce("op_event", "call_event", on_host).alias("host_event"),
        pl.coalesce("call_event", "op_event", on_host).alias("issue_event"),
    )
    issued = event_columns(linked.timeline, found.get_column("issue_event"), issued_ns="ts_ns")
    found = found.with_columns(issued).with_columns(
        pl.col("issued_ns").fill_null(pl.col("ts_ns")),
        pl.Series("exposed_ns", exposed),
        pl.col("name")
        .str.replace(r"^\w+:{1,2}", "")
        .str.to_lowercase()
        .str.replace(r"\..*", "")
        .str.replace_all("_", "")
        .alias("operation"),
    )
    moments = found.select(pl.col("issued_ns").alias("ts_ns"))
    found = found.with_columns(step_of_moments(moments, step_windows(linked))["step"])
    return found.filter(~pl.col("name").str.contains(_BETWEEN_TWO))


def computing(linked: LinkedTrace, device: str) -> pl.DataFrame:
    """Computing device events, in order of start: event_id, ts_ns, end_ns, call_event, op_event."""
    return linked.derived(_computing, device)


def _computing(linked: LinkedTrace, device: str) -> pl.DataFrame:
    work = work_events(linked).filter((pl.col("device") == device) & (pl.col("kind") == COMPUTE))
    events = device_events(linked)
    rows = rows_of_events(events.get_column("event_id"), work.get_column("event_id"))
    return (
        work.with_columns(
            fetched(events.select("call_event"), rows).to_series(),
            (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
        )
        .select("event_id", "ts_ns", "end_ns", "call_event", "op_event")
        .sort("ts_ns", "event_id")
    )


def computed_between(linked: LinkedTrace, device: str, starts: _Ints, ends: _Ints) -> _Ints:
    """Count device events that begin to compute in each window [start, end)."""
    moments = computing(linked, device).get_column("ts_ns").to_numpy()
    found: _Ints = np.searchsorted(moments, ends, side="left") - np.searchsorted(moments, starts, side="left")
    return np.maximum(found, 0)


SMALL_BYTES = 256 * 1024
"""Up to this size latency, not bandwidth, is most of a collective's time: 20 us at 12.5 GB/s."""

SMALL_NS = 50_000
"""The same where the size is unknown, by duration: a few latencies of NCCL between hosts (10 to 20 us)."""

LEAST_COLLECTIVES = 4
"""Collectives of a run at least."""

MOST_BETWEEN = 2
"""Events that compute between two collectives of a run at most: such as a division by the number of ranks."""

STALL_NS = NS_PER_MS
"""From such a gap between two of them on, something else holds the program up: the run ends."""

_OBJECTS = (
    r"(^|/)torch/distributed/distributed_c10d\.py\(\d+\): "
    r"((all_gather|gather|reduce|scatter|broadcast)_object(_list)?)$"
)
"""Functions that communicate pickled objects."""
_CALLS_OF_OBJECTS = 2
"""Of them in a step at least: as many collectives as `LEAST_COLLECTIVES`."""
_SIZES = "long int"
_BYTES = "unsigned char"
"""Types of the two collectives of an object: its size, and itself, pickled."""
_NUMBER_BYTES = 8
_KEY = ["device", "lane", "process_group", "operation", "dtype"]


def small_collectives(linked: LinkedTrace) -> pl.DataFrame:
    """Runs of small collectives of the same operation, type and group, with next to nothing computed between them.

    Of n collectives, (n - 1) times the mean duration is latency that a single one would not have; so are the gaps
    between them. Of a duration twice the median counts: what is beyond it is waiting for a late rank. What is hidden
    behind compute saves nothing: the saving is that sum, or the time of the run without compute, whichever is less.
    """
    size, duration = pl.col("message_bytes"), pl.col("end_ns") - pl.col("ts_ns")
    is_small = (size <= SMALL_BYTES).fill_null(duration <= SMALL_NS)
    events = exposed_events(linked).sort(*_KEY[:3], "ts_ns", "event_id", nulls_last=True)
    calls = calls_for_objects(linked)
    calls = _pairs(events) if calls.is_empty() else calls
    of_calls = cover_of(*(calls.get_column(name).to_numpy() for name in ("start_ns", "end_ns")))
    inside = of_calls.within(*(events.get_column(name).to_numpy() for name in ("ts_ns", "end_ns")))
    events = events.filter(pl.Series(inside == 0, dtype=pl.Boolean))
    gap = pl.col("ts_ns") - pl.col("end_ns").shift(1)
    same = [pl.col(name).eq_missing(pl.col(name).shift(1)) for name in (*_KEY, "step", "is_small")]
    events = events.with_columns(is_small.alias("is_small"), pl.Series("between", _between(linked, events)))
    stall_ns = pl.when(pl.col("device") == HOST).then(HOST_STALL_NS).otherwise(STALL_NS)
    goes_on = pl.all_horizontal(gap < stall_ns, pl.col("between") <= MOST_BETWEEN, *same)
    runs = (
        events.with_columns(
            (~goes_on.fill_null(value=False)).cum_sum().alias("run"), duration.alias("dur_ns")
        )
        .filter("is_small")
        .group_by("run", maintain_order=True)
        .agg(
            pl.len().alias("count"),
            pl.col("ts_ns").first().alias("start_ns"),
            pl.col("end_ns").max(),
            pl.col("event_id", "host_event", "device", "operation").first(),
            (gap.clip(lower_bound=0)).slice(1).sum().alias("gaps_ns"),
            # The longest stands for the one that is left: that in which a rank is waited for is it.
            (pl.col("dur_ns").sum() - pl.col("dur_ns").max()).alias("others_ns"),
        )
        .filter(pl.col("count") >= LEAST_COLLECTIVES)
    )
    runs = runs.with_columns(pl.Series("alone_ns", _without_compute(linked, runs))).with_columns(
        pl.min_horizontal(pl.col("others_ns") + pl.col("gaps_ns"), "alone_ns").alias("saving_ns"),
        pl.col("operation").alias("subject"),
    )
    objects = _of_objects(linked, calls)
    return evidence_of(linked, pl.concat([runs, objects], how="diagonal_relaxed"))


def calls_for_objects(linked: LinkedTrace) -> pl.DataFrame:
    """The calls that communicate pickled objects: event_id, start_ns, end_ns, op (the function); by stacks only."""
    is_call = by_rules(
        linked,
        lambda names: names.select(
            (is_in_role(Role.PYTHON) & pl.col("name").str.contains(_OBJECTS)).alias("is")
        ),
    )["is"]
    host, rows = host_rows(linked), np.flatnonzero(is_call)
    names = names_of_rows(linked, rows).cast(pl.String)
    return pl.DataFrame(
        {
            "event_id": host.event_id[rows],
            "start_ns": host.start_ns[rows],
            "end_ns": host.end_ns[rows],
            "op": names.str.extract(_OBJECTS, 2),
        }
    )


def _of_objects(linked: LinkedTrace, calls: pl.DataFrame) -> pl.DataFrame:
    """Calls that gather objects in a step: all but one could go with another; each counts twice the median at most."""
    moments = calls.select(pl.col("start_ns").alias("ts_ns"))
    long = pl.col("end_ns") - pl.col("start_ns")
    usual = pl.min_horizontal(long, 2 * long.median().over("step"))
    return (
        calls.with_columns(step_of_moments(moments, step_windows(linked))["step"])
        .with_columns(pl.len().over("step").alias("count"), usual.alias("usual_ns"))
        .filter(pl.col("count") >= _CALLS_OF_OBJECTS)
        .select(
            "event_id",
            "start_ns",
            "end_ns",
            "op",
            (pl.col("usual_ns") * (1 - 1 / pl.col("count"))).cast(pl.Int64).alias("saving_ns"),
            ("objects: " + pl.col("count").cast(pl.String) + " calls in a step").alias("subject"),
            pl.col("event_id").alias("host_event"),
        )
    )


def _pairs(events: pl.DataFrame) -> pl.DataFrame:
    """What gathers objects, where no stacks tell: sizes, then bytes, one issued after the other in the same group."""
    of_group = events.sort("device", "process_group", "issued_ns", "event_id", nulls_last=True)
    same = [
        pl.col(name).eq_missing(pl.col(name).shift(-1)) for name in ("device", "process_group", "operation")
    ]
    sizes = (pl.col("dtype").cast(pl.String) == _SIZES) & (pl.col("message_bytes") <= _NUMBER_BYTES)
    return (
        of_group.with_columns(pl.col("end_ns").shift(-1), is_next=pl.col("dtype").cast(pl.String).shift(-1))
        .filter(sizes & (pl.col("is_next") == _BYTES) & pl.all_horizontal(same))
        .select("event_id", pl.col("ts_ns").alias("start_ns"), "end_ns", pl.col("operation").alias("op"))
    )


def _between(linked: LinkedTrace, events: pl.DataFrame) -> _Ints:
    """How many events begin to compute between each collective and the row before it."""
    found = np.zeros(events.height, dtype=np.int64)
    starts, ends = (events.get_column(name).to_numpy() for name in ("ts_ns", "end_ns"))
    before = np.r_[starts[:1], ends[:-1]]
    for device in events.get_column("device").unique().to_list():
        rows = (events.get_column("device") == device).to_numpy()
        found[rows] = computed_between(linked, device, before[rows], starts[rows])
    return found


def _without_compute(linked: LinkedTrace, runs: pl.DataFrame) -> _Ints:
    found = np.zeros(runs.height, dtype=np.int64)
    starts, ends = (runs.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    for device in runs.get_column("device").unique().to_list():
        rows = (runs.get_column("device") == device).to_numpy()
        found[rows] = (
            ends[rows] - starts[rows] - compute_cover(linked, device).within(starts[rows], ends[rows])
        )
    return found


SMALL_COLLECTIVES_DETECTOR = Detector(
    "small-collectives",
    "many small collectives run back to back",
    "Reduce one flat tensor or bucket (DDP, dist.all_reduce_coalesced) instead of one tensor at a time; gather objects "
    "together, or as numbers in one tensor",
    small_collectives,
    (Need.COMMUNICATION,),
    change_with=(
        (
            Wrapper.FSDP2,
            "Wrap larger units (fully_shard on blocks, not on each layer), so that each gathers and reduces "
            "more at once; reduce metrics together, as one flat tensor",
        ),
        (
            Wrapper.FSDP,
            "Wrap larger units (auto_wrap_policy by blocks), so that each gathers and reduces more at once; "
            "reduce metrics together, as one flat tensor",
        ),
        (
            Wrapper.ZERO,
            "Use larger buckets (allgather_bucket_size and reduce_bucket_size in DeepSpeed, "
            "parameters_as_bucket_view=True in ZeroRedundancyOptimizer); reduce metrics together, as one flat tensor",
        ),
    ),
    removes=Removal.CALLS,
)


WAIT_NS = NS_PER_MS
"""On the host, compute that starts no later than this behind a collective has waited for it."""

LAUNCH_NS = 20_000
"""A launch that returned so long before a collective's end would have started before it: a launch takes 5 to 10 us."""

_OPERATIONS = ["allreduce", "reducescatter", "reducescatterbase"]
_EVALUATE = r"^autograd::engine::evaluate_function: "
_ACCUMULATE = r"^autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
"""The only node of a backward pass in whose hooks gradients are reduced; what communicates in another, needs."""

_NEVER = 2**62

_Bools = NDArray[np.bool_]


def hidable_communication(linked: LinkedTrace) -> pl.DataFrame:
    """Exposed reductions of gradients, by two patterns; only the optimizer needs what they reduce.

    In a backward pass: what the pass computes behind a reduction does not need it. Where it waited for the reduction
    all the same (launched `LAUNCH_NS` before its end, begun right behind it), it saves its exposed time, and all
    reductions behind some moment together at most what the pass computes behind it without communication.

    Behind a backward pass: of several reductions of more than `SMALL_BYTES` that were all issued behind the last launch
    of the pass, each but the last could have been issued earlier. Together they save at most what the pass computes.
    """
    events = exposed_events(linked).filter(pl.col("operation").is_in(_OPERATIONS))
    found = [
        frame
        for device in events.get_column("device").unique().sort().to_list()
        for frame in _of_device(linked, device, events.filter(pl.col("device") == device))
    ]
    rows = pl.concat(found) if found else events.with_columns(pl.lit(0, dtype=pl.Int64).alias("saving_ns"))
    return evidence_of(
        linked, rows.with_columns(pl.col("ts_ns").alias("start_ns"), pl.col("operation").alias("subject"))
    )


def _of_device(linked: LinkedTrace, device: str, events: pl.DataFrame) -> list[pl.DataFrame]:
    """The reductions of each backward pass with `saving_ns`."""
    of_pass = passes(linked)
    compute = computing(linked, device)
    launch = compute.select(pl.coalesce("call_event", "op_event")).to_series()
    called, long = event_columns(linked.timeline, launch, called="ts_ns", long="dur_ns")
    compute = compute.with_columns(called.fill_null(-1), (called + long).fill_null(_NEVER).alias("returned"))
    free = events.filter(pl.Series(~_needed(linked, events)))
    communicates = cover_of(*(events.get_column(name).to_numpy() for name in ("ts_ns", "end_ns")))
    found = []
    bounds = zip(of_pass.begin_ns.tolist(), of_pass.end_ns.tolist(), strict=True)
    next_begin = np.r_[of_pass.begin_ns, np.iinfo(np.int64).max][1:].tolist()
    for (begin, end), until in zip(bounds, next_begin, strict=True):
        launched = compute.filter(pl.col("called").is_between(begin, end, closed="left"))
        last = launched.get_column("called").max()
        done = last if isinstance(last, int) else end
        issued = pl.col("issued_ns")
        inside = free.filter(issued.is_between(begin, done, closed="left"))
        behind = free.filter((issued >= done) & (issued < until))
        found.append(_inside(inside, launched, compute, communicates, device))
        found.append(_behind(behind, launched))
    return found


def _inside(
    events: pl.DataFrame, launched: pl.DataFrame, compute: pl.DataFrame, communicates: Cover, device: str
) -> pl.DataFrame:
    starts, ends = (launched.get_column(name).to_numpy() for name in ("ts_ns", "end_ns"))
    work = cover_of(starts, ends)
    after = events.get_column("end_ns").to_numpy()
    last = np.full(len(after), max(ends.max(initial=0), after.max(initial=0)))
    there = work.within(after, last) - work.shared_within(communicates, after, last)
    exposed = np.where(_waited(events, compute, device), events.get_column("exposed_ns").to_numpy(), 0)
    order = np.argsort(after, kind="stable")
    saving = np.empty(len(order), dtype=np.int64)
    saving[order] = hidden_most(exposed[order], there[order])
    return events.with_columns(pl.Series("saving_ns", saving, dtype=pl.Int64))


def hidden_most(exposed: _Ints, there: _Ints) -> _Ints:
    """Maximum time of each collective that later work can hide; each ns of work hides one."""
    spent = np.cumsum(exposed)
    before = spent - exposed
    # From each on: the least of what is behind a later one and of what is exposed until it.
    limits = np.minimum.accumulate(np.r_[there + before, spent[-1:]][::-1])[::-1]
    total = limits[:-1] - before if len(exposed) else exposed
    found: _Ints = total - np.r_[total[1:], 0][: len(total)]
    return np.clip(found, 0, exposed)


def _waited(events: pl.DataFrame, compute: pl.DataFrame, device: str) -> _Bools:
    """Return whether the next compute after each collective was launched well before its end, and begins at once."""
    moments, returned = (compute.get_column(name).to_numpy() for name in ("ts_ns", "returned"))
    after = events.get_column("end_ns").to_numpy()
    if not len(moments):
        return np.zeros(len(after), dtype=np.bool_)
    following = np.searchsorted(moments, after, side="left")
    exists = following < len(moments)
    following = np.minimum(following, len(moments) - 1)
    gap = moments[following] - after
    if device == HOST:
        return np.asarray(exists & (gap < WAIT_NS))
    return np.asarray(exists & (gap < LAUNCH_NS) & (returned[following] < after - LAUNCH_NS))


def _behind(events: pl.DataFrame, launched: pl.DataFrame) -> pl.DataFrame:
    """The reductions behind a pass, the last left out."""
    starts, ends = (launched.get_column(name).to_numpy() for name in ("ts_ns", "end_ns"))
    # Metrics, and tensors that are reduced one by one: what they cost is the latency of each.
    events = events.filter((pl.col("message_bytes") > SMALL_BYTES).fill_null(value=True))
    events = events.sort("ts_ns").head(max(events.height - 1, 0) if len(starts) else 0)
    spent = pl.col("exposed_ns").cum_sum()
    room = pl.lit(cover_of(starts, ends).length, dtype=pl.Int64)
    saving = pl.min_horizontal(spent, room) - pl.min_horizontal(spent - pl.col("exposed_ns"), room)
    return events.with_columns(saving.alias("saving_ns"))


def _needed(linked: LinkedTrace, events: pl.DataFrame) -> _Bools:
    """Return whether a collective lies in a node of the backward pass whose result the next nodes use."""
    tree = host_ops(linked)
    name = host_names(linked).get_column("name")
    nodes = flags_by_name(name, lambda text: text.str.contains(_EVALUATE))
    accumulate = flags_by_name(name, lambda text: text.str.contains(_ACCUMULATE))
    host = events.get_column("host_event").fill_null(-1).to_numpy()
    known = np.isin(host, tree.event_id)
    found = np.zeros(len(host), dtype=np.bool_)
    if known.any() and nodes.any():
        node = tree.nearest(nodes)[tree.rows(host[known])]
        found[known] = (node >= 0) & ~accumulate[node]
    return found


HIDABLE_DETECTOR = Detector(
    "hidable-communication",
    "gradient reductions are exposed, though there is compute to hide them",
    "Issue them asynchronously during the backward pass (DDP, FSDP2, or async_op=True), and wait "
    "only before the optimizer",
    hidable_communication,
    (Need.COMMUNICATION,),
    change_with=(
        (
            Wrapper.FSDP2,
            "Let FSDP2 issue them earlier: more and smaller units (fully_shard on each block); "
            "prefetch behind them with set_modules_to_backward_prefetch, and keep the pass free of waits of the host",
        ),
        (
            Wrapper.FSDP,
            "Let FSDP issue them earlier: more and smaller units (auto_wrap_policy), "
            "backward_prefetch=BackwardPrefetch.BACKWARD_PRE; or FSDP2 (fully_shard on each block)",
        ),
        (
            Wrapper.ZERO,
            "Let them begin during the backward pass: overlap_comm in DeepSpeed; around "
            "ZeroRedundancyOptimizer DDP, with its communication hooks and smaller buckets (bucket_cap_mb)",
        ),
        (
            Wrapper.DDP,
            "Let DDP issue them earlier: smaller buckets (bucket_cap_mb), static_graph=True without unused "
            "parameters; what is reduced outside of DDP with async_op=True, to be waited for only before the optimizer",
        ),
    ),
    removes=Removal.WORK,
)


_EXCHANGES = [kind.value for kind in (CollectiveType.ALL_TO_ALL, *BETWEEN_TWO)]


def same_stream_communication(linked: LinkedTrace) -> pl.DataFrame:
    """All-to-alls, sends and receives on a stream that computes before and behind them in the step: nothing hides them.

    On a stream of their own they save at most what the device computes in the step, and each at most its exposed time.
    """
    exchanges = members(linked).filter(
        pl.col("type").is_in(_EXCHANGES) & (pl.col("device") != HOST) & pl.col("stream").is_not_null()
    )
    if exchanges.is_empty():
        return EVIDENCE.empty()
    work = device_events_by_step(linked)
    lanes = work.select("event_id", "lane")
    compute = work.filter(pl.col("kind") == COMPUTE).with_columns(
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns")
    )
    of_streams = compute.group_by("lane", "step").agg(
        pl.col("ts_ns").min().alias("first_ns"), pl.col("end_ns").max().alias("last_ns")
    )
    of_devices = compute.group_by("device", "step").agg(pl.col("dur_ns").sum().alias("computed_ns"))
    found = (
        exchanges.select("event_id", "device", "step", "type", "start_ns", "end_ns")
        .join(lanes, on="event_id", how="inner", maintain_order="left")
        .join(of_streams, on=["lane", "step"], how="inner", nulls_equal=True, maintain_order="left")
        .join(of_devices, on=["device", "step"], how="inner", nulls_equal=True, maintain_order="left")
        .filter((pl.col("start_ns") > pl.col("first_ns")) & (pl.col("start_ns") < pl.col("last_ns")))
        .sort("device", "start_ns", "event_id")
    )
    exposed = np.zeros(found.height, dtype=np.int64)
    for device in found.get_column("device").unique().to_list():
        rows = (found.get_column("device") == device).to_numpy()
        first, last = owned(*(found.get_column(name).to_numpy()[rows] for name in ("start_ns", "end_ns")))
        exposed[rows] = last - first - compute_cover(linked, device).within(first, last)
    all_ns = pl.col("exposed_ns").sum().over("device", "step")
    hidden = pl.min_horizontal("computed_ns", all_ns) / pl.max_horizontal(all_ns, 1)
    rows = found.with_columns(pl.Series("exposed_ns", exposed)).with_columns(
        (pl.col("exposed_ns") * hidden).floor().cast(pl.Int64).alias("saving_ns"),
        pl.col("type").alias("subject"),
    )
    return evidence_of(linked, rows.filter(pl.col("saving_ns") > 0))


SAME_STREAM_DETECTOR = Detector(
    "same-stream-communication",
    "communication runs on the stream that computes, so that nothing hides it",
    "Issue it on a stream of its own (async_op=True, or a torch.cuda.Stream), and wait where its result is used; what "
    "needs the result at once: split the batch in two, so that one half computes while the other communicates",
    same_stream_communication,
    (Need.COMMUNICATION,),
)


def repeated_reductions(linked: LinkedTrace) -> pl.DataFrame:
    """Reductions of several backward passes of a step, of equal sizes in each, with no step of an optimizer between.

    All but those of the last pass could be left out: each saves its exposed time.
    """
    of_pass = passes(linked)
    events = exposed_events(linked).filter(
        pl.col("operation").is_in(_OPERATIONS) & pl.col("message_bytes").is_not_null()
    )
    number = np.searchsorted(of_pass.begin_ns, events.get_column("issued_ns").to_numpy(), side="right") - 1
    optimized = np.searchsorted(_optimizer_steps(linked), events.get_column("issued_ns").to_numpy())
    run = ["device", "process_group", "operation", "step", "optimized"]
    sizes = (
        events.with_columns(pl.Series("pass", number), pl.Series("optimized", optimized))
        .filter(pl.col("pass") >= 0)
        .with_columns(
            pl.col("message_bytes").sum().over(*run, "pass").alias("bytes"),
            pl.len().over(*run, "pass").alias("count"),
        )
    )
    alike = (pl.col("bytes").n_unique().over(run) == 1) & (pl.col("count").n_unique().over(run) == 1)
    again = pl.col("pass").max().over(run) > pl.col("pass")
    found = sizes.filter(alike & again)
    return evidence_of(
        linked,
        found.with_columns(
            pl.col("ts_ns").alias("start_ns"),
            pl.col("exposed_ns").alias("saving_ns"),
            pl.col("operation").alias("subject"),
        ),
    )


def _optimizer_steps(linked: LinkedTrace) -> NDArray[np.int64]:
    """Starts of optimizer steps, ascending."""
    ranges = linked.timeline.of_role(Role.ANNOTATION).filter(as_text("name").str.contains(OPTIMIZER_STEP))
    return np.sort(ranges.get_column("ts_ns").to_numpy())


REPEATED_REDUCTIONS_DETECTOR = Detector(
    "repeated-reduction",
    "gradients are reduced after every microbatch",
    "Reduce them after the last microbatch only: model.no_sync() in DDP, "
    "set_requires_gradient_sync(False) in FSDP2 (which keeps whole gradients in memory)",
    repeated_reductions,
    (Need.COMMUNICATION,),
    change_with=(
        (
            Wrapper.FSDP2,
            "Reduce them after the last microbatch only: set_requires_gradient_sync(False) on the root for "
            "all others, which keeps whole gradients in memory",
        ),
        (
            Wrapper.FSDP,
            "Reduce them after the last microbatch only: model.no_sync() for all others, which keeps whole "
            "gradients in memory",
        ),
        (Wrapper.DDP, "Reduce them after the last microbatch only: run all others in model.no_sync()"),
    ),
    removes=Removal.RUN,
)


LEAST_BUCKETS = 3
"""Buckets of a step at least, so that there is a usual size."""

MOST_OF_MEDIAN = 4.0
"""Times the median of the step's buckets, from which on a bucket is far larger. DDP makes them of equal size, but for
the first, which is smaller (1 of 25 MiB), and for parameters that are larger than a bucket."""


def unbalanced_buckets(linked: LinkedTrace) -> pl.DataFrame:
    """Reductions far larger than the median of those of their step, group, operation and type, as far as exposed.

    Of buckets of the usual size only the last is exposed. So a bucket saves at most its exposed time, and at most the
    part of its duration that is beyond a usual one's: duration x (1 - median size / its size). Reductions of
    `SMALL_BYTES` or less are no buckets.
    """
    key = ["step", "device", "process_group", "operation", "dtype"]
    buckets = exposed_events(linked).filter(
        pl.col("operation").is_in(_OPERATIONS) & (pl.col("message_bytes") > SMALL_BYTES)
    )
    median = pl.col("message_bytes").median().over(key)
    large = (pl.len().over(key) >= LEAST_BUCKETS) & (pl.col("message_bytes") >= MOST_OF_MEDIAN * median)
    beyond = (pl.col("end_ns") - pl.col("ts_ns")) * (1 - median / pl.col("message_bytes"))
    found = buckets.with_columns(
        pl.min_horizontal(beyond.floor().cast(pl.Int64), "exposed_ns").alias("saving_ns"),
        pl.col("ts_ns").alias("start_ns"),
        pl.format("{} of {} bytes", "operation", "message_bytes").alias("subject"),
        large.alias("is_large"),
    ).filter("is_large")
    return evidence_of(linked, found)


UNBALANCED_BUCKETS_DETECTOR = Detector(
    "unbalanced-buckets",
    "one bucket of gradients is far larger than the others",
    "Use a smaller bucket_cap_mb in DDP or FSDP units of equal size, or shard the large parameter",
    unbalanced_buckets,
    (Need.COLLECTIVES,),
    change_with=(
        (
            Wrapper.FSDP2,
            "Wrap units of equal size: fully_shard on each block, the embedding and the head by themselves",
        ),
        (
            Wrapper.FSDP,
            "Wrap units of equal size (auto_wrap_policy), the embedding and the head by themselves",
        ),
        (Wrapper.DDP, "Use a smaller bucket_cap_mb, or shard the large parameter"),
    ),
    removes=Removal.WORK,
)
