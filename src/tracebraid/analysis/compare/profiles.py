"""Profiles of ranks and runs: the data that a comparison keeps of each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.analysis.device import device_events, event_columns, fetched, rows_of_events
from tracebraid.analysis.host.host_rows import host_rows, thread_timelines
from tracebraid.analysis.host.host_trees import host_names
from tracebraid.analysis.info import devices_of_timeline, timeline_info
from tracebraid.analysis.ops.annotations import Paths, annotation_tree, paths_of
from tracebraid.analysis.ops.modules import module_tree
from tracebraid.analysis.time.breakdown import HOST, Cover, cover_of, owned, step_spans, work_events
from tracebraid.analysis.time.idle.idle_parts import contexts_of_parts, idle_parts, in_codes
from tracebraid.analysis.time.step_times import warm_up
from tracebraid.analysis.time.step_windows import in_windows, step_windows, windows_of
from tracebraid.analysis.validity import validity
from tracebraid.model.answers.job import DiffPart, DiffSetting, LeftOut
from tracebraid.model.category import Category, Role
from tracebraid.model.device_peaks import COMMUNICATION, COMPUTE, MEMORY, WAIT
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.rows import nearest_ancestors, nearest_rows
from tracebraid.model.step import is_step_name

_Ints = NDArray[np.int64]

KEY = ["path_id", "module", "input_dims", "input_types"]
"""Key of calls that share a row."""

_SEPARATOR = " > "
_SHOWN = 8
"""Maximum innermost names of a path: deep recursion would make the texts too long."""

_COUNTERS = r"(?i)\b(step|iter|iteration|batch|epoch)([ _#:=]*)\d+"
_HASHES = r"\b[0-9a-f]{16,}\b|\b[a-z0-9]{40,}\b"
"""Parts of names that differ between runs of one program: counters, and hashes of compiled graphs."""


def op_positions(linked: LinkedTrace) -> tuple[pl.DataFrame, _Ints]:
    """The positions of a rank's ops and annotations, and for each row of `host_tree` its position's row; -1: no op.

    Columns: path_id (equal for equal paths of any trace), parent_id (that of the enclosing op; null: none), path,
    name, category, module, input_dims, input_types. In the order in which they are first called. Steps extend no path.
    """
    names = host_names(linked)
    is_op = linked.host_tree.get_column("op_exclusive_ns").is_not_null().to_numpy()
    rows = np.flatnonzero(is_op)
    paths, texts, of_mark = _paths(linked, rows)
    ids = _path_ids(paths, texts)
    parents = np.where(paths.parent < 0, -1, paths.parent)
    shown = _shown(paths, texts)
    found = _keys(linked, rows).with_columns(
        *names[rows].select("ts_ns", as_text("category")).get_columns(), pl.Series("number", of_mark)
    )
    steps = found.get_column("number") < 0
    key = ["number", "module", "input_dims", "input_types"]
    found = found.with_columns(pl.struct(key).rank("dense").cast(pl.Int64).alias("group"))
    first = (
        found.with_row_index("row")
        .filter(~steps)
        .sort("ts_ns", "row")
        .unique("group", keep="first", maintain_order=True)
    )
    position = np.full(found.height + 1, -1, dtype=np.int64)
    position[first.get_column("group").to_numpy()] = np.arange(first.height)
    of_row = np.full(len(is_op), -1, dtype=np.int64)
    of_row[rows] = position[found.get_column("group").to_numpy()]
    number = first.get_column("number").to_numpy()
    return first.select(
        pl.Series("path_id", ids[number], dtype=pl.Int64),
        pl.Series("parent_id", np.where(parents[number] < 0, -1, ids[np.maximum(parents[number], 0)])),
        pl.Series("path", [shown[i] for i in number.tolist()], dtype=pl.String),
        pl.Series("name", [texts[i] for i in paths.name[number].tolist()], dtype=pl.String),
        pl.col("category", "module", "input_dims", "input_types").cast(pl.String),
    ), of_row


def _paths(linked: LinkedTrace, rows: _Ints) -> tuple[Paths, list[str], _Ints]:
    """The paths of names, the names, and the path of each of these rows; -1 for steps in nothing."""
    tree = annotation_tree(linked).tree
    wanted = np.zeros(len(tree.event_id), dtype=np.bool_)
    wanted[rows] = True
    numbers = np.arange(len(wanted))
    outer = nearest_ancestors(np.where(tree.enclosing == numbers, -1, tree.enclosing), wanted)
    mark = np.full(len(wanted) + 1, -1, dtype=np.int64)
    mark[rows] = np.arange(len(rows))
    raw = host_names(linked)[rows].select(as_text("name").fill_null("")).to_series()
    unique = raw.unique(maintain_order=True)
    is_step = (
        pl.DataFrame({"name": unique}).select(is_step_name(pl.col("name"), linked.annotation)).to_series()
    )
    plain = unique.str.replace_all(_COUNTERS, "${1}${2}N").str.replace_all(_HASHES, "H")
    texts = plain.unique(maintain_order=True)
    code = dict(zip(texts.to_list(), range(len(texts)), strict=True))
    of_name = [
        -1 if step else code[text] for text, step in zip(plain.to_list(), is_step.to_list(), strict=True)
    ]
    number = raw.replace_strict(unique, pl.Series(of_name, dtype=pl.Int64), return_dtype=pl.Int64).to_numpy()
    paths = paths_of(mark[outer[rows]], number)
    return paths, texts.to_list(), np.where(number < 0, -1, paths.path)


def _path_ids(paths: Paths, texts: list[str]) -> _Ints:
    """A 63-bit hash of each path's names."""
    digests: list[bytes] = []
    for parent, name in zip(paths.parent.tolist(), paths.name.tolist(), strict=True):
        above = digests[parent] if parent >= 0 else b""
        text = texts[name].encode("utf-8", "surrogatepass")
        digests.append(hashlib.blake2b(text, digest_size=8, key=above).digest())
    ids: _Ints = np.frombuffer(b"".join(digests), dtype=np.int64) & np.int64(2**63 - 1)
    return ids


