"""Host functions on the critical path that neither compute nor launch, and for which the step waits."""

from __future__ import annotations

from functools import partial

import polars as pl
from msgspec import Struct, field

from tracebraid.analysis.host.host_rows import BETWEEN_FRAMES, HostWork
from tracebraid.analysis.time.idle.idle_parts import MACRO_NS
from tracebraid.model.answers.graph import SegmentKind
from tracebraid.model.answers.job import EVIDENCE
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import ActivityKind, DependencyGraph, EdgeKind
from tracebraid.model.questions import PathDetector, Removal
from tracebraid.model.step import is_step_name
from tracebraid.model.user_frame import at_line, without_object

_HOST_KINDS = [
    kind.value for kind in (ActivityKind.OP, ActivityKind.ANNOTATION, ActivityKind.CALL, ActivityKind.PYTHON)
]
_PURE = 0.7
"""Share of a function's time on the path from which it is host work as a whole; else its callees are."""
_NEARLY_ALL = 0.8
"""Share of the caller's time from which a callee replaces it."""
_MOSTLY = 0.4
"""A function is named if so much of what is computed is in it."""
_NEARLY_WHOLE = 0.9
"""A function in which so much of the path lies is the step itself: no change removes it."""
_NAMED = 0.1
"""Minimum share of a function's host work for a call, or for work of its own, to be named."""
_MOST_NAMED = 3
_ATEN = "aten::"
_MOST_OF_NAME = 0.5
_LEAST_SHARE = 0.002
"""Functions that take less of the path are no cause of their own."""


class _Function(Struct):
    """A function of the user in the tree of calls: its time on the path.

    Args:
        frame: its name: `file(line): function`.
        path: the functions around it and its own, as `frames` has them.
        host_ns: host work on the path, including callees.
        all_ns: all of the path in it.
        calls: the functions that it calls.
    """

    frame: str
    path: str
    host_ns: int = 0
    all_ns: int = 0
    calls: dict[str, _Function] = field(default_factory=dict)


class _Site(Struct, frozen=True):
    """Location of host work.

    Args:
        call_site: the function, at the line that it calls from if that is known; "": unknown.
        path: the functions around it; "": of all.
        subject: the callee, or the work.
    """

    call_site: str
    path: str
    subject: str


def _detected(graph: DependencyGraph, segments: pl.DataFrame, work: HostWork) -> pl.DataFrame:
    """All calls in which some work is done, on all ranks, where any of it is on a path."""
    on_path = segments.filter(as_text("host_work") == work.value)
    total = int(segments.get_column("duration_ns").sum())
    if on_path.get_column("duration_ns").sum() <= _LEAST_SHARE * total:
        return EVIDENCE.empty()
    root = _tree(on_path, segments)
    function = _narrowed(root)
    subject = ", ".join(_named(function)) or _largest(on_path)
    site = _Site(_at_line(graph, function.path, on_path), function.path, subject)
    rows = graph.activities.filter(as_text("host_work") == work.value)
    return _evidence(graph, rows, site, segments)


def _host_work(graph: DependencyGraph, segments: pl.DataFrame) -> pl.DataFrame:
    """All calls of functions that are host work on the path, on all ranks; each function by itself."""
    works = [work.value for work in _GENERAL]
    on_path = segments.filter(as_text("host_work").is_in(works))
    least = _LEAST_SHARE * int(segments.get_column("duration_ns").sum())
    found = [_outside_of_ops(graph, segments)]
    activities = graph.activities.filter(as_text("kind").is_in(_HOST_KINDS))
    frames = as_text("frames")
    found += _of_other_threads(graph, on_path, segments, least)
    root = _tree(on_path, segments)
    most = _NEARLY_WHOLE * root.all_ns
    for function in _whole(root, least, most):
        if function.all_ns > most:
            found += _of_its_own(graph, function, on_path, segments)
            continue
        inside = (frames == function.path) | frames.str.starts_with(function.path + BETWEEN_FRAMES)
        rows = activities.filter(inside.fill_null(value=False))
        of_path = on_path.filter(inside.fill_null(value=False))
        what = _done(of_path) or ", ".join(_named(function)) or _largest(of_path)
        site = _Site(_at_line(graph, function.path, of_path), function.path, what)
        found.append(_evidence(graph, rows, site, segments))
    return pl.concat(found)


