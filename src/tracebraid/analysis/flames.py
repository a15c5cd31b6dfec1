"""Flame graphs: stacks merged by names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.analysis.answering import StepOptions
from tracebraid.analysis.device import rows_of_events
from tracebraid.analysis.host.host_trees import host_names, host_ops, host_parents
from tracebraid.analysis.ops.modules import ModuleTree, module_tree
from tracebraid.analysis.ops.op_times import host_times, launched
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.answers.ops import FLAME_FRAMES, FLAME_NAMES, FlameKind, FlameTree
from tracebraid.model.category import Category, Role
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.op_tree import OpTree
from tracebraid.model.rows import nearest_ancestors, nearest_rows
from tracebraid.model.step import is_step_name
from tracebraid.model.user_frame import is_module_call, without_address

_Ints = NDArray[np.int64]
_NONE = -1


class StackPaths(Struct, frozen=True):
    """Paths, each by a number that is greater than that of the path it extends.

    Args:
        path: for each row the number of its path.
        parent: for each path the one that it extends by a name; -1: none.
        name: for each path the number of its last name.
        depth: for each path how many others it extends.
    """

    path: _Ints
    parent: _Ints
    name: _Ints
    depth: _Ints


def depths(parent: _Ints) -> _Ints:
    """The number of ancestors of each row: pointers are doubled, so that deep trees cost little."""
    last = len(parent)
    target = np.r_[np.where(parent < 0, last, parent), last]
    depth = (target < last).astype(np.int64)
    while (target < last).any():
        depth, target = depth + depth[target], target[target]
    found: _Ints = depth[:-1]
    return found


def stack_paths(parent: _Ints, name: _Ints) -> StackPaths:
    """The path of each row, level by level."""
    depth = depths(parent)
    order = np.argsort(depth, kind="stable")
    levels = int(depth.max(initial=-1)) + 1
    bounds = np.searchsorted(depth[order], np.arange(levels + 1))
    width = int(name.max(initial=0)) + 1
    path = np.full(len(parent) + 1, _NONE, dtype=np.int64)
    keys: list[_Ints] = []
    count = 0
    for first, last in pairwise(bounds.tolist()):
        rows = order[first:last]
        level, which = np.unique((path[parent[rows]] + 1) * width + name[rows], return_inverse=True)
        path[rows] = count + which
        count += len(level)
        keys.append(level)
    sizes = [len(level) for level in keys]
    all_keys = np.concatenate([np.empty(0, dtype=np.int64), *keys])
    return StackPaths(
        path[:-1],
        all_keys // width - 1,
        all_keys % width,
        np.repeat(np.arange(levels, dtype=np.int64), sizes),
    )


class Stacks(Struct, frozen=True, eq=False):
    """Rows that are stacked on each other, before they are merged.

    Args:
        tree: what their times are.
        parent: the row of each row's parent; -1 where it has none.
        names: `name` and `kind` of each row.
        self_ns: exclusive time of each row.
        count: number of events of each row; null: unknown.
        counts: whether a row is wanted, and with it the rows that it is in.
    """

    tree: FlameTree
    parent: _Ints
    names: pl.DataFrame
    self_ns: _Ints
    count: pl.Series
    counts: NDArray[np.bool_]


def frame_table(stacks: Stacks, rank: int | None) -> pl.DataFrame:
    """The frames of a tree: `FLAME_FRAMES`."""
    codes, names = _coded(stacks.names)
    paths = stack_paths(stacks.parent, codes)
    frames = len(paths.parent)
    self_ns, wanted = (np.zeros(frames, dtype=np.int64) for _ in range(2))
    np.add.at(self_ns, paths.path, stacks.self_ns)
    np.add.at(wanted, paths.path, stacks.counts.astype(np.int64))
    itself = np.arange(frames, dtype=np.int64)
    tree = OpTree(itself, np.where(paths.parent < 0, itself, paths.parent))
    total = pl.col("count").sum()
    counts = (
        pl.DataFrame({"frame": paths.path, "count": stacks.count})
        .group_by("frame")
        .agg(pl.when(pl.col("count").count() > 0).then(total).alias("count"))
    )
    found = (
        names[paths.name]
        .with_columns(
            pl.lit(rank, dtype=pl.Int64).alias("rank"),
            pl.lit(stacks.tree.value).alias("tree"),
            pl.Series("frame", itself),
            pl.Series("parent", paths.parent),
            pl.Series("depth", paths.depth),
            pl.Series("self_ns", self_ns),
            pl.Series("total_ns", tree.sums(self_ns)),
            pl.Series("wanted", tree.sums(wanted)),
        )
        .join(counts, on="frame", how="left", maintain_order="left")
        .filter(pl.col("wanted") > 0)
    )
    return FLAME_FRAMES.conform(_numbered(found))


def _coded(names: pl.DataFrame) -> tuple[_Ints, pl.DataFrame]:
    """The number of each row's name and kind, in the order of their texts, and the names by number."""
    unique = names.unique().sort("name", "kind").with_row_index("code")
    codes = names.join(unique, on=["name", "kind"], how="left", maintain_order="left").get_column("code")
    return codes.cast(pl.Int64).to_numpy(), unique.drop("code")


