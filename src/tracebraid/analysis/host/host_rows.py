"""The host events of a rank as arrays, a row for each of `host_tree`."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.analysis.device import COMPILING, event_columns
from tracebraid.analysis.flames import stack_paths
from tracebraid.analysis.host.host_trees import (
    Places,
    host_names,
    host_ops,
    lines_of_calls,
    places_of,
    with_forward,
)
from tracebraid.analysis.time.breakdown import Cover, cover_of
from tracebraid.model.capture_facts import GARBAGE
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import distinct_pairs
from tracebraid.model.rows import at_rows, nearest_rows
from tracebraid.model.step import is_step_name
from tracebraid.model.user_frame import (
    instance_of,
    is_framework_frame,
    is_line_frame,
    is_module_call,
    is_user_frame,
)

_Ints = NDArray[np.int64]

NO_ROW = -1
"""Stands for no host event."""

OPTIMIZER_STEP = r"^Optimizer\.step#"
"""Annotation that PyTorch makes around a step of an optimizer."""


class HostRows(Struct, frozen=True):
    """The host events, a row for each of `host_tree`.

    Args:
        event_id: the event of each row, rising.
        parent: row of the innermost event that encloses it; -1 for none.
        lane: its thread.
        start_ns: its start.
        end_ns: its end, cut at its parent's.
        depth: number of events that enclose it.
    """

    event_id: _Ints
    parent: _Ints
    lane: _Ints
    start_ns: _Ints
    end_ns: _Ints
    depth: _Ints

    def rows(self, events: _Ints) -> _Ints:
        """The rows of some events; -1 for those that are no host events with a row."""
        if not len(self.event_id):
            return np.full(len(events), NO_ROW, dtype=np.int64)
        rows = np.minimum(np.searchsorted(self.event_id, events), len(self.event_id) - 1)
        found: _Ints = np.where(self.event_id[rows] == events, rows, NO_ROW)
        return found


def host_rows(linked: LinkedTrace) -> HostRows:
    """The host events of a rank, kept with the linked trace."""
    return linked.derived(_host_rows)


def _host_rows(linked: LinkedTrace) -> HostRows:
    tree, events = linked.host_tree, linked.timeline.events
    event_id = tree.get_column("event_id").to_numpy()
    parents = tree.get_column("parent_event").fill_null(-1).to_numpy()
    start = events.get_column("ts_ns").to_numpy()[event_id]
    return HostRows(
        event_id,
        np.where(parents < 0, NO_ROW, np.searchsorted(event_id, parents)),
        events.get_column("lane").to_numpy()[event_id],
        start,
        start + tree.get_column("inclusive_ns").to_numpy(),
        tree.get_column("depth").to_numpy(),
    )


def events_of_rows(linked: LinkedTrace, rows: _Ints) -> pl.Series:
    """The events of some rows; null for -1."""
    return at_rows(linked.host_tree.get_column("event_id"), rows)


def names_of_rows(linked: LinkedTrace, rows: _Ints) -> pl.Series:
    """The names of the events of some rows, as categoricals; null for -1."""
    (names,) = event_columns(linked.timeline, events_of_rows(linked, rows), name="name")
    return names


def modules_of_rows(linked: LinkedTrace, rows: _Ints) -> pl.Series:
    """The modules of which some rows are calls, as categoricals, named as in `modules` (`Linear_0`); null for -1."""
    calls = names_of_rows(linked, rows)
    if calls.null_count() == len(calls):
        return calls
    names = calls.unique().drop_nulls()
    modules = pl.DataFrame({"call": names.cast(pl.String)}).select(instance_of(pl.col("call"))).to_series()
    named: pl.Series = calls.replace_strict(names, modules, default=None, return_dtype=calls.dtype)
    return named


class ThreadTimeline(Struct, frozen=True):
    """Timeline of a thread: the row of `HostRows` from each moment on.

    Args:
        moments: when that changed, rising, ns.
        rows: the innermost event from each moment to the next; -1 where there is none.
    """

    moments: _Ints
    rows: _Ints

    def at(self, moments: _Ints) -> _Ints:
        """The innermost event at each moment; -1 where there is none."""
        if not len(self.moments):
            return np.full(len(moments), NO_ROW, dtype=np.int64)
        index = np.searchsorted(self.moments, moments, side="right") - 1
        found: _Ints = np.where(index >= 0, self.rows[np.maximum(index, 0)], NO_ROW)
        return found

    def changes_within(self, starts: _Ints, ends: _Ints) -> tuple[_Ints, _Ints]:
        """The moments at which it changes inside intervals (start, end): the interval's index, and the moment."""
        first = np.searchsorted(self.moments, starts, side="right")
        count = np.maximum(np.searchsorted(self.moments, ends, side="left") - first, 0)
        index = np.repeat(np.arange(len(starts)), count)
        offset = np.arange(len(index)) - np.repeat(np.cumsum(count) - count, count)
        return index, self.moments[first[index] + offset]