def _host_ops(graph: DependencyGraph, segments: pl.DataFrame) -> pl.DataFrame:
    """Long ATen ops on the path of ranks with a device that call nothing, so that they compute on the host themselves.

    Ops of a name count where long ones take most of its time: a short one may be held up once in a while.
    """
    kind, activities = as_text("kind"), graph.activities
    before, after = (graph.moments.activity[moments] for moments in (graph.edges.before, graph.after))
    alone = pl.Series(before[(before == after) & (graph.edges.kind == EdgeKind.HOST)]).unique().sort()
    with_device = activities.filter(pl.col("stream").is_not_null()).get_column("rank").unique().drop_nulls()
    long = pl.col("end_ns") - pl.col("start_ns")
    ops = (
        activities[alone]
        .filter(
            (kind == ActivityKind.OP.value)
            & as_text("name").str.starts_with(_ATEN)
            & pl.col("rank").is_in(with_device.implode())
        )
        .with_columns(long.sum().over("name").alias("of_name_ns"))
        .filter(long >= MACRO_NS)
        .filter(long.sum().over("name") > _MOST_OF_NAME * pl.col("of_name_ns"))
        .drop("of_name_ns")
    )
    on_path = segments.filter(kind == SegmentKind.HOST_OP.value).join(
        ops, on=["rank", "event_id"], how="semi", maintain_order="left"
    )
    least = _LEAST_SHARE * int(segments.get_column("duration_ns").sum())
    named = on_path.group_by(as_text("name").alias("name")).agg(
        pl.col("duration_ns").sum(), as_text("frames").drop_nulls().mode().sort().first().alias("frames")
    )
    found = [EVIDENCE.empty()]
    for name, frames in (
        named.filter(pl.col("duration_ns") > least).sort("name").select("name", "frames").iter_rows()
    ):
        of_name = on_path.filter(as_text("name") == name)
        site = _Site(_at_line(graph, frames or "", of_name), frames or "", "")
        found.append(_evidence(graph, ops.filter(as_text("name") == name), site, segments))
    return pl.concat(found)


def _of_other_threads(
    graph: DependencyGraph, on_path: pl.DataFrame, segments: pl.DataFrame, least: float
) -> list[pl.DataFrame]:
    """Host work on the path of threads without recorded frames, by activity.

    The path goes over such a thread where another one waits for it: that one's function is where it is.
    """
    waiting = (
        segments.sort("start_ns")
        .with_columns(
            as_text("frames").shift(-1).backward_fill().over("step").alias("waiting"),
            as_text("host_work").alias("host_work"),
        )
        .filter(pl.col("frames").is_null() & pl.col("host_work").is_in([work.value for work in _GENERAL]))
    )
    things = waiting.group_by("host_work", as_text("name").alias("name")).agg(
        pl.col("duration_ns").sum(), pl.col("waiting").drop_nulls().mode().sort().first()
    )
    found = []
    for work, name, covered_ns, frames in things.sort("host_work", "name").iter_rows():
        if covered_ns <= least or name is None:
            continue
        rows = graph.activities.filter(
            (as_text("host_work") == work) & (as_text("name") == name) & pl.col("frames").is_null()
        )
        site = _Site(
            (frames or "").rpartition(BETWEEN_FRAMES)[2], frames or "", f"another thread {work}: {name}"
        )
        found.append(_evidence(graph, rows, site, segments))
    return found