def _shown(paths: Paths, texts: list[str]) -> list[str]:
    parents, names = paths.parent.tolist(), paths.name.tolist()
    found = []
    for number in range(len(parents)):
        path, last = [texts[names[number]]], parents[number]
        while last >= 0 and len(path) < _SHOWN:
            path.append(texts[names[last]])
            last = parents[last]
        found.append(_SEPARATOR.join([*(["..."] if last >= 0 else []), *reversed(path)]))
    return found


def _keys(linked: LinkedTrace, rows: _Ints) -> pl.DataFrame:
    """Module, shapes and types of some rows."""
    events = host_names(linked).get_column("event_id").gather(rows)
    recorded = linked.timeline.host_ops
    of_ops = rows_of_events(recorded.get_column("event_id"), events)
    arguments = fetched(recorded.select("input_dims", "input_types"), of_ops)
    modules = module_tree(linked)
    texts = pl.Series("module", [*modules.paths.texts(modules.names, "/"), None], dtype=pl.String)
    path = modules.path[rows]
    of_module = texts.gather(np.where(path < 0, len(texts) - 1, path)).cast(pl.Categorical())
    return arguments.with_columns(of_module.alias("module"))


_FLAGS = {
    DiffSetting.RECORD_SHAPES: "record_shapes",
    DiffSetting.WITH_STACK: "with_stack",
    DiffSetting.PROFILE_MEMORY: "profile_memory",
    DiffSetting.WITH_MODULES: "with_modules",
}
"""Members of the file's header; those that are 0 are left out in many."""

_DRIVERS = ("cuda_driver_version", "hip_driver_version")


