"""`Process`: what a trace says of the process that it was recorded in, and where two traces contradict each other."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from enum import Enum

import polars as pl
from msgspec import Struct, field

from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.quantities import NS_PER_MS, NS_PER_S
from tracebraid.model.timeline import Timeline

_MINUTE_S = 60
_PID_LIMIT = 1 << 22
"""Linux numbers no process higher (`PID_MAX_LIMIT`): a larger number in a trace is made up."""
_EARLIEST_NS = 1_420_070_400 * NS_PER_S
"""2015-01-01, before PyTorch: times below are not on the unix clock."""
_SLACK_NS = 5 * NS_PER_S
"""Maximum difference of two clock times of one process: one is truncated to seconds, and a process
may be stopped between taking the other and writing it."""
_ZONE_STEP_NS = 15 * _MINUTE_S * NS_PER_S
"""Time zones lie a multiple of a quarter of an hour from UTC."""
_ZONES_NS = range(-12 * 60 * _MINUTE_S * NS_PER_S, 14 * 60 * _MINUTE_S * NS_PER_S + 1, _ZONE_STEP_NS)
"""Offsets of local time from UTC: -12 h to +14 h, in quarters of an hour (Nepal has +5:45)."""
_DIGITS = 9
"""Digits of a rank, or of a number of ranks, at most: Python refuses to convert texts of thousands."""
_DEFAULT_GROUP = "default_pg"
_UNROOTED = re.compile(r"^(wait|barrier|_?all_?reduce|_?all_?gather|_?reduce_scatter|_?all_?to_?all)")
"""Collectives whose node has the rank of its process; others have that of the root instead."""

_CUDA_DEVICE = re.compile(r"^(NVIDIA|Tesla|GeForce|Quadro|TITAN|A100|H100)")


class Contradiction(str, Enum):
    """Reason why two traces cannot be of one process."""

    PROCESS_ID = "process-id"
    START = "start"
    RANK = "rank"
    WORLD_SIZE = "world-size"
    GROUP_RANKS = "group-ranks"
    DEVICES = "devices"


class Process(Struct, frozen=True):
    """Process of a trace as far as the trace describes it; unknown values are None or empty.

    Args:
        pids: numbers that its host events, or its header, carry. Equal ones prove nothing: containers use them again.
        tids: numbers of threads that ran ops. The main thread's equals that of its process, which Kineto of old
            versions of torch does not renew in a forked process.
        span_ns: start and end of the recording; on the unix clock, or on a local clock.
        is_local_time: whether `span_ns` is in local time of an unknown zone.
        host: the name of its host; containers of several hosts may have one name.
        rank: the global rank.
        world_size: the number of ranks.
        groups: the ranks of each process group by its name, as far as they are listed.
        devices: numbers of the CUDA devices that are named.
    """

    pids: frozenset[int] = frozenset()
    tids: frozenset[int] = frozenset()
    span_ns: tuple[int, int] | None = None
    is_local_time: bool = False
    host: str = ""
    rank: int | None = None
    world_size: int | None = None
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    devices: frozenset[int] = frozenset()


def process_of_et(et: ExecutionTrace) -> Process:
    """Describe the process by an Execution Trace: process id and times of its header, groups, collectives, tensors."""
    pid = et.header.get("pid")
    return Process(
        pids=frozenset({pid} if isinstance(pid, int) and _is_pid(pid) else ()),
        span_ns=_local_span(et.header),
        is_local_time=True,
        rank=_rank_of_collectives(et),
        world_size=_default_group_size(et.process_groups),
        groups=_groups(et.process_groups),
        devices=frozenset(
            int(name.removeprefix("cuda:"))
            for name in et.tensor_devices()
            if re.fullmatch(r"cuda:\d{1,4}", name)
        ),
    )


def process_of_timeline(timeline: Timeline) -> Process:
    """Describe the process by a Kineto trace: process ids of host ops, times, `distributedInfo`, and used devices.

    An export of Nsight Systems numbers processes as the host does, not as the container, and has none here. Nor has a
    trace in which a process has a made-up number, or a name.
    """
    info = timeline.header.get("distributedInfo")
    distributed = info if isinstance(info, dict) else {}
    span = timeline.span_ns
    pids, tids = (
        (frozenset[int](), frozenset[int]()) if "nsys" in timeline.header else _ids_of_hosts(timeline)
    )
    return Process(
        pids=pids,
        tids=tids,
        span_ns=span if span is not None and span[0] >= _EARLIEST_NS else None,
        host=str(timeline.header.get("host_name") or ""),
        rank=_number(distributed.get("rank")),
        world_size=_number(distributed.get("world_size")),
        groups=_groups(timeline.process_groups),
        devices=_devices(timeline),
    )


def contradictions(et: Process, kineto: Process) -> tuple[Contradiction, ...]:
    """Return the reasons why two traces cannot be of one process; empty if there are none."""
    found = {
        Contradiction.PROCESS_ID: bool(et.pids and kineto.pids) and not et.pids & (kineto.pids | kineto.tids),
        Contradiction.START: not _may_overlap(et, kineto),
        Contradiction.RANK: None not in (et.rank, kineto.rank) and et.rank != kineto.rank,
        Contradiction.WORLD_SIZE: None not in (et.world_size, kineto.world_size)
        and et.world_size != kineto.world_size,
        Contradiction.GROUP_RANKS: _groups_differ(et, kineto),
        Contradiction.DEVICES: bool(et.devices and kineto.devices) and not et.devices & kineto.devices,
    }
    return tuple(contradiction for contradiction, is_so in found.items() if is_so)


def _may_overlap(et: Process, kineto: Process) -> bool:
    """Return whether both were recorded at one time, in some time zone where that of one is not known."""
    if et.span_ns is None or kineto.span_ns is None:
        return True
    (start, stop), (first, last) = et.span_ns, kineto.span_ns
    return any(
        start - zone <= last + _SLACK_NS and stop - zone >= first - _SLACK_NS
        for zone in (_ZONES_NS if et.is_local_time else (0,))
    )


def _groups_differ(et: Process, kineto: Process) -> bool:
    """Return whether a group has other ranks in the other trace, or is one to which the rank does not belong.

    A process lists only groups that it is a member of.
    """
    if any(kineto.groups[name] != ranks for name, ranks in et.groups.items() if name in kineto.groups):
        return True
    return kineto.rank is not None and any(kineto.rank not in ranks for ranks in et.groups.values())


def _local_span(header: dict[str, object]) -> tuple[int, int] | None:
    """The recording's start and end in local time: the header has the start, and both on a steady clock in ms."""
    time, start, finish = header.get("time"), header.get("start_ts"), header.get("finish_ts")
    if not isinstance(time, str) or not isinstance(start, int) or not isinstance(finish, int):
        return None
    try:
        moment = datetime.strptime(time, "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
    except ValueError:
        return None
    start_ns = int(moment.timestamp()) * NS_PER_S
    if finish < start or start_ns < _EARLIEST_NS:
        return None
    return start_ns, start_ns + (finish - start) * NS_PER_MS


def _ids_of_hosts(timeline: Timeline) -> tuple[frozenset[int], frozenset[int]]:
    """Numbers of the processes and of the threads that ran ops."""
    lanes = set(timeline.events.get_column("lane").gather(timeline.host_ops.get_column("event_id")).unique())
    rows = [row for lane, *row in timeline.lanes.select("lane", "pid", "tid").iter_rows() if lane in lanes]
    if not all(_is_pid(pid) for pid, _ in rows):
        return frozenset(), frozenset()
    return frozenset(pid for pid, _ in rows), frozenset(tid for _, tid in rows if _is_pid(tid))


def _devices(timeline: Timeline) -> frozenset[int]:
    """Numbers of CUDA devices; empty for others, whose numbers are not those of tensors (on ROCm those of agents)."""
    rows = timeline.header.get("deviceProperties")
    properties = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    if not properties or not all(_CUDA_DEVICE.search(str(row.get("name"))) for row in properties):
        return frozenset()
    return frozenset(timeline.device_work.get_column("device").drop_nulls().to_list())


def _rank_of_collectives(et: ExecutionTrace) -> int | None:
    """The rank that collectives of the default process group carry; None if they carry none, or several.

    It stands between the group's name and the collective's: `["0", "default_pg"]`, 1, "allreduce".
    """
    nodes = et.nodes.filter(as_text("name") == "record_param_comms").select("node_id")
    if nodes.is_empty():
        return None
    values = et.values.join(nodes, on="node_id").filter(~pl.col("is_output")).sort("node_id", "position")
    rows = values.select(
        "node_id",
        as_text("value").alias("group"),
        as_text("value").shift(-1).over("node_id").alias("rank"),
        as_text("value").shift(-2).over("node_id").str.strip_chars('"').alias("collective"),
    )
    of_world = rows.filter(
        pl.col("group").str.contains(f'"{_DEFAULT_GROUP}"', literal=True)
        & pl.col("collective").str.contains(_UNROOTED.pattern)
    )
    ranks = of_world.get_column("rank").cast(pl.Int64, strict=False).drop_nulls().unique()
    return int(ranks[0]) if len(ranks) == 1 else None


def _default_group_size(groups: pl.DataFrame) -> int | None:
    if groups.is_empty():
        return None
    size = groups.filter(as_text("pg_desc") == _DEFAULT_GROUP).get_column("group_size")
    return int(size[0]) if len(size) == 1 and size[0] else None


def _groups(groups: pl.DataFrame) -> dict[str, tuple[int, ...]]:
    """Ranks by group; where none are listed (all ranks), or a name recurs, the group is left out."""
    if groups.is_empty():
        return {}
    listed = groups.filter(
        pl.col("pg_name").is_not_null() & pl.col("pg_name").is_unique() & (pl.col("ranks").list.len() > 0)
    )
    return {str(name): tuple(sorted(ranks)) for name, ranks in listed.select("pg_name", "ranks").iter_rows()}


def _number(value: object) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) <= _DIGITS:
        return int(value)
    return value if type(value) is int and value >= 0 else None


def _is_pid(value: object) -> bool:
    return type(value) is int and 0 < value < _PID_LIMIT