def _of_its_own(
    graph: DependencyGraph, function: _Function, on_path: pl.DataFrame, segments: pl.DataFrame
) -> list[pl.DataFrame]:
    """Host work of a function between the ops, launches and functions of the user that it calls, by kind of work."""
    of_path = on_path.filter(as_text("frames") == function.path)
    kinds = of_path.group_by(as_text("host_work").alias("host_work")).agg(pl.col("duration_ns").sum())
    own = graph.activities.select(as_text("frames").eq_missing(function.path)).to_series().to_numpy()
    host = (graph.edges.kind == EdgeKind.HOST) & own[graph.edges.activity]
    times = graph.moments.time_ns
    stretches = graph.activities[graph.edges.activity[host]].with_columns(
        pl.Series("start_ns", times[graph.edges.before[host]]), pl.Series("end_ns", times[graph.after[host]])
    )
    found = []
    for work, covered_ns in kinds.sort("host_work").iter_rows():
        if covered_ns >= _NAMED * function.host_ns:
            rows, of_work = (each.filter(as_text("host_work") == work) for each in (stretches, of_path))
            what = _done(of_work) or _largest(of_work)
            site = _Site(_at_line(graph, function.path, of_work), function.path, what)
            found.append(_evidence(graph, rows, site, segments))
    return found


def _outside_of_ops(graph: DependencyGraph, segments: pl.DataFrame) -> pl.DataFrame:
    """Time of the path in which a thread is in no op, call or function, with the ops before and after.

    Only long stretches count: there is always some Python between two ops. A step of which nothing is recorded is no
    evidence. A mark of a step that is left out divides no stretch.
    """
    kind = as_text("kind")
    host = [SegmentKind.HOST_OP, SegmentKind.CALL, SegmentKind.PYTHON, SegmentKind.ANNOTATION]
    named = pl.when(kind.is_in([SegmentKind.HOST_OP.value, SegmentKind.CALL.value])).then(as_text("name"))
    of_lane = ("step", "rank", "lane")
    placed = (
        segments.filter(kind.is_in([*(each.value for each in host), SegmentKind.THREAD.value]))
        .with_columns(named.alias("named"))
        .with_columns(
            pl.col("named").shift(1).forward_fill().over(of_lane).alias("before"),
            pl.col("named").shift(-1).backward_fill().over(of_lane).alias("after"),
            pl.coalesce(
                "event_id",
                pl.col("event_id").shift(-1).backward_fill().over(of_lane),
                pl.col("event_id").shift(1).forward_fill().over(of_lane),
            ).alias("event_id"),
        )
    )
    alone = kind.is_in([SegmentKind.ANNOTATION.value, SegmentKind.THREAD.value])
    bare = placed.filter(alone & pl.col("frames").is_null() & pl.col("host_work").is_null())
    steps = graph.steps.get_column("step").cast(pl.String).unique().drop_nulls()
    left_out = is_step_name(as_text("name")) & ~as_text("name").is_in(steps.implode())
    goes_on = (
        (left_out | left_out.shift(1))
        & pl.all_horizontal(
            as_text(name).eq_missing(as_text(name).shift(1)) for name in ("step", "annotation")
        )
        & pl.all_horizontal(pl.col(name) == pl.col(name).shift(1) for name in ("rank", "lane"))
        & (pl.col("start_ns") == (pl.col("start_ns") + pl.col("duration_ns")).shift(1))
    )
    whole = bare.group_by(
        (~goes_on.fill_null(value=False)).cum_sum().alias("stretch"), maintain_order=True
    ).agg(
        pl.col("step", "rank", "start_ns", "before", "event_id", "annotation").first(),
        pl.col("duration_ns").sum(),
        pl.col("after").last(),
    )
    long = whole.filter(
        (pl.col("duration_ns") >= MACRO_NS)
        & pl.col("event_id").is_not_null()
        & pl.any_horizontal(pl.col("before", "after", "annotation").is_not_null())
    )
    found = long.with_columns((pl.col("start_ns") + pl.col("duration_ns")).alias("end_ns"))
    found = graph.ranks.unaligned(found, "start_ns", "end_ns").select(
        "rank",
        as_text("step"),
        "start_ns",
        "end_ns",
        pl.col("duration_ns").alias("saving_ns"),
        "event_id",
        as_text("annotation").alias("op"),
        pl.format(
            "between {} and {} (capture with stacks to see the function)",
            pl.col("before").fill_null("the start"),
            pl.col("after").fill_null("the end"),
        ).alias("subject"),
    )
    return EVIDENCE.conform(found.sort("rank", "start_ns", "event_id"), fill_missing=True)