def settings_of(linked: LinkedTrace, spans: pl.Series, steps: pl.DataFrame) -> dict[DiffSetting, str | None]:
    """The settings of a rank, as text; null: unknown.

    What was recorded shows in the events; the header says it only in files of torch 2.1 or newer.
    """
    timeline = linked.timeline
    devices, _ = devices_of_timeline(timeline)
    driver = next((str(timeline.header[key]) for key in _DRIVERS if key in timeline.header), None)
    shown = {
        DiffSetting.RECORD_SHAPES: _has_any(timeline.host_ops, "input_dims"),
        DiffSetting.WITH_STACK: not timeline.of_role(Role.PYTHON).is_empty(),
        DiffSetting.PROFILE_MEMORY: not timeline.tables["memory"].is_empty(),
        DiffSetting.WITH_MODULES: _has_any(timeline.host_ops, "module_hierarchy"),
    }
    flags = {
        setting: "yes" if shown[setting] or timeline.header.get(key) == 1 else "no"
        for setting, key in _FLAGS.items()
    }
    host = timeline.of_role(Role.OP, Role.ANNOTATION, Role.CALL, Role.PYTHON).height
    world = timeline.world_size
    return {
        DiffSetting.PATH: timeline.path,
        DiffSetting.RANKS: str(linked.rank),
        DiffSetting.WORLD_SIZE: None if world is None else str(world),
        DiffSetting.DEVICES: ", ".join(sorted(set(devices))) or None,
        DiffSetting.TORCH: timeline_info(timeline, 0).torch or None,
        DiffSetting.DRIVER: driver,
        DiffSetting.STEPS: str(len(steps)),
        **flags,
        DiffSetting.HOST_EVENTS: str(round(host / max(1, len(spans)))),
        DiffSetting.OVERHEAD: str(_overhead_ns(linked) // max(1, len(spans))),
    }


def _has_any(frame: pl.DataFrame, column: str) -> bool:
    values = frame.get_column(column)
    return values.null_count() < len(values)


def _overhead_ns(linked: LinkedTrace) -> int:
    events = linked.timeline.events.filter(as_text("category") == Category.OVERHEAD.value)
    return int(events.get_column("dur_ns").sum())


_SCHEMA = {
    "window": pl.Int64,
    "part": pl.String,
    "row": pl.Int64,
    "cause": pl.String,
    "host_activity": pl.String,
    "ns": pl.Int64,
}
_KEY = ["window", "part", "row", "cause", "host_activity"]


def main_device(linked: LinkedTrace) -> str | None:
    """Return the busiest device; `cpu` without device work, None if there is no work."""
    work = work_events(linked).group_by("device").agg(pl.col("dur_ns").sum())
    if work.is_empty():
        return None
    ordered = work.sort(-pl.col("dur_ns"), pl.col("device").str.len_chars(), "device")
    return str(ordered.item(0, "device"))


def step_parts(linked: LinkedTrace, windows: pl.DataFrame, per_step: bool) -> pl.DataFrame:
    """The parts of each window on its main device; they add up to the window's length, to the nanosecond.

    Columns: window, part (`DiffPart`), row (of `host_tree`: the op that computes, communicates or copies; null:
    unknown, or idle), cause and host_activity (of idle time), ns. A moment of the device counts as compute where
    something computes, else as communication, else as memory; where two kernels do so at once it counts for that which
    began first. On the host it counts for the innermost op. What none explains is `rest`.
    """
    device = main_device(linked)
    begin, end = (windows.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    found = [pl.DataFrame(schema=_SCHEMA)]
    if device is not None:
        work = _host_segments(linked) if device == HOST else _device_work(linked, device)
        hides = Cover(*(np.empty(0, dtype=np.int64) for _ in range(3)))
        starts = ends = np.empty(0, dtype=np.int64)
        for kind, part in _PARTS.items():
            of_kind = work.filter(pl.col("kind") == kind).sort("ts_ns", "row", nulls_last=True)
            found.append(_owned_parts(of_kind, hides, (begin, end), part))
            starts = np.r_[starts, of_kind.get_column("ts_ns").to_numpy()]
            ends = np.r_[ends, of_kind.get_column("end_ns").to_numpy()]
            hides = cover_of(starts, ends)
        found.append(_idle(linked, device, per_step))
    parts = pl.concat(found)
    rest = (
        pl.DataFrame({"window": np.arange(len(begin)), "span": end - begin})
        .join(parts.group_by("window").agg(pl.col("ns").sum()), on="window", how="left")
        .select("window", (pl.col("span") - pl.col("ns").fill_null(0)).alias("ns"))
        .filter(pl.col("ns") != 0)
        .select(
            pl.lit(None, dtype=dtype).alias(name) if name not in ("window", "ns") else name
            for name, dtype in _SCHEMA.items()
        )
        .with_columns(pl.lit(DiffPart.REST.value).alias("part"))
    )
    return pl.concat([parts, rest]).group_by(_KEY, maintain_order=True).agg(pl.col("ns").sum())


_PARTS = {
    COMPUTE: DiffPart.COMPUTE,
    COMMUNICATION: DiffPart.EXPOSED_COMMUNICATION,
    MEMORY: DiffPart.EXPOSED_MEMORY,
}
"""Parts in order of precedence for a moment."""


def _device_work(linked: LinkedTrace, device: str) -> pl.DataFrame:
    events = work_events(linked).filter(pl.col("device") == device)
    host = host_rows(linked)
    rows = host.rows(events.get_column("op_event").fill_null(-1).to_numpy())
    return events.select(
        "kind", "ts_ns", (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"), pl.Series("row", rows)
    ).with_columns(pl.when(pl.col("row") >= 0).then("row").alias("row"))


def _host_segments(linked: LinkedTrace) -> pl.DataFrame:
    """Intervals in which each thread computes or communicates, with the innermost op."""
    events = work_events(linked)
    host = host_rows(linked)
    frames = []
    for kind in (COMPUTE, COMMUNICATION):
        wanted = np.zeros(len(host.event_id), dtype=np.bool_)
        rows = host.rows(events.filter(pl.col("kind") == kind).get_column("event_id").to_numpy())
        wanted[rows[rows >= 0]] = True
        owner = np.r_[nearest_rows(host.parent, wanted), -1]
        for timeline in thread_timelines(linked).values():
            of_moment = owner[timeline.rows]
            inside = of_moment >= 0
            inside[-1:] = False
            at = np.flatnonzero(inside)
            frames.append(
                pl.DataFrame(
                    {
                        "ts_ns": timeline.moments[at],
                        "end_ns": timeline.moments[at + 1 if len(at) else at],
                        "row": of_moment[at],
                    }
                ).select(pl.lit(kind).alias("kind"), "ts_ns", "end_ns", "row")
            )
    schema = {"kind": pl.String, "ts_ns": pl.Int64, "end_ns": pl.Int64, "row": pl.Int64}
    return pl.concat([pl.DataFrame(schema=schema), *frames])


def _owned_parts(
    work: pl.DataFrame, hides: Cover, windows: tuple[_Ints, _Ints], part: DiffPart
) -> pl.DataFrame:
    """Exclusive time of each row in each window, without hidden time."""
    first, last = owned(*(work.get_column(name).to_numpy() for name in ("ts_ns", "end_ns")))
    some = np.flatnonzero(last > first)
    first, last = first[some], last[some]
    begin, end = windows
    # The parts are disjoint and in order: those in a window are a stretch of them.
    low = np.searchsorted(last, begin, side="right")
    count = np.maximum(np.searchsorted(first, end, side="left") - low, 0)
    window = np.repeat(np.arange(len(begin)), count)
    index = low[window] + np.arange(len(window)) - np.repeat(np.cumsum(count) - count, count)
    starts, ends = np.maximum(first[index], begin[window]), np.minimum(last[index], end[window])
    ns = ends - starts - hides.within(starts, ends)
    row = work.get_column("row").gather(some[index])
    return (
        pl.DataFrame({"window": window, "row": row, "ns": ns}, schema_overrides={"window": pl.Int64})
        .group_by("window", "row", maintain_order=True)
        .agg(pl.col("ns").sum())
        .filter(pl.col("ns") > 0)
        .with_columns(pl.lit(part.value).alias("part"), *_no_text("cause", "host_activity"))
        .select(list(_SCHEMA))
    )


def _idle(linked: LinkedTrace, device: str, per_step: bool) -> pl.DataFrame:
    parts = idle_parts(linked, per_step)
    contexts = contexts_of_parts(linked, per_step).select("index", "activity", "dur_ns")
    of_part = parts.select("device", "window", "cause")[contexts.get_column("index").to_numpy()]
    return (
        pl.concat([contexts, of_part], how="horizontal")
        .filter(pl.col("device") == device)
        .group_by("window", "cause", "activity", maintain_order=True)
        .agg(pl.col("dur_ns").sum().alias("ns"))
        .with_columns(in_codes())
        .with_columns(
            pl.lit(DiffPart.IDLE.value).alias("part"),
            pl.lit(None, dtype=pl.Int64).alias("row"),
            pl.col("cause", "host_activity").cast(pl.String),
            pl.col("window").cast(pl.Int64),
        )
        .select(list(_SCHEMA))
    )


def _no_text(*names: str) -> list[pl.Expr]:
    return [pl.lit(None, dtype=pl.String).alias(name) for name in names]


_NO_POSITION = -1


class RankProfile(Struct, frozen=True, eq=False):
    """Profile of a rank: small tables, none with a row for each event.

    Args:
        rank: the rank.
        settings: the recording settings.
        has_steps: whether the annotation exists; if not, the whole trace is a single window.
        has_device: whether any work ran on a device.
        windows: the steps in their order: window, step, span_ns, warmup, doubt (null: none).
        positions: call sites of ops, see `op_positions`.
        ops: by position (a row of `positions`) and window: count, host_ns, kernels, device_ns.
        kernels: by position (-1: launched by no op), window, kernel and kind: count, ns.
        parts: by position and window, see `step_parts`.
        annotation: marks steps.
    """

    rank: int
    settings: Mapping[DiffSetting, str | None]
    has_steps: bool
    has_device: bool
    windows: pl.DataFrame
    positions: pl.DataFrame
    ops: pl.DataFrame
    kernels: pl.DataFrame
    parts: pl.DataFrame
    annotation: str


def rank_profile(linked: LinkedTrace) -> RankProfile:
    """Compute the profile of a rank.

    An op counts in the step in which it starts, a kernel in that of its launch.
    """
    steps = step_windows(linked)
    has_steps = not steps.is_empty()
    windows = step_spans(linked) if has_steps else _whole(linked)
    calls = windows_of(linked, has_steps).with_row_index("window").cast({"window": pl.Int64})
    positions, of_row = op_positions(linked)
    kernels = _kernels(linked, of_row, calls)
    parts = step_parts(linked, windows, has_steps)
    row = parts.get_column("row").fill_null(-1).to_numpy()
    parts = parts.with_columns(pl.Series("position", np.r_[of_row, _NO_POSITION][row], dtype=pl.Int64)).drop(
        "row"
    )
    key = ["position", "window", "part", "cause", "host_activity"]
    on_host = steps if has_steps else windows
    span = windows.get_column("end_ns") - windows.get_column("start_ns")
    doubts = validity(linked).group_by("step").agg(pl.col("doubt").first().cast(pl.String))
    return RankProfile(
        linked.rank,
        settings_of(linked, span, steps),
        has_steps,
        linked.timeline.has_device,
        pl.DataFrame(
            {
                "window": np.arange(windows.height),
                "step": windows.get_column("step"),
                "span_ns": span,
                "warmup": warm_up((on_host.get_column("end_ns") - on_host.get_column("start_ns")).to_numpy()),
            }
        ).join(doubts, on="step", how="left", nulls_equal=True, maintain_order="left"),
        positions,
        _ops(linked, of_row, calls, kernels),
        kernels,
        parts.group_by(key, maintain_order=True).agg(pl.col("ns").sum()),
        linked.annotation,
    )


def _whole(linked: LinkedTrace) -> pl.DataFrame:
    """One window from the first work of the main device to its last."""
    device = main_device(linked)
    work = work_events(linked).filter(pl.col("device") == device) if device is not None else None
    start, end = 0, 0
    if work is not None:
        ends = work.get_column("ts_ns").to_numpy() + work.get_column("dur_ns").to_numpy()
        start, end = int(work.get_column("ts_ns").to_numpy().min()), int(ends.max())
    schema = {"step": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64}
    return pl.DataFrame([(None, start, end)], schema=schema, orient="row")


def _kernels(linked: LinkedTrace, of_row: _Ints, calls: pl.DataFrame) -> pl.DataFrame:
    events = device_events(linked).filter(pl.col("kind") != WAIT)
    launch = events.select(pl.coalesce("call_event", "op_event")).to_series()
    (moment,) = event_columns(linked.timeline, launch, moment="ts_ns")
    rows = host_rows(linked).rows(events.get_column("op_event").fill_null(-1).to_numpy())
    found = events.select("name", "kind", "ts_ns", "dur_ns").with_columns(
        moment, pl.Series("position", np.r_[of_row, _NO_POSITION][rows], dtype=pl.Int64)
    )
    found = found.with_columns(pl.coalesce("moment", "ts_ns").alias("moment"))
    return (
        in_windows(found, "moment", calls.select("window", "start_ns", "end_ns"))
        .group_by("position", "window", pl.col("name").alias("kernel"), "kind", maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("count"), pl.col("dur_ns").sum().alias("ns"))
    )


def _ops(
    linked: LinkedTrace,
    of_row: _Ints,
    calls: pl.DataFrame,
    kernels: pl.DataFrame,
) -> pl.DataFrame:
    of_host = pl.DataFrame(
        {
            "position": of_row,
            "moment": host_names(linked).get_column("ts_ns"),
            "own": linked.host_tree.get_column("op_exclusive_ns"),
        }
    ).filter(pl.col("position") >= 0)
    host = (
        in_windows(of_host, "moment", calls.select("window", "start_ns", "end_ns"))
        .group_by("position", "window", maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("count"), pl.col("own").sum().alias("host_ns"))
    )
    launched = kernels.group_by("position", "window", maintain_order=True).agg(
        pl.col("count").sum().alias("kernels"), pl.col("ns").sum().alias("device_ns")
    )
    return (
        host.join(
            launched.filter(pl.col("position") >= 0), on=["position", "window"], how="full", coalesce=True
        )
        .with_columns(pl.col("count", "host_ns", "kernels", "device_ns").fill_null(0))
        .sort("position", "window")
    )


class RunProfile(Struct, frozen=True, eq=False):
    """Profile of all ranks of one or more captures. A sample is a step, summed over all ranks in integers.

    Args:
        ranks: the ranks, in order.
        has_steps: whether samples are steps; if not, there is one of each capture: the whole trace.
        has_device: whether any work ran on a device.
        samples: number of steps that are counted.
        steps_of_captures: of these, those of each capture, whose samples are consecutive.
        doubtful: of each capture, whether all its steps are warm-up or doubtful, and count for want of others.
        left_out: steps that are not counted: capture (from 0), step, reason, doubt.
        spans: ranks x samples: lengths of the steps.
        positions: distinct call sites of ops, in the order of first calls.
        ops: by position and sample, see `RankProfile`.
        kernels: the same.
        parts: the same.
    """

    ranks: tuple[int, ...]
    has_steps: bool
    has_device: bool
    samples: int
    steps_of_captures: tuple[int, ...]
    doubtful: tuple[bool, ...]
    left_out: pl.DataFrame
    spans: _Ints
    positions: pl.DataFrame
    ops: pl.DataFrame
    kernels: pl.DataFrame
    parts: pl.DataFrame

    @property
    def divisor(self) -> int:
        """Divisor of a total for the mean of a step and rank."""
        return max(1, self.samples * len(self.ranks))

    def by_capture(self, values: _Ints) -> list[_Ints]:
        """Split rows x samples by capture."""
        return np.split(values, np.cumsum(self.steps_of_captures)[:-1], axis=1)


def run_profile(
    ranks: Sequence[RankProfile], with_shapes: bool, with_modules: bool, with_doubtful: bool
) -> RunProfile:
    """Ranks of a capture as one run.

    A step counts that is in all ranks, by its name and occurrence, else by its number, and that is neither warm-up nor
    doubtful in any; where none is left, all count.
    """
    chosen, left_out, doubtful = _chosen(ranks, with_doubtful)
    samples = chosen[0].height if chosen else 0
    dropped = [] if with_shapes else ["input_dims", "input_types"]
    dropped += [] if with_modules else ["module"]
    positions, numbers = _numbered([rank.positions for rank in ranks], dropped)
    spans = [frame.get_column("span_ns").to_numpy() for frame in chosen]

    def summed(name: str, *keys: str) -> pl.DataFrame:
        frames = map(_moved, (getattr(rank, name) for rank in ranks), numbers, chosen)
        key = ["position", "sample", *keys]
        found = pl.concat(frames)
        values = [column for column in found.columns if column not in key]
        return found.group_by(key, maintain_order=True).agg(pl.col(*values).sum())

    return RunProfile(
        tuple(rank.rank for rank in ranks),
        all(rank.has_steps for rank in ranks),
        any(rank.has_device for rank in ranks),
        samples,
        (samples,),
        (doubtful,),
        left_out,
        np.array(spans, dtype=np.int64).reshape(-1, samples),
        positions,
        summed("ops"),
        summed("kernels", "kernel", "kind"),
        summed("parts", "part", "cause", "host_activity"),
    )


def pooled(runs: Sequence[RunProfile]) -> RunProfile:
    """Captures of the same ranks as one run, with the steps of all as samples."""
    if len(runs) == 1:
        return runs[0]
    positions, numbers = _numbered([run.positions for run in runs], [])
    begins = np.cumsum([0, *(run.samples for run in runs)])

    def together(name: str) -> pl.DataFrame:
        frames = []
        for run, number, begin in zip(runs, numbers, begins[:-1].tolist(), strict=True):
            frame: pl.DataFrame = getattr(run, name)
            of_run = np.r_[number.to_numpy(), _NO_POSITION][frame.get_column("position").to_numpy()]
            position = pl.Series("position", of_run, dtype=pl.Int64)
            frames.append(frame.with_columns(position, pl.col("sample") + begin))
        return pl.concat(frames)

    return RunProfile(
        runs[0].ranks,
        all(run.has_steps for run in runs),
        any(run.has_device for run in runs),
        int(begins[-1]),
        tuple(steps for run in runs for steps in run.steps_of_captures),
        tuple(doubtful for run in runs for doubtful in run.doubtful),
        pl.concat(run.left_out.with_columns(pl.lit(n).alias("capture")) for n, run in enumerate(runs)),
        np.concatenate([run.spans for run in runs], axis=1),
        positions,
        together("ops"),
        together("kernels"),
        together("parts"),
    )


def _numbered(frames: list[pl.DataFrame], dropped: list[str]) -> tuple[pl.DataFrame, list[pl.Series]]:
    """Merge the positions of all ranks; return them, and the row of each rank's positions."""
    frames = [
        frame.with_columns(pl.lit(None, dtype=pl.String).alias(name) for name in dropped) for frame in frames
    ]
    unique = pl.concat(frames).unique(KEY, keep="first", maintain_order=True)
    rows = unique.select(KEY).with_row_index("number").cast({"number": pl.Int64})
    found = [
        frame.join(rows, on=KEY, how="left", nulls_equal=True, maintain_order="left") for frame in frames
    ]
    return unique, [frame.get_column("number") for frame in found]


def _chosen(
    ranks: Sequence[RankProfile], with_doubtful: bool
) -> tuple[list[pl.DataFrame], pl.DataFrame, bool]:
    """Choose the windows of each rank that count, in an order that is the same for all.

    Also returns the steps that do not count, and whether those that do are all warm-up or doubtful.
    """
    counts = pl.lit(value=True) if with_doubtful else pl.col("doubt").is_null()
    frames = [
        rank.windows.with_columns(
            pl.int_range(pl.len()).over("step").alias("occurrence"),
            (counts & ~pl.col("warmup")).alias("counts"),
        )
        for rank in ranks
    ]
    for key in (["step", "occurrence"], ["window"]):
        common = _in_all(frames, key)
        good = common
        for frame in frames:
            good = good.join(frame.filter("counts").select(key), on=key, how="semi", nulls_equal=True)
        chosen = common if good.is_empty() else good
        if not chosen.is_empty():
            windows = [
                chosen.join(frame, on=key, how="left", nulls_equal=True, maintain_order="left")
                for frame in frames
            ]
            return windows, _left_out(frames, key, chosen), good.is_empty()
    return [frame.clear() for frame in frames], _left_out(frames, ["window"]), False


def _left_out(frames: list[pl.DataFrame], key: list[str], chosen: pl.DataFrame | None = None) -> pl.DataFrame:
    """The steps that do not count, with the reason: `RunProfile.left_out`."""
    missing, warm_up = pl.col("ranks") < len(frames), pl.col("warmup")
    steps = (
        pl.concat(frames)
        .group_by(key, maintain_order=True)
        .agg(
            pl.col("step").first().alias("name"),
            pl.len().alias("ranks"),
            pl.col("warmup").any(),
            pl.col("doubt").drop_nulls().first(),
        )
    )
    if chosen is not None:
        steps = steps.join(chosen, on=key, how="anti", nulls_equal=True, maintain_order="left")
    reason = (
        pl.when(missing)
        .then(pl.lit(LeftOut.NOT_ON_ALL_RANKS.value))
        .when(warm_up)
        .then(pl.lit(LeftOut.WARM_UP.value))
        .otherwise(pl.lit(LeftOut.DOUBTFUL.value))
    )
    columns = (
        pl.lit(0).alias("capture"),
        pl.col("name").alias("step"),
        reason.alias("reason"),
        pl.col("doubt"),
    )
    found: pl.DataFrame = steps.select(columns)
    return found


def _in_all(frames: list[pl.DataFrame], key: list[str]) -> pl.DataFrame:
    common = frames[0].select(key) if frames else pl.DataFrame()
    for frame in frames[1:]:
        common = common.join(frame.select(key), on=key, how="semi", nulls_equal=True)
    return common


def _moved(frame: pl.DataFrame, number: pl.Series, windows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the windows that count, with their sample and the position's number in the run."""
    sample = windows.select("window").with_row_index("sample").cast({"sample": pl.Int64})
    found = frame.join(sample, on="window", how="inner", maintain_order="left").drop("window")
    position = found.get_column("position").to_numpy()
    of_run = np.r_[number.to_numpy(), -1].astype(np.int64)[position]
    return found.with_columns(pl.Series("position", of_run))
