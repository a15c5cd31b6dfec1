"""Time by annotation."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.analysis.answering import StepOptions, answer, by_start
from tracebraid.analysis.host.host_trees import host_names, host_ops
from tracebraid.analysis.ops.op_times import host_times, launched, launched_by_rows
from tracebraid.analysis.statistics import extremes, max_of, mean_of, min_of, spread
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.analysis import Family, Need, OnPage, Rows, Stored, analysis
from tracebraid.model.answers import DOUBTFUL, RANK, STEP_OF_LAUNCH
from tracebraid.model.answers.ops import USER_ANNOTATIONS
from tracebraid.model.category import Role, categories_of
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.op_tree import OpTree
from tracebraid.model.rows import nearest_ancestors
from tracebraid.model.step import is_step_name


def busy_times(work: pl.DataFrame, key: str) -> pl.DataFrame:
    """`device_busy_ns` by a key: the length of the union of the group's intervals on each device, added up."""
    number = pl.col("device").rank("dense").alias("number")
    reach = pl.col("end_ns").cum_max().shift(1).over(key, "number")
    busy = pl.col("end_ns") - pl.max_horizontal("ts_ns", reach)
    return (
        work.select(key, number, "ts_ns", (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"))
        .sort("ts_ns")
        .with_columns(pl.max_horizontal(busy, 0).alias("device_busy_ns"))
        .group_by(key)
        .agg(pl.col("device_busy_ns").sum())
    )


_Ints = NDArray[np.int64]
_NONE = -1
_OPEN = -2


class Paths(Struct, frozen=True):
    """Paths, each by a number that is greater than that of the path it extends.

    Args:
        path: for each mark the number of its path; -1: none.
        parent: for each path the one that it extends by a name; -1: none.
        name: for each path the number of its last name.
    """

    path: _Ints
    parent: _Ints
    name: _Ints

    @property
    def depth(self) -> _Ints:
        """For each path how many others it extends."""
        depth = np.zeros(len(self.parent), dtype=np.int64)
        for number, parent in enumerate(self.parent.tolist()):
            if parent >= 0:
                depth[number] = depth[parent] + 1
        return depth

    def texts(self, names: list[str], separator: str) -> list[str]:
        """Each path as text."""
        texts: list[str] = []
        for parent, name in zip(self.parent.tolist(), self.name.tolist(), strict=True):
            texts.append(names[name] if parent < 0 else texts[parent] + separator + names[name])
        return texts

    def ancestors(self) -> pl.DataFrame:
        """A row for each path and each that it extends, itself included: `path`, `ancestor`."""
        path = ancestor = np.arange(len(self.parent), dtype=np.int64)
        paths, ancestors = [path], [ancestor]
        while len(path):
            above = self.parent[ancestor]
            path, ancestor = path[above >= 0], above[above >= 0]
            paths.append(path)
            ancestors.append(ancestor)
        return pl.DataFrame({"path": np.concatenate(paths), "ancestor": np.concatenate(ancestors)})

    def walk(self, first: _Ints) -> list[int]:
        """The paths as a walk through their tree: each before those that extend it, siblings by `first`."""
        inside: dict[int, list[int]] = {}
        for path in sorted(range(len(self.parent)), key=lambda path: (-int(first[path]), -path)):
            inside.setdefault(int(self.parent[path]), []).append(path)
        found, left = [], inside.get(_NONE, [])
        while left:
            path = left.pop()
            found.append(path)
            left.extend(inside.get(path, []))
        return found


def paths_of(inside: _Ints, names: _Ints) -> Paths:
    """The path of each mark: that of the mark that it is in, extended by its name.

    Marks are resolved in rounds, each those whose outer mark is resolved: as many rounds as marks nest.
    """
    path = np.full(len(inside), _OPEN, dtype=np.int64)
    number_of: dict[tuple[int, int], int] = {}
    left = np.arange(len(inside))
    while len(left):
        outer = inside[left]
        base = np.where(outer < 0, _NONE, path[np.maximum(outer, 0)])
        ready = base != _OPEN
        if not ready.any():
            break
        marks, base, name = left[ready], base[ready], names[left[ready]]
        path[marks] = _extended(base, name, number_of)
        left = left[~ready]
    path[path == _OPEN] = _NONE
    keys = np.array(list(number_of), dtype=np.int64).reshape(-1, 2)
    return Paths(path, keys[:, 0], keys[:, 1])


def _extended(base: _Ints, name: _Ints, number_of: dict[tuple[int, int], int]) -> _Ints:
    """The number of each (path, name): new ones get the next numbers, in the order in which they are met."""
    if not len(base):
        return base
    width = int(name.max()) + 2
    keys, first, which = np.unique((base + 1) * width + name + 1, return_index=True, return_inverse=True)
    numbers = np.empty(len(keys), dtype=np.int64)
    for i in np.argsort(first, kind="stable").tolist():
        row = first[i]
        pair = int(base[row]), int(name[row])
        numbers[i] = base[row] if pair[1] < 0 else number_of.setdefault(pair, len(number_of))
    extended: _Ints = numbers[which]
    return extended


_SEPARATOR = " > "
"""Between the names of nested annotations."""


class AnnotationTree(Struct, frozen=True):
    """The host events with what encloses them, across threads where a backward pass runs on a thread of its own.

    Args:
        tree: the rows of `host_tree`. What lies in no op on a thread of autograd is in the annotation that is open
            meanwhile on the thread of the forward pass: the call of `backward` waits there.
        on_thread: the same tree by threads alone.
        is_annotation: whether each row is an annotation.
    """

    tree: OpTree
    on_thread: OpTree
    is_annotation: NDArray[np.bool_]


def annotation_tree(linked: LinkedTrace) -> AnnotationTree:
    """The annotations of a rank as a tree, kept with the linked trace."""
    return linked.derived(_annotation_tree)


def _annotation_tree(linked: LinkedTrace) -> AnnotationTree:
    on_thread = host_ops(linked)
    names = host_names(linked)
    is_annotation = (
        names.select(as_text("category").is_in(categories_of(Role.ANNOTATION)).fill_null(value=False))
        .to_series()
        .to_numpy()
    )
    return AnnotationTree(_across_threads(linked, on_thread, is_annotation), on_thread, is_annotation)


def _across_threads(linked: LinkedTrace, tree: OpTree, is_annotation: NDArray[np.bool_]) -> OpTree:
    rows = np.arange(len(tree.event_id))
    is_root = tree.enclosing == rows
    lanes = _forward_lanes(linked)
    if lanes.is_empty() or not is_annotation.any():
        return tree
    names = host_names(linked).with_columns(
        pl.Series("row", rows),
        pl.Series("is_root", is_root),
        pl.Series("is_annotation", is_annotation),
        (pl.col("ts_ns") + linked.host_tree.get_column("inclusive_ns")).alias("end_ns"),
    )
    roots = names.filter("is_root").join(lanes, on="lane").sort("ts_ns", "row")
    open_ = names.filter("is_annotation").select(
        pl.col("lane").alias("forward_lane"), "ts_ns", pl.col("row").alias("annotation")
    )
    # Strictly earlier, so that what is on the other thread can never be in a circle.
    last = roots.select("row", "forward_lane", ts_ns=pl.col("ts_ns") - 1).join_asof(
        open_.sort("ts_ns", "annotation"), on="ts_ns", by="forward_lane", check_sortedness=False
    )
    found = last.filter(pl.col("annotation").is_not_null())
    root = found.get_column("row").to_numpy()
    outer = _still_open(
        found.get_column("annotation").to_numpy(),
        names.get_column("ts_ns").to_numpy()[root],
        names.get_column("end_ns").to_numpy(),
        nearest_ancestors(np.where(is_root, -1, tree.enclosing), is_annotation),
    )
    return _grafted(tree, root[outer >= 0], outer[outer >= 0])


def _forward_lanes(linked: LinkedTrace) -> pl.DataFrame:
    """`lane`, `forward_lane`: the threads of autograd, and for each that whose ops it mostly goes back through."""
    lane = linked.timeline.events.select("event_id", "lane")
    return (
        linked.forward_backward.join(lane, left_on="backward_event", right_on="event_id")
        .join(lane.rename({"lane": "forward_lane"}), left_on="forward_event", right_on="event_id")
        .group_by("lane", "forward_lane")
        .len()
        .sort("len", "lane", "forward_lane", descending=[True, False, False])
        .unique("lane", keep="first", maintain_order=True)
        .filter(pl.col("lane") != pl.col("forward_lane"))
        .select("lane", "forward_lane")
    )


def _still_open(annotation: _Ints, moments: _Ints, end: _Ints, outer: _Ints) -> _Ints:
    """The innermost annotation that is open at each moment, from the last that began before; -1: none."""
    found: _Ints = annotation.copy()
    left = np.flatnonzero(end[found] <= moments)
    while len(left):
        found[left] = outer[found[left]]
        left = left[found[left] >= 0]
        left = left[end[found[left]] <= moments[left]]
    return found


def _grafted(tree: OpTree, roots: _Ints, outer: _Ints) -> OpTree:
    """The tree with some of its roots in other rows."""
    enclosing = tree.enclosing.copy()
    enclosing[roots] = outer
    return OpTree(tree.event_id, enclosing)


def annotation_paths(linked: LinkedTrace) -> tuple[_Ints, list[str], Paths]:
    """For each row of `host_tree` the path of the annotations that enclose it (-1: none), their texts, and the paths.

    Steps are left out: they have a column of their own.
    """
    return linked.derived(_annotation_paths)


def _annotation_paths(linked: LinkedTrace) -> tuple[_Ints, list[str], Paths]:
    annotations = annotation_tree(linked)
    tree = annotations.tree
    names = host_names(linked).select(as_text("name"))
    is_step = (
        names.select(is_step_name(pl.col("name"), linked.annotation).fill_null(value=False))
        .to_series()
        .to_numpy()
    )
    marks = np.flatnonzero(annotations.is_annotation & ~is_step)
    text = names.get_column("name").gather(marks).fill_null("")
    unique = text.unique(maintain_order=True)
    number = text.replace_strict(unique, range(len(unique)), return_dtype=pl.Int64).to_numpy()
    wanted = np.zeros(len(tree.event_id), dtype=np.bool_)
    wanted[marks] = True
    outer = nearest_ancestors(
        np.where(tree.enclosing == np.arange(len(tree.enclosing)), -1, tree.enclosing), wanted
    )
    mark_of = np.full(len(wanted) + 1, -1, dtype=np.int64)
    mark_of[marks] = np.arange(len(marks))
    paths = paths_of(mark_of[outer[marks]], number)
    of_row: _Ints = np.r_[paths.path, -1][mark_of[outer]]
    return of_row, paths.texts(unique.to_list(), _SEPARATOR), paths


ANNOTATION_KERNELS = Table(
    "annotation_kernels",
    "One row per stack of annotations and device event launched in it, the longest in total first. "
    "The rows of a step add up to the device's time.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column(
            "annotations",
            Kind.TEXT,
            "annotations around the launch, the outermost first, joined by ` > `; null: none but steps",
        ),
        Column("depth", Kind.INT, "how many they are"),
        Column("kind", Kind.TEXT, "compute, communication, memory or wait"),
        Column("name", Kind.TEXT, "name of the kernel or copy"),
        Column("count", Kind.INT, "how often it ran"),
        Column("total_ns", Kind.INT, "sum of its durations"),
        Column("mean_ns", Kind.FLOAT, "mean duration"),
        Column("min_ns", Kind.INT, "shortest"),
        Column("max_ns", Kind.INT, "longest"),
        Column("share", Kind.FLOAT, "of the sum of all device events' durations, 0 to 1"),
        DOUBTFUL,
    ),
)