def _tree(on_path: pl.DataFrame, segments: pl.DataFrame) -> _Function:
    """The functions around host work, and around all of the path, as a tree of calls."""
    root = _Function("", "")
    for rows, is_host in ((segments, False), (on_path, True)):
        by_frames = rows.group_by(as_text("frames").fill_null("").alias("frames")).agg(
            pl.col("duration_ns").sum()
        )
        for frames, ns in by_frames.sort("frames").iter_rows():
            function = root
            for frame in [None, *filter(None, frames.split(BETWEEN_FRAMES))]:
                if frame is not None:
                    path = function.path + BETWEEN_FRAMES + frame if function.path else frame
                    function = function.calls.setdefault(frame, _Function(frame, path))
                if is_host:
                    function.host_ns += ns
                else:
                    function.all_ns += ns
    return root


def _whole(function: _Function, least: float, most: float) -> list[_Function]:
    """The functions that are host work as a whole; of one that takes more than `most` also those that it calls."""
    if function.host_ns <= least:
        return []
    pure = bool(function.frame) and function.host_ns >= _PURE * function.all_ns
    if pure and function.all_ns <= most:
        return [_narrowed(function)]
    called = [found for each in function.calls.values() for found in _whole(each, least, most)]
    return [function, *called] if pure else called


def _narrowed(function: _Function) -> _Function:
    """The innermost function that takes nearly all of the time."""
    for called in function.calls.values():
        if called.host_ns >= _NEARLY_ALL * function.host_ns:
            return _narrowed(called)
    return function


def _at_line(graph: DependencyGraph, path: str, on_path: pl.DataFrame) -> str:
    """The last function of a path, at the line in it that most of the time on the critical path is called from."""
    function = path.rpartition(BETWEEN_FRAMES)[2]
    most = _MOST_OF_NAME * int(on_path.get_column("duration_ns").sum())
    lines = (
        on_path.filter(as_text("frames") == path)
        .join(graph.activities.select("rank", "event_id", "line"), on=["rank", "event_id"])
        .drop_nulls("line")
        .group_by("line")
        .agg(pl.col("duration_ns").sum())
        .filter(pl.col("duration_ns") > most)
    )
    return function if lines.is_empty() else at_line(function, lines.item(0, "line"))


def compute_function(graph: DependencyGraph, segments: pl.DataFrame) -> tuple[str, float] | None:
    """The innermost function of the user's in which much of the path's computing lies, and its share of the path.

    None: there is none, or nearly all of the path is in it, so that it says nothing.
    """
    with_device = (
        graph.activities.filter(pl.col("stream").is_not_null()).get_column("rank").unique().drop_nulls()
    )
    kind = as_text("kind")
    of_host = (kind == SegmentKind.HOST_OP.value) & ~pl.col("rank").is_in(with_device.implode())
    root = _tree(segments.filter((kind == SegmentKind.KERNEL.value) | of_host), segments)
    function = root
    while True:
        called = max(function.calls.values(), key=lambda each: (each.host_ns, each.frame), default=None)
        if called is None or called.host_ns < _MOSTLY * root.host_ns:
            break
        function = called
    if not function.frame or function.all_ns > _NEARLY_WHOLE * root.all_ns:
        return None
    return function.frame, function.host_ns / max(root.all_ns, 1)


def _named(function: _Function) -> list[str]:
    """The functions that take most of the time of one that calls them."""
    calls = sorted(function.calls.values(), key=lambda called: (-called.host_ns, called.frame))
    shown = [called for called in calls if called.host_ns >= _NAMED * max(function.host_ns, 1)]
    return [called.frame.rpartition(": ")[2] for called in shown[:_MOST_NAMED]]