def thread_timelines(linked: LinkedTrace) -> dict[int, ThreadTimeline]:
    """The timeline of each thread that has host events, by its lane."""
    return linked.derived(_thread_timelines)


def innermost_at(linked: LinkedTrace, lanes: _Ints, moments: _Ints) -> _Ints:
    """Return the row of the innermost host event at each moment of a thread; -1 if there is none."""
    rows = np.full(len(lanes), NO_ROW, dtype=np.int64)
    timelines = thread_timelines(linked)
    for lane, members in by_lane(lanes):
        if lane in timelines:
            rows[members] = timelines[lane].at(moments[members])
    return rows


def by_lane(lanes: _Ints) -> list[tuple[int, _Ints]]:
    """Each lane with the indices at which it stands."""
    order = np.argsort(lanes, kind="stable")
    bounds = np.flatnonzero(np.diff(lanes[order])) + 1
    return [(int(lanes[members[0]]), members) for members in np.split(order, bounds) if len(members)]


def _thread_timelines(linked: LinkedTrace) -> dict[int, ThreadTimeline]:
    """A thread is in an event from the start of its body, and in the event's parent from its end.

    An end that lies in the next event of the same parent changes nothing: siblings may overlap in damaged traces.
    """
    bodies = linked.host_tree.select("body_start_ns", "body_end_ns").to_numpy()
    host = replace(host_rows(linked), start_ns=bodies[:, 0], end_ns=bodies[:, 1])
    order = np.lexsort((host.event_id, host.depth, host.start_ns, host.lane))
    order = order[host.end_ns[order] > host.start_ns[order]]
    ending = order[~_ends_in_sibling(host, order)][::-1]
    lanes = np.r_[host.lane[ending], host.lane[order]]
    moments = np.r_[host.end_ns[ending], host.start_ns[order]]
    rows = np.r_[host.parent[ending], order]
    # Ends stand before starts, inner ends first and outer starts first: of equal moments the last counts.
    by_time = np.lexsort((moments, lanes))
    lanes, moments, rows = lanes[by_time], moments[by_time], rows[by_time]
    last = np.ones(len(lanes), dtype=np.bool_)
    last[:-1] = (moments[1:] != moments[:-1]) | (lanes[1:] != lanes[:-1])
    lanes, moments, rows = lanes[last], moments[last], rows[last]
    first = np.flatnonzero(np.r_[True, np.diff(lanes) != 0]) if len(lanes) else np.empty(0, dtype=np.int64)
    bounds = [*first.tolist(), len(lanes)]
    return {
        int(lanes[begin]): ThreadTimeline(moments[begin:end], rows[begin:end])
        for begin, end in pairwise(bounds)
    }


def _ends_in_sibling(host: HostRows, order: _Ints) -> NDArray[np.bool_]:
    """Return whether each row, in the order of threads and starts, ends after the next one of its parent has begun."""
    parent = np.where(host.parent[order] < 0, -1 - host.lane[order], host.parent[order])
    by_parent = np.argsort(parent, kind="stable")
    rows = order[by_parent]
    inside = np.zeros(len(order), dtype=np.bool_)
    inside[by_parent[:-1]] = (parent[by_parent][1:] == parent[by_parent][:-1]) & (
        host.start_ns[rows][1:] < host.end_ns[rows][:-1]
    )
    return inside


_RANGE_OP = r"#|^[^:]*\.[^:]*$"
"""Ops that are annotations in truth: `ProfilerStep#2`, `Optimizer.step#SGD.step`, `DistributedDataParallel.forward`."""


def by_rules(linked: LinkedTrace, rules: Callable[[pl.DataFrame], pl.DataFrame]) -> dict[str, NDArray[Any]]:
    """Conclusions of rules for each row of `host_tree`, by column."""
    distinct, codes = linked.derived(_distinct)
    return {column.name: column.to_numpy()[codes] for column in rules(distinct).get_columns()}


def kinds(linked: LinkedTrace) -> dict[str, NDArray[Any]]:
    """Flags of each row of `host_tree`.

    `is_op`; `is_annotation`, steps among them; `is_frame`, a Python function; `is_user_frame`; `is_module`, a call of
    an nn.Module. Until 2022 annotations were ops; they are recognised by name.
    """
    return linked.derived(_kinds)