def _numbered(frames: pl.DataFrame) -> pl.DataFrame:
    """Frames by depth, siblings by total time, numbered again."""
    ordered = frames.sort(
        "depth", "total_ns", "name", "kind", "frame", descending=[False, True, False, False, False]
    )
    before = ordered.get_column("frame").to_numpy()
    # The last number stands for no parent, -1.
    number = np.full(int(before.max(initial=0)) + 2, -1, dtype=np.int64)
    number[before] = np.arange(ordered.height)
    parent = pl.Series(number[ordered.get_column("parent").to_numpy()])
    return ordered.with_columns(
        pl.Series("frame", np.arange(ordered.height, dtype=np.int64)),
        pl.when(parent >= 0).then(parent).alias("parent"),
    )


NO_NAME = "(no name)"

_KIND_BY_ROLE = {
    Role.OP: FlameKind.OP,
    Role.ANNOTATION: FlameKind.ANNOTATION,
    Role.CALL: FlameKind.CALL,
    Role.PYTHON: FlameKind.PYTHON,
}


def stack_names(linked: LinkedTrace) -> pl.DataFrame:
    """`name` and `kind` of each row of `host_tree`: steps without numbers, functions without addresses."""
    rows = host_names(linked).select("name", "category")
    unique = rows.unique(maintain_order=True)
    kinds = {category.value: _KIND_BY_ROLE.get(category.role, FlameKind.OP).value for category in Category}
    text = as_text("name").fill_null("")
    is_python = as_text("category") == Category.PYTHON_FUNCTION.value
    named = unique.with_columns(
        pl.when(text == "")
        .then(pl.lit(NO_NAME))
        .when(is_python)
        .then(without_address(text))
        .when(is_step_name(text, linked.annotation))
        .then(pl.lit(linked.annotation))
        .otherwise(text)
        .alias("text"),
        pl.when(is_python & is_module_call(text))
        .then(pl.lit(FlameKind.MODULE.value))
        .otherwise(
            as_text("category").replace_strict(kinds, default=FlameKind.OP.value, return_dtype=pl.String)
        )
        .alias("kind"),
    )
    found = rows.join(named, on=["name", "category"], how="left", maintain_order="left", nulls_equal=True)
    return found.select(pl.col("text").alias("name"), "kind")


def in_step(rows: pl.DataFrame, step: str | None) -> pl.Series:
    """Return whether each row is in a step; all are if steps are not requested."""
    wanted = pl.lit(value=True) if step is None else (pl.col("step") == step).fill_null(value=False)
    return rows.select(pl.repeat(value=True, n=rows.height, dtype=pl.Boolean) & wanted).to_series()