def _done(on_path: pl.DataFrame) -> str:
    """Main activity, such as sleeping; "": running Python."""
    by_work = on_path.group_by(as_text("host_work")).agg(pl.col("duration_ns").sum())
    first = by_work.sort("duration_ns", "host_work", descending=[True, False]).row(0)
    if first[0] == HostWork.PYTHON.value:
        return ""
    if first[0] == HostWork.COPIES_OBJECTS.value:
        return f"{first[0]}: copy.deepcopy"
    return f"{first[0]}: {_largest(on_path.filter(as_text('host_work') == first[0]))}"


def _largest(on_path: pl.DataFrame) -> str:
    """The name of the event, other than a step's mark, that takes most of the path; "": there is none."""
    named = on_path.filter(~is_step_name(as_text("name")))
    by_name = named.group_by(as_text("name").alias("name")).agg(pl.col("duration_ns").sum())
    found = by_name.sort("duration_ns", "name", descending=[True, False]).get_column("name").drop_nulls()
    return str(found[0]) if len(found) else ""


def _evidence(
    graph: DependencyGraph, rows: pl.DataFrame, site: _Site, segments: pl.DataFrame
) -> pl.DataFrame:
    """The outermost of some host events, each as an occurrence that saves all of its time."""
    rows = rows.filter(pl.col("event_id").is_not_null()).sort(
        "rank",
        "lane",
        "start_ns",
        pl.col("end_ns"),
        descending=[False, False, False, True],
        maintain_order=True,
    )
    reach = pl.col("end_ns").cum_max().shift(1).over("rank", "lane")
    outermost = rows.filter((pl.col("start_ns") >= reach).fill_null(value=True))
    found = graph.ranks.unaligned(outermost, "start_ns", "end_ns").select(
        "rank",
        "step",
        "start_ns",
        "end_ns",
        (pl.col("end_ns") - pl.col("start_ns")).alias("saving_ns"),
        "event_id",
        as_text("op").alias("op"),
        pl.lit(site.call_site or None, dtype=pl.String).alias("call_site"),
        without_object(pl.lit(site.subject or None, dtype=pl.String)).alias("subject"),
    )
    return EVIDENCE.conform(found.sort("rank", "start_ns", "event_id"), fill_missing=True)


_GENERAL = (
    HostWork.SLEEPS,
    HostWork.WAITS_FOR_LOCK,
    HostWork.USES_FILES,
    HostWork.COPIES_OBJECTS,
    HostWork.PYTHON,
)
"""Work that is identified by its function."""


def _of(work: HostWork, name: str, title: str, change: str, removes: Removal) -> PathDetector:
    detect = partial(_detected, work=work)
    return PathDetector(name, title, change, detect, removes=removes)


_DETECTORS = (
    _of(
        HostWork.LOADS,
        "data-loader",
        "the step waits for the next batch",
        "Give the DataLoader more workers (num_workers, prefetch_factor, persistent_workers=True), set "
        "pin_memory=True, and do less work per sample",
        removes=Removal.HOST,
    ),
    _of(
        HostWork.RECORDS,
        "recording",
        "the step saves, logs, prints or computes metrics",
        "Do this every few hundred steps, after the step or in another thread "
        "(torch.distributed.checkpoint.async_save), with values that are already on the host",
        removes=Removal.CODE,
    ),
    _of(
        HostWork.COLLECTS_GARBAGE,
        "garbage-collection",
        "garbage collection runs in the step",
        "Call gc.freeze() once the model is built, and collect every few hundred steps, on all ranks in the same "
        "step: gc.disable(), then gc.collect()",
        removes=Removal.HOST,
    ),
    PathDetector(
        "host-op",
        "the step waits for an op that computes on the host",
        "Make the tensor on the device (randn, arange or zeros with device=), or move what it is made of there first; "
        "what has to stay on the host belongs into DataLoader workers",
        _host_ops,
        apart=("op", "call_site"),
        removes=Removal.HOST,
    ),
    PathDetector(
        "host-work",
        "the step waits for Python code on the host",
        "Compute it once before the steps, in DataLoader workers, or in a thread while the device is busy",
        _host_work,
        apart=("call_site",),
        generality=1,
        removes=Removal.HOST,
    ),
)