def is_in_role(*roles: Role) -> pl.Expr:
    """Return whether the column `category`, as text, plays one of these roles."""
    return pl.col("category").is_in(categories_of(*roles))


def is_operator() -> pl.Expr:
    """Return whether the columns `name` and `category`, as text, are those of an op and not of an annotation."""
    return is_in_role(Role.OP) & ~pl.col("name").str.contains(_RANGE_OP)


def _kinds(linked: LinkedTrace) -> dict[str, NDArray[Any]]:
    return by_rules(linked, _rules)


def _rules(events: pl.DataFrame) -> pl.DataFrame:
    name, is_frame = pl.col("name"), is_in_role(Role.PYTHON)
    return events.select(
        is_operator().alias("is_op"),
        (is_in_role(Role.OP, Role.ANNOTATION) & ~is_operator()).alias("is_annotation"),
        is_frame.alias("is_frame"),
        (is_frame & is_user_frame(name)).alias("is_user_frame"),
        (is_frame & is_module_call(name)).alias("is_module"),
    )


def _distinct(linked: LinkedTrace) -> tuple[pl.DataFrame, NDArray[np.int64]]:
    """The distinct pairs, and for each row of `host_tree` the number of its pair."""
    names = host_names(linked)
    pairs, codes = distinct_pairs(names.get_column("name"), names.get_column("category"))
    return pairs.select(as_text("name", "category").fill_null("")), codes


class Surroundings(Struct, frozen=True):
    """For each row of `host_tree`, itself included: what encloses it on its thread. Rows; -1 where there is none.

    One extra row at the end, at index -1, represents no host event.

    Args:
        op: innermost op.
        top_op: outermost op.
        annotation: innermost annotation that is no step.
        module: innermost call of an nn.Module; of the backward pass that of the forward op.
        frame: innermost Python function of the user's (`model.user_frame`); where there is none, the innermost of all.
        place: the line in that function, as a number of `frame_places`.
    """

    op: _Ints
    top_op: _Ints
    annotation: _Ints
    module: _Ints
    frame: _Ints
    place: _Ints


def surroundings(linked: LinkedTrace) -> Surroundings:
    """Context of all host events, cached with the linked trace."""
    return linked.derived(_surroundings)


def nearest_or_none(linked: LinkedTrace, wanted: NDArray[Any]) -> _Ints:
    """For each row the nearest wanted row among itself and all that enclose it, -1 for none; and one more row, -1."""
    if not wanted.any():
        return np.full(len(wanted) + 1, NO_ROW, dtype=np.int64)
    found: _Ints = np.r_[nearest_rows(host_rows(linked).parent, wanted.astype(np.bool_)), NO_ROW]
    return found


def _surroundings(linked: LinkedTrace) -> Surroundings:
    found = kinds(linked)
    step = by_rules(
        linked, lambda names: names.select(is_step_name(pl.col("name"), linked.annotation).alias("is_step"))
    )
    op = nearest_or_none(linked, found["is_op"])
    module = nearest_or_none(linked, found["is_module"])
    if found["is_module"].any():
        module = np.r_[with_forward(linked, module[:-1]), NO_ROW]
    return Surroundings(
        op,
        # The op that the parent of no op lies in.
        nearest_or_none(linked, found["is_op"] & (op[host_rows(linked).parent] < 0)),
        # A function may go on behind an annotation in which it began.
        np.r_[host_ops(linked).nearest(found["is_annotation"] & ~step["is_step"]), NO_ROW],
        module,
        _frames(linked),
        np.r_[frame_places(linked).number, NO_ROW],
    )


def _frames(linked: LinkedTrace) -> _Ints:
    user, every = (nearest_or_none(linked, kinds(linked)[of]) for of in ("is_user_frame", "is_frame"))
    found: _Ints = np.where(user >= 0, user, every)
    return found


def frame_places(linked: LinkedTrace) -> Places:
    """The line of a user's function in which each row of `host_tree` is; else of the innermost function of all."""
    return linked.derived(_frame_places)


def _frame_places(linked: LinkedTrace) -> Places:
    return places_of(linked, _frames(linked)[:-1])


def names_of_places(linked: LinkedTrace, numbers: _Ints) -> pl.Series:
    """The names of some places, by their numbers, as categoricals; null for -1."""
    names = frame_places(linked).names.cast(pl.Categorical())
    return at_rows(names, numbers)


BETWEEN_FRAMES = " > "
"""Between two functions, the outer one first."""