def host_stacks(linked: LinkedTrace, step: str | None) -> Stacks:
    """All host events with their own times."""
    tree = host_parents(linked)
    times = host_times(linked, StepOptions(step is not None))
    counts = in_step(times, step)
    own = times.select(pl.when(counts).then("exclusive_ns").otherwise(0)).to_series()
    rows = np.arange(len(tree.event_id))
    return Stacks(
        FlameTree.HOST,
        np.where(tree.enclosing == rows, -1, tree.enclosing),
        stack_names(linked),
        own.to_numpy(),
        counts.cast(pl.Int64),
        counts.to_numpy(),
    )


LAUNCHED_IN_NOTHING = "(launched in no op)"
NOT_LAUNCHED = "(launch not in the trace)"
"""Roots of device time that no stack has."""


def device_stacks(linked: LinkedTrace, step: str | None) -> Stacks:
    """All device events, each on the host events around its launch, without the launching call itself."""
    events = launched(linked, StepOptions(step is not None))
    names = stack_names(linked)
    parent = _parents_without_calls(linked, names)
    hosts = len(parent)
    outermost = pl.DataFrame(
        {"name": [LAUNCHED_IN_NOTHING, NOT_LAUNCHED], "kind": [FlameKind.UNATTRIBUTED.value] * 2}
    )
    counts = in_step(events, step)
    leaves = events.select(pl.col("name").replace("", NO_NAME).fill_null(NO_NAME), "kind")
    own = events.select(pl.when(counts).then("dur_ns").otherwise(0)).to_series().to_numpy()
    none = np.zeros(hosts + 2, dtype=np.int64)
    return Stacks(
        FlameTree.DEVICE,
        np.r_[parent, -1, -1, _launch_rows(linked, events, names, hosts)],
        pl.concat([names, outermost, leaves]),
        np.r_[none, own],
        pl.concat(
            [
                _host_counts(linked, step),
                pl.Series([None, None], dtype=pl.Int64),
                counts.cast(pl.Int64),
            ]
        ),
        np.r_[none > 0, counts.to_numpy()],
    )


def _parents_without_calls(linked: LinkedTrace, names: pl.DataFrame) -> _Ints:
    tree = host_parents(linked)
    parent = np.where(tree.enclosing == np.arange(len(tree.enclosing)), -1, tree.enclosing)
    return nearest_ancestors(parent, _is_frame(names))


def _is_frame(names: pl.DataFrame) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (names.get_column("kind") != FlameKind.CALL.value).to_numpy()
    return found


def _launch_rows(linked: LinkedTrace, events: pl.DataFrame, names: pl.DataFrame, hosts: int) -> _Ints:
    """Return the row of each device event: a host event's, else one of the two for events without stack."""
    tree, ops = host_parents(linked), host_ops(linked)
    kind = names.get_column("kind")
    is_op = np.r_[kind.is_in([FlameKind.OP.value, FlameKind.ANNOTATION.value]).to_numpy(), False]
    launch = events.get_column("row").to_numpy()
    op = rows_of_events(pl.Series(tree.event_id), events.get_column("op_event")).fill_null(-1).to_numpy()
    # The op may be known by its External id alone, on another thread than the call.
    by_call = np.where(is_op[launch], launch, np.r_[ops.enclosing, -1][launch])
    start = np.where((op >= 0) & (by_call != op), op, launch)
    parent = np.where(tree.enclosing == np.arange(len(tree.enclosing)), -1, tree.enclosing)
    frame = np.r_[nearest_rows(parent, _is_frame(names)), -1][start]
    return np.where(frame >= 0, frame, np.where(launch >= 0, hosts, hosts + 1))