@analysis(
    ANNOTATION_KERNELS,
    Family.OPS,
    needs=(Need.DEVICE_WORK,),
    uses=(Need.LAUNCHES, Need.ANNOTATIONS),
    shown="annotations name total_ns share count mean_ns kind",
)
def annotation_kernels(
    linked: LinkedTrace, per_step: bool = False, with_doubtful: bool = False
) -> pl.DataFrame:
    """Which kernels were launched in which annotations?

    Device events by the annotations around their launch, the longest in total first: `ANNOTATION_KERNELS`.

    Each device event counts in one row. Steps are no annotations here. What a thread of autograd launches lies in the
    annotations that are open meanwhile on the thread of the forward pass.

    Args:
        linked: one rank.
        per_step: rows for each step in which the work was launched, instead of over all.
        with_doubtful: the work of doubtful steps counts in means, too.
    """
    events = launched(linked, StepOptions(per_step, with_doubtful))
    if events.is_empty():
        return ANNOTATION_KERNELS.empty()
    path, texts, paths = annotation_paths(linked)
    names = pl.DataFrame(
        {"path": range(-1, len(texts)), "annotations": [None, *texts], "depth": np.r_[0, paths.depth + 1]},
        schema={"path": pl.Int64, "annotations": pl.String, "depth": pl.Int64},
    )
    duration, total = pl.col("dur_ns"), pl.col("total_ns")
    of_step = total.sum().over("step")
    return (
        events.with_columns(pl.Series("path", np.r_[path, -1][events.get_column("row").to_numpy()]))
        .group_by("step", "path", "kind", "name")
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            duration.sum().alias("total_ns"),
            mean_of(duration.filter("in_means")),
            min_of(duration),
            max_of(duration),
        )
        .join(names, on="path", how="left")
        .with_columns(pl.when(of_step > 0).then(total / of_step).alias("share"))
        .sort("total_ns", "annotations", "name", "kind", descending=[True, False, False, False])
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(ANNOTATION_KERNELS, frame, linked))
    )