def user_frames(linked: LinkedTrace) -> pl.Series:
    """The user's functions around each row of `host_tree`, itself included, the outermost first; null: none.

    A function that calls itself directly stands once. On a thread without functions it is null.
    """
    return linked.derived(_user_frames)


def _user_frames(linked: LinkedTrace) -> pl.Series:
    host, is_user = host_rows(linked), kinds(linked)["is_user_frame"]
    frame = nearest_or_none(linked, is_user)
    rows = np.flatnonzero(is_user)
    if not len(rows):
        return pl.Series("frames", [None] * len(host.event_id), dtype=pl.Categorical())
    number = np.full(len(frame), NO_ROW, dtype=np.int64)
    number[rows] = np.arange(len(rows))
    names = names_of_rows(linked, rows).cast(pl.String)
    distinct = names.unique(maintain_order=True)
    codes = pl.DataFrame({"name": names}).join(
        pl.DataFrame({"name": distinct}).with_row_index("code"), on="name", how="left", maintain_order="left"
    )
    parents = number[frame[host.parent[rows]]]
    paths = stack_paths(parents, codes.get_column("code").to_numpy().astype(np.int64))
    texts: list[str] = []
    of_name = distinct.to_list()
    for parent, name in zip(paths.parent.tolist(), paths.name.tolist(), strict=True):
        own = of_name[name]
        outer = texts[parent] if parent >= 0 else ""
        repeats = outer == own or outer.endswith(BETWEEN_FRAMES + own)
        texts.append(outer if repeats else f"{outer}{BETWEEN_FRAMES}{own}" if outer else own)
    table = pl.Series("frames", texts, dtype=pl.String).cast(pl.Categorical())
    path = np.r_[paths.path, NO_ROW][number[frame[:-1]]]
    return at_rows(table, path)


def user_lines(linked: LinkedTrace) -> pl.Series:
    """The line in the innermost of `user_frames` that calls what leads to each row; null: unknown."""
    lines = lines_of_calls(linked, nearest_or_none(linked, kinds(linked)["is_user_frame"])[:-1])
    return pl.Series("line", lines).set(pl.Series(lines < 0), None)


class HostWork(Enum):
    """Host work other than launching and computing."""

    LOADS = "loads data"
    RECORDS = "records"
    COMPILES = "compiles"
    COLLECTS_GARBAGE = "collects garbage"
    SLEEPS = "sleeps"
    WAITS_FOR_LOCK = "waits for a lock"
    USES_FILES = "reads or writes files"
    COPIES_OBJECTS = "copies objects"
    PYTHON = "runs Python"
    """User functions outside all of the above; by stacks only."""


NAMED_WORK = (HostWork.LOADS, HostWork.RECORDS, HostWork.COMPILES)
"""Work that ends a delay of another kind: each has a detector of its own."""

_LOADER = r"^enumerate\(DataLoader\)#.*__next__$"
_LOADER_FRAMES = r"(^|/)torch/utils/data/dataloader\.py\(\d+\): __next__$"
_RECORDING = (
    r"(?i)(^|[^a-z])(log|logs|logging|log_\w+|metrics?|\w*metrics_\w+|print|tensorboard|wandb|mlflow"
    r"|save|saving|save_checkpoint|checkpoint_save|write_checkpoint)([^a-z]|$)"
)
"""Annotations; `checkpoint` alone is that of activations."""
_RECORDING_FRAMES = (
    r"^<built-in (function|method) print|(^|/)torch/serialization\.py\(\d+\): save$"
    r"|(^|/)torch/distributed/checkpoint/.*: (save|async_save|save_state_dict)$|(^|/)safetensors/.*: save\w*$"
    r"|(^|/)(torch/utils/tensorboard|tensorboardX)/.*: add_\w+$|(^|/)wandb/.*: log$|(^|/)mlflow/.*: log_\w+$"
    r"|(^|/)logging/__init__\.py\(\d+\): (debug|info|warning|error|critical|exception|log)$"
    r"|(^|/)torch/_tensor_str\.py\(\d+\): _str$"
    r"|(^|/)tqdm/.*: (update|set_postfix|set_description|refresh|write)$"
    r"|(^|/)(torchmetrics|torcheval|evaluate)/.*: (forward|update|compute|add|add_batch)$"
)
_FRAMES = {
    HostWork.COLLECTS_GARBAGE: r"^<built-in function collect>$",
    HostWork.SLEEPS: r"^<built-in function sleep>$",
    HostWork.WAITS_FOR_LOCK: r"^<built-in method (acquire|__enter__) of _thread\.(lock|RLock)",
    HostWork.USES_FILES: r"^<built-in function (fsync|fdatasync|sync|sendfile|open)>$"
    r"|^<built-in method (read|readinto|readline|write|flush) of _io\.",
    HostWork.COPIES_OBJECTS: r"(^|/)copy\.py\(\d+\): deepcopy$",
}