def _host_counts(linked: LinkedTrace, step: str | None) -> pl.Series:
    """1 for each host event that starts in the step, else 0."""
    starts = host_names(linked).select("ts_ns")
    if step is None:
        return pl.Series("count", np.ones(starts.height, dtype=np.int64))
    counts = in_step(step_of_moments(starts, step_windows(linked)), step)
    return pl.Series("count", counts.to_numpy().astype(np.int64))


IN_NO_MODULE = "(in no module)"
"""The root of time that no module has."""


def module_stacks(linked: LinkedTrace, step: str | None) -> list[Stacks]:
    """Host and device time by module, forward and backward; none if nothing says what the modules are."""
    tree = module_tree(linked)
    if tree.source is None:
        return []
    options = StepOptions(step is not None)
    host, device = host_times(linked, options), launched(linked, options)
    on_host, on_device = in_step(host, step).to_numpy(), in_step(device, step).to_numpy()
    of_device = np.r_[tree.path, -1][device.get_column("row").to_numpy()]
    own = host.get_column("exclusive_ns").to_numpy()
    calls = _calls(tree, on_host)
    return [
        _stacks(FlameTree.MODULES_HOST, tree, calls, (tree.path[on_host], own[on_host])),
        _stacks(
            FlameTree.MODULES_DEVICE,
            tree,
            calls,
            (of_device[on_device], device.get_column("dur_ns").to_numpy()[on_device]),
        ),
    ]


def _stacks(kind: FlameTree, tree: ModuleTree, calls: pl.Series, times: tuple[_Ints, _Ints]) -> Stacks:
    """A row for each path, and a last row for time outside modules."""
    path, own = times
    paths = len(tree.paths.parent)
    self_ns, events = (np.zeros(paths + 1, dtype=np.int64) for _ in range(2))
    np.add.at(self_ns, path, own)
    np.add.at(events, path, 1)
    names = [tree.names[name] or NO_NAME for name in tree.paths.name.tolist()]
    kinds = [FlameKind.MODULE.value] * paths + [FlameKind.UNATTRIBUTED.value]
    return Stacks(
        kind,
        np.r_[tree.paths.parent, -1],
        pl.DataFrame({"name": [*names, IN_NO_MODULE], "kind": kinds}),
        self_ns,
        calls,
        events > 0,
    )


def _calls(tree: ModuleTree, counts: NDArray[np.bool_]) -> pl.Series:
    """Return how often each path was called; null: not in the trace."""
    paths = len(tree.paths.parent)
    if tree.is_call is None:
        return pl.Series("count", [None] * (paths + 1), dtype=pl.Int64)
    calls = np.zeros(paths + 1, dtype=np.int64)
    np.add.at(calls, tree.path[tree.is_call & counts], 1)
    return pl.Series("count", calls).set(pl.Series(np.arange(paths + 1) == paths), None)


def flame_frames(linked: LinkedTrace, step: str | None = None) -> pl.DataFrame:
    """The frames of the flame graphs of a rank, tree by tree: `FLAME_FRAMES`.

    Every host event's own time is in the self time of exactly one frame, and so is every device event's duration, once
    by its launching stack and once by its module. Work of several threads or streams at once counts for each.
    """
    stacks = [
        host_stacks(linked, step),
        device_stacks(linked, step),
        *module_stacks(linked, step),
    ]
    return pl.concat([FLAME_FRAMES.empty(), *(frame_table(tree, linked.rank) for tree in stacks)])