_EXTERNAL_ID = "External id"


def device_ranges(linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    """Ranges of the device by step and name: device_ranges (how many), device_range_ns and its mean, min and max.

    The step of a range is that in which the annotation of the host with its external id started; without such, that
    in which the range itself starts.
    """
    ranges = linked.timeline.of_role(Role.DEVICE_ANNOTATION).select(
        "event_id", as_text("name").fill_null(""), "ts_ns", "dur_ns"
    )
    if not ranges.is_empty():
        ranges = _at_host_start(linked, ranges)
    ranges = by_start(ranges, linked, options)
    duration = pl.col("dur_ns")
    return ranges.group_by("step", "name").agg(
        pl.len().cast(pl.Int64).alias("device_ranges"),
        duration.sum().alias("device_range_ns"),
        mean_of(duration.filter("in_means"), "device_range_mean_ns"),
        min_of(duration, "device_range_min_ns"),
        max_of(duration, "device_range_max_ns"),
    )


def _at_host_start(linked: LinkedTrace, ranges: pl.DataFrame) -> pl.DataFrame:
    """The ranges, `ts_ns` replaced by the start of the host's annotation where that is known."""
    timeline = linked.timeline
    ids = timeline.tables["extra_args"].filter(as_text("key") == _EXTERNAL_ID)
    ids = ids.select("event_id", external_id=pl.col("value").cast(pl.Int64, strict=False)).drop_nulls()
    host = (
        timeline.of_role(Role.ANNOTATION)
        .join(timeline.host_ops.select("event_id", "external_id").drop_nulls(), on="event_id")
        .select("external_id", as_text("name"), start_ns="ts_ns")
        .unique(["external_id", "name"], keep="none")
    )
    return (
        ranges.join(ids.unique("event_id", keep="first"), on="event_id", how="left", maintain_order="left")
        .join(host, on=["external_id", "name"], how="left", maintain_order="left")
        .with_columns(pl.coalesce("start_ns", "ts_ns").alias("ts_ns"))
    )


_COUNTS = ["count", "host_self_ns", "host_total_ns", "kernels", "device_self_ns", "kernels_total"]
_COUNTS += ["device_total_ns", "device_busy_ns", "device_ranges"]


@analysis(
    USER_ANNOTATIONS,
    Family.OPS,
    needs=(Need.ANNOTATIONS,),
    uses=(Need.DEVICE_WORK,),
    shown=(
        "name count host_total_ns device_total_ns device_busy_ns kernels_total host_self_ns "
        "device_range_ns host_max_ns"
    ),
    formula=(
        "host total: durations of the annotations that are in no other of their name. device total: "
        "durations of what was launched in them, on any stream; device busy: length of the union of their"
        " intervals."
    ),
    on_page=OnPage(Rows.TABLE_ROWS, by=("host_total_ns",)),
    stored=Stored.OF_FEW_EVENTS,
)
def user_annotations(
    linked: LinkedTrace, per_step: bool = False, with_doubtful: bool = False
) -> pl.DataFrame:
    """How much time do annotations take on host and device?

    Annotations by name, the most device time first.

    What a thread of autograd launches lies in the annotation that is open meanwhile on the thread of the forward
    pass.
    Host time is that of the annotation's own thread. An annotation inside another of its name counts in no total
    again. With S the device events launched in a row's annotations: total = the sum of their durations, busy = |union
    of their intervals| on each device, added over devices. `device_range*` are the ranges that the profiler wrote for
    the device, from the first kernel to the last: in them, the device may be idle, or busy with other work.

    Args:
        linked: one rank.
        per_step: rows for each step in which the annotations started, instead of over all.
        with_doubtful: what lies in doubtful steps counts in means and percentiles, too.
    """
    options = StepOptions(per_step, with_doubtful)
    rows = _rows(linked, options)
    found = (
        rows.group_by("step", "name")
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("host_self_ns").sum(),
            pl.col("host_ns").sum().alias("host_total_ns"),
            *spread("host_ns", "host"),
            *extremes("host_ns", "host"),
            pl.col("kernels").sum(),
            pl.col("device_self_ns").sum(),
            pl.col("kernels_total").filter("outermost").sum(),
            pl.col("device_total_ns").filter("outermost").sum(),
        )
        .join(_busy(linked, rows), on=["step", "name"], how="left", nulls_equal=True)
        .join(
            device_ranges(linked, options),
            on=["step", "name"],
            how="full",
            coalesce=True,
            nulls_equal=True,
        )
        .with_columns(pl.col(*_COUNTS).fill_null(0))
    )
    if found.is_empty():
        return USER_ANNOTATIONS.empty()
    return (
        found.sort("device_total_ns", "host_total_ns", "name", descending=[True, True, False])
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(USER_ANNOTATIONS, frame, linked))
    )