def ranges_of(linked: LinkedTrace, work: HostWork) -> pl.DataFrame:
    """The outermost stretches of some work.

    `start_ns`, `end_ns`, `event_id`, `op` (its name), in the order of starts.
    """
    return linked.derived(_ranges, work)


def all_ranges(linked: LinkedTrace) -> Cover:
    """The moments in which some thread of the host loads data, records or compiles."""
    found = pl.concat([ranges_of(linked, work) for work in NAMED_WORK])
    return cover_of(*(found.get_column(name).to_numpy() for name in ("start_ns", "end_ns")))


def host_work(linked: LinkedTrace) -> pl.Series:
    """Host work in each row of `host_tree`, as `HostWork`; null: it computes, launches or calls.

    The outermost event that names some work decides. Where none does, the innermost Python function with a line does:
    one of PyTorch's is no work of its own.
    """
    return linked.derived(_host_work)


def _host_work(linked: LinkedTrace) -> pl.Series:
    host = host_rows(linked)
    found = np.full(len(host.event_id), -1, dtype=np.int64)
    outermost = np.full(len(host.event_id), np.iinfo(np.int64).max)
    for code, work in enumerate(HostWork):
        if work is HostWork.PYTHON:
            continue
        wanted = _wanted(linked, work)
        inside = nearest_or_none(linked, wanted)
        if not wanted.any():
            continue
        first = nearest_or_none(linked, wanted & (inside[host.parent] == NO_ROW))[:-1]
        depth = np.where(first >= 0, host.depth[first], np.iinfo(np.int64).max)
        found[depth < outermost] = code
        outermost = np.minimum(depth, outermost)
    flags = by_rules(
        linked,
        lambda names: names.select(
            _rule(HostWork.PYTHON).alias("python"),
            (is_in_role(Role.PYTHON) & is_line_frame(pl.col("name"))).alias("line"),
            (is_in_role(Role.OP)).alias("op"),
        ),
    )
    line = nearest_or_none(linked, flags["line"])[:-1]
    in_python = (line >= 0) & flags["python"][line] & (nearest_or_none(linked, flags["op"])[:-1] == NO_ROW)
    found[(found < 0) & in_python] = list(HostWork).index(HostWork.PYTHON)
    codes = pl.Series([work.value for work in HostWork], dtype=pl.Categorical())
    return at_rows(codes, found).alias("host_work")


def _wanted(linked: LinkedTrace, work: HostWork) -> NDArray[np.bool_]:
    """Return whether the name of each row of `host_tree` is that of some work."""
    found: NDArray[np.bool_] = by_rules(linked, lambda names: names.select(_rule(work).alias("wanted")))[
        "wanted"
    ]
    return found


def _ranges(linked: LinkedTrace, work: HostWork) -> pl.DataFrame:
    wanted = _wanted(linked, work)
    host = host_rows(linked)
    enclosing = nearest_or_none(linked, wanted)
    rows = np.flatnonzero(wanted & (enclosing[host.parent] == NO_ROW))
    rows = rows[np.argsort(host.start_ns[rows], kind="stable")]
    return pl.DataFrame(
        {
            "start_ns": host.start_ns[rows],
            "end_ns": host.end_ns[rows],
            "event_id": host.event_id[rows],
            "op": names_of_rows(linked, rows).cast(pl.String),
        }
    )


def _rule(work: HostWork) -> pl.Expr:
    name = pl.col("name")
    named, frame = is_in_role(Role.OP, Role.ANNOTATION), is_in_role(Role.PYTHON)
    if work is HostWork.LOADS:
        return (named & name.str.contains(_LOADER)) | (frame & name.str.contains(_LOADER_FRAMES))
    if work is HostWork.RECORDS:
        annotation = is_in_role(Role.ANNOTATION) & name.str.contains(_RECORDING)
        return annotation | (frame & name.str.contains(_RECORDING_FRAMES))
    if work is HostWork.COMPILES:
        return (named | frame) & name.str.contains(COMPILING)
    if work is HostWork.PYTHON:
        return frame & is_line_frame(name) & ~is_framework_frame(name)
    if work is HostWork.COLLECTS_GARBAGE:
        return (named & name.str.starts_with(GARBAGE)) | (frame & name.str.contains(_FRAMES[work]))
    return frame & name.str.contains(_FRAMES[work])