def merged_ranks(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Merge the frames of several ranks: `FLAME_FRAMES`."""
    merged = [FLAME_FRAMES.empty()]
    for tree in FlameTree:
        own = [rows for some in frames if not (rows := some.filter(tree=tree.value)).is_empty()]
        if own:
            merged.append(frame_table(_stacked(tree, own), None))
    return pl.concat(merged)


def _stacked(tree: FlameTree, frames: Sequence[pl.DataFrame]) -> Stacks:
    offset = np.cumsum([0, *(rows.height for rows in frames[:-1])])
    parents = [
        rows.select((pl.col("parent") + int(first)).fill_null(-1)).to_series().to_numpy()
        for rows, first in zip(frames, offset, strict=True)
    ]
    rows = pl.concat(frames)
    return Stacks(
        tree,
        np.concatenate(parents),
        rows.select("name", "kind"),
        rows.get_column("self_ns").to_numpy(),
        rows.get_column("count"),
        np.ones(rows.height, dtype=np.bool_),
    )


def limited(frames: pl.DataFrame, most: int) -> pl.DataFrame:
    """Limit the frames of each tree; smaller children are merged into one frame.

    No time is lost: a frame of what is smaller has the total of what it stands for as its self time. Its name says how
    many frames that is, those inside them included.
    """
    kept = [FLAME_FRAMES.empty()]
    kept += [_of_tree(rows, most) for (_,), rows in frames.group_by(["tree"], maintain_order=True)]
    return pl.concat(kept)


def _of_tree(rows: pl.DataFrame, most: int) -> pl.DataFrame:
    if rows.height <= most:
        return rows
    # A parent has no less time than what is in it, and a smaller number: no frame is kept without its parent.
    order = rows.sort("total_ns", "frame", descending=[True, False]).get_column("frame")
    found = rows.with_columns(pl.col("frame").is_in(order.head(most).implode()).alias("kept"), _sizes(rows))
    numbers = found.filter("kept").select(
        pl.col("frame").alias("parent"), pl.int_range(pl.len()).alias("number")
    )
    found = found.join(numbers, on="parent", how="left", maintain_order="left")
    kept = found.filter("kept").with_columns(
        pl.int_range(pl.len()).alias("frame"), pl.col("number").alias("parent")
    )
    smaller = _smaller(found.filter(~pl.col("kept")), kept.height)
    return pl.concat([FLAME_FRAMES.conform(kept), FLAME_FRAMES.conform(smaller)])


def _sizes(rows: pl.DataFrame) -> pl.Series:
    """The number of frames in each frame, itself included."""
    itself = np.arange(rows.height, dtype=np.int64)
    parent = rows.get_column("parent").fill_null(-1).to_numpy()
    tree = OpTree(itself, np.where(parent < 0, itself, parent))
    return pl.Series("size", tree.sums(np.ones(rows.height, dtype=np.int64)))


def _smaller(dropped: pl.DataFrame, first: int) -> pl.DataFrame:
    """A frame for each parent that loses some: all that was in them, at any depth."""
    outermost = dropped.filter((pl.col("depth") == 0) | pl.col("number").is_not_null())
    return (
        outermost.group_by("number", maintain_order=True)
        .agg(pl.col("rank", "tree", "depth").first(), pl.col("total_ns", "size").sum())
        .sort("depth", "number")
        .with_columns(
            (pl.int_range(pl.len()) + first).alias("frame"),
            pl.col("number").alias("parent"),
            pl.format("({} smaller)", "size").alias("name"),
            pl.lit(FlameKind.SMALLER.value).alias("kind"),
            pl.lit(None, dtype=pl.Int64).alias("count"),
            pl.col("total_ns").alias("self_ns"),
        )
    )


def flame_names(frames: pl.DataFrame) -> pl.DataFrame:
    """The names of the frames of each tree, the most self time first: `FLAME_NAMES`."""
    whole = pl.col("self_ns").sum().over("tree")
    count = pl.col("count")
    found = (
        frames.group_by("tree", "name", "kind", maintain_order=True)
        .agg(
            pl.col("self_ns").sum(),
            pl.when(count.count() > 0).then(count.sum()).alias("count"),
            pl.len().alias("frames"),
        )
        .with_columns(pl.when(whole > 0).then(pl.col("self_ns") / whole).alias("share"))
    )
    return FLAME_NAMES.conform(found.sort("self_ns", "name", "kind", descending=[True, False, False]))