def _rows(linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    """One row per annotation: row, step, name, and its times; `outermost`: in no other of its `key`."""
    of = annotation_tree(linked)
    events = launched(linked).filter(pl.col("row") >= 0)
    kernels, device = launched_by_rows(events, events.get_column("row").to_numpy(), of.tree)
    directly = of.tree.nearest(of.is_annotation)
    own = linked.host_tree.get_column("op_exclusive_ns").fill_null(0).to_numpy()
    found = (
        host_times(linked, options)
        .with_columns(
            host_names(linked).select(as_text("name").fill_null("")).to_series(),
            pl.Series("row", np.arange(len(directly), dtype=np.int64)),
            pl.Series("host_self_ns", _by_row(of.on_thread.nearest(of.is_annotation), own)),
            pl.Series("kernels", _by_row(directly, kernels)),
            pl.Series("device_self_ns", _by_row(directly, device)),
            pl.Series("kernels_total", of.tree.sums(kernels)),
            pl.Series("device_total_ns", of.tree.sums(device)),
        )
        .filter(pl.Series(of.is_annotation))
    )
    key = found.select(pl.struct("step", "name").rank("dense").cast(pl.Int64).alias("key")).to_series()
    outermost = pl.Series(of.tree.outermost(found.get_column("row").to_numpy(), key.to_numpy()))
    return found.with_columns(
        key, outermost.alias("outermost"), pl.when(outermost).then("inclusive_ns").alias("host_ns")
    )


def _by_row(rows: _Ints, amounts: _Ints) -> _Ints:
    """For each row the sum of the amounts that belong to it; row -1 takes none."""
    found = np.zeros(len(rows) + 1, dtype=np.int64)
    np.add.at(found, rows, amounts)
    return found[:-1]


def _busy(linked: LinkedTrace, rows: pl.DataFrame) -> pl.DataFrame:
    """`device_busy_ns` by step and name."""
    of = annotation_tree(linked)
    wanted = np.zeros(len(of.is_annotation), dtype=np.bool_)
    wanted[rows.filter("outermost").get_column("row").to_numpy()] = True
    parent = np.where(of.tree.enclosing == np.arange(len(wanted)), -1, of.tree.enclosing)
    outer = nearest_ancestors(parent, wanted)
    events = launched(linked).filter(pl.col("row") >= 0)
    event = np.arange(events.height)
    holder = of.tree.nearest(wanted)[events.get_column("row").to_numpy()]
    numbers, annotations = [event[:0]], [holder[:0]]
    while (inside := holder >= 0).any():
        event, holder = event[inside], holder[inside]
        numbers.append(event)
        annotations.append(holder)
        holder = outer[holder]
    work = events.select("device", "ts_ns", "dur_ns")[np.concatenate(numbers)].with_columns(
        pl.Series("annotation", np.concatenate(annotations))
    )
    keys = rows.select(pl.col("row").alias("annotation"), "key")
    busy = busy_times(work.join(keys, on="annotation").drop("annotation"), "key")
    return busy.join(rows.select("key", "step", "name").unique("key"), on="key").drop("key")
