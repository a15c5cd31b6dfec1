"""Time by nn.Module."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.analysis.answering import StepOptions, answer
from tracebraid.analysis.host.host_trees import backward_ops, host_names, host_parents
from tracebraid.analysis.ops.annotations import Paths, paths_of
from tracebraid.analysis.ops.op_times import host_times, launched
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.analysis import Family, Need, OnPage, Rows, analysis
from tracebraid.model.answers.ops import MODULES, ModuleSource
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.rows import nearest_ancestors
from tracebraid.model.user_frame import (
    MODULE_PREFIX,
    calls_modules,
    class_of,
    forward_function,
    instance_of,
    is_line_frame,
    is_module_call,
)


class ModuleCalls(Struct, frozen=True):
    """Calls of modules.

    Args:
        source: what tells them.
        rows: their rows in `host_tree`.
        name: for each the number of its module's name.
        names: the names.
        classes: the class of each name; None if it is unknown.
    """

    source: ModuleSource
    rows: NDArray[np.int64]
    name: NDArray[np.int64]
    names: list[str]
    classes: list[str | None]


def module_calls(linked: LinkedTrace) -> ModuleCalls | None:
    """The profiler's marks of module calls, else the functions that `nn.Module.__call__` called; None without both."""
    functions = _functions(linked)
    marks = functions.filter(is_module_call(pl.col("text")))
    if not marks.is_empty():
        named = marks.select("row", instance_of(pl.col("text")).alias("module"))
        named = named.with_columns(class_of(pl.col("module")).alias("class"))
        return _numbered(ModuleSource.MODULE_EVENTS, named)
    tree = host_parents(linked)
    of_caller = functions.filter(calls_modules(pl.col("text"))).get_column("row").to_numpy()
    is_caller = np.zeros(len(tree.event_id), dtype=np.bool_)
    is_caller[of_caller] = True
    row = functions.get_column("row").to_numpy()
    called = pl.Series(is_caller[tree.enclosing[row]] & ~is_caller[row], dtype=pl.Boolean)
    forward = functions.filter(called & functions.select(is_line_frame(pl.col("text"))).to_series())
    if forward.is_empty():
        return None
    none = pl.lit(None, dtype=pl.String).alias("class")
    return _numbered(
        ModuleSource.STACKS, forward.select("row", forward_function(pl.col("text")).alias("module"), none)
    )


def _functions(linked: LinkedTrace) -> pl.DataFrame:
    """`row` (in `host_tree`) and `text` (the name) of the Python functions that may be of interest."""
    names = host_names(linked).select("name", "category").with_row_index("row")
    is_python = as_text("category").is_in(categories_of(Role.PYTHON))
    functions = names.filter(is_python).select(pl.col("row").cast(pl.Int64), as_text("name").alias("text"))
    return functions.filter(pl.col("text").is_not_null())


def _numbered(source: ModuleSource, named: pl.DataFrame) -> ModuleCalls:
    unique = named.unique("module", keep="first", maintain_order=True)
    number = named.get_column("module").replace_strict(
        unique.get_column("module"), range(unique.height), return_dtype=pl.Int64
    )
    return ModuleCalls(
        source,
        named.get_column("row").to_numpy(),
        number.to_numpy(),
        unique.get_column("module").to_list(),
        unique.get_column("class").to_list(),
    )


_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
NEVER = np.iinfo(np.int64).max
"""Later than any moment."""


class ModuleTree(Struct, frozen=True):
    """The modules of a rank, and the host events in them.

    Args:
        source: source of the modules; None if unknown.
        paths: the modules' paths.
        names: for each number of a name in `paths` the name of the module.
        classes: the same, the module's class; null: unknown.
        path: for each row of `host_tree` the number of its module's path; -1: in none.
        backward: whether each row is in a backward op.
        recompute: whether each row is in the forward function of a module that a backward op called.
        is_call: whether each row is the call of a module; None if calls are not in the trace.
        first: for each path when the first host event in it, or in a module inside, started.
    """

    source: ModuleSource | None
    paths: Paths
    names: list[str]
    classes: list[str | None]
    path: _Ints
    backward: _Bools
    recompute: _Bools
    is_call: _Bools | None
    first: _Ints


def first_starts(linked: LinkedTrace, paths: Paths, path: _Ints) -> _Ints:
    """For each path when the first host event in it, or in what extends it, started."""
    first = np.full(len(paths.parent), NEVER, dtype=np.int64)
    inside = path >= 0
    np.minimum.at(first, path[inside], host_names(linked).get_column("ts_ns").to_numpy()[inside])
    for number in range(len(first) - 1, -1, -1):
        parent = paths.parent[number]
        if parent >= 0:
            first[parent] = min(first[parent], first[number])
    return first


def rows_at(rows: _Ints, length: int) -> _Bools:
    """Return a boolean mask of rows from row indices."""
    found = np.zeros(length, dtype=np.bool_)
    found[rows] = True
    return found


class _Marks(Struct, frozen=True):
    """The rows that decide in which module the rows inside are: calls of modules, and backward ops.

    Args:
        rows: their rows in `host_tree`.
        name: for each the number of its name; -1 for backward ops, which extend no path.
        forward: for each backward op the row of its forward op; -1: unknown, or a call.
    """

    rows: _Ints
    name: _Ints
    forward: _Ints


def called_modules(linked: LinkedTrace, calls: ModuleCalls) -> ModuleTree:
    """The modules of a rank by their calls."""
    marks = _with_backward(linked, calls.rows, calls.name)
    tree = host_parents(linked)
    parent = np.where(tree.enclosing == np.arange(len(tree.enclosing)), -1, tree.enclosing)
    number = np.full(len(parent) + 1, -1, dtype=np.int64)
    number[marks.rows] = np.arange(len(marks.rows))
    is_mark = number[:-1] >= 0
    nearest = number[tree.nearest(is_mark)]
    outer = number[nearest_ancestors(parent, is_mark)[marks.rows]]
    is_backward = marks.name < 0
    in_backward = tree.nearest(rows_at(marks.rows[is_backward], len(parent)))[marks.rows] >= 0
    of_forward = np.where(marks.forward >= 0, nearest[np.maximum(marks.forward, 0)], outer)
    inside = np.where(is_backward, of_forward, outer)
    start = host_names(linked).get_column("ts_ns").to_numpy()[marks.rows]
    inside = _as_in_forward(inside, marks, np.where(is_backward | in_backward, NEVER, start))
    paths = paths_of(inside, marks.name)
    backward, recompute = np.r_[is_backward, False], np.r_[in_backward & ~is_backward, False]
    path = np.r_[paths.path, -1][nearest]
    return ModuleTree(
        source=calls.source,
        paths=paths,
        names=calls.names,
        classes=calls.classes,
        path=path,
        backward=backward[nearest],
        recompute=recompute[nearest],
        is_call=rows_at(calls.rows, len(parent)),
        first=first_starts(linked, paths, path),
    )


def _with_backward(linked: LinkedTrace, calls: _Ints, number: _Ints) -> _Marks:
    backward, forward = backward_ops(linked)
    none = np.full(len(backward), -1, dtype=np.int64)
    rows = np.r_[calls, backward]
    order = np.argsort(rows, kind="stable")
    return _Marks(
        rows[order],
        np.r_[number, none][order],
        np.r_[np.full(len(calls), -1, dtype=np.int64), forward][order],
    )


def _as_in_forward(inside: _Ints, marks: _Marks, start: _Ints) -> _Ints:
    """Parent of each mark; calls directly in a backward op belong to the parent of their module's first call."""
    plain = np.flatnonzero(start < NEVER)
    plain = plain[np.argsort(-start[plain], kind="stable")]
    first = np.full(int(marks.name.max(initial=-1)) + 1, -1, dtype=np.int64)
    first[marks.name[plain]] = plain
    is_backward = marks.name < 0
    directly = ~is_backward & (inside >= 0) & is_backward[np.maximum(inside, 0)]
    known = np.where(directly, first[np.maximum(marks.name, 0)], -1)
    return np.where(known >= 0, inside[np.maximum(known, 0)], inside)


Module = tuple[str, str | None]
"""Name and class; no class where it is unknown."""

_IN_HIERARCHY = re.compile(r"([^.()]*)\(([^()]*)\)::[^.()]*")
"""`layer1(Sequential)::forward`: the attribute, its class, and the method."""

_TOP = "TOP"
_SAME = "SELF"
"""The outermost module, and another method of the same module."""

_FRAME = re.compile(r"^(?P<file>.*)\((?P<line>\d+)\): (?P<function>.*)$")
_CALLER = re.compile(r"torch[/\\]nn[/\\]modules[/\\]module\.py\(\d+\): ")
"""The frames of `nn.Module.__call__`: what they call is a module's forward function."""


def recorded_modules(linked: LinkedTrace) -> tuple[ModuleSource | None, pl.DataFrame, list[list[Module]]]:
    """Source of modules, ops with their modules, and the modules, outermost first.

    The frame has `event_id` and `modules`, a row of the list. A module of a call stack is called after the file of its
    forward function and the line that called it, `linear.py:forward@23`: neither class nor instance is known.
    """
    ops = linked.timeline.host_ops
    for column, source, read in (
        ("module_hierarchy", ModuleSource.MODULE_HIERARCHY, _of_hierarchy),
        ("call_stack", ModuleSource.STACKS, _of_stack),
    ):
        texts = ops.select(as_text(column).alias("text")).drop_nulls().get_column("text")
        unique = texts.unique(maintain_order=True).to_list()
        modules = {text: found for text in unique if (found := read(text))}
        if modules:
            number = pl.DataFrame(
                {"text": list(modules), "modules": range(len(modules))},
                schema={"text": pl.String, "modules": pl.Int64},
            )
            carried = ops.select("event_id", as_text(column).alias("text"))
            rows = carried.join(number, on="text", maintain_order="left")
            return source, rows.select("event_id", "modules"), list(modules.values())
    return None, pl.DataFrame(schema={"event_id": pl.Int64, "modules": pl.Int64}), []


def _of_hierarchy(text: str) -> list[Module]:
    """`TOP(Net)::forward.SELF(Net)::features.conv(Conv2d)::forward`: Net, and in it conv."""
    found = [(match[1], match[2]) for match in _IN_HIERARCHY.finditer(text)]
    return [(kind if name == _TOP else name, kind or None) for name, kind in found if name != _SAME]


def _of_stack(text: str) -> list[Module]:
    """Frames joined by semicolons, the innermost first; a later torch has module calls among them."""
    frames = [frame.strip() for frame in text.split(";")][::-1]
    marked = [frame[len(MODULE_PREFIX) :] for frame in frames if frame.startswith(MODULE_PREFIX)]
    if marked:
        return [(instance, re.sub(r"_\d+$", "", instance)) for instance in marked]
    found: list[Module] = []
    line = ""
    for before, frame in pairwise(frames):
        if not _CALLER.search(before) and (match := _FRAME.match(before)):
            line = match["line"]
        if _CALLER.search(before) and not _CALLER.search(frame) and (match := _FRAME.match(frame)):
            file = re.split(r"[/\\]", match["file"])[-1]
            found.append((f"{file}:{match['function']}" + (f"@{line}" if line else ""), None))
    return found


def carried_modules(linked: LinkedTrace) -> ModuleTree:
    """Modules that ops carry; an op without one belongs to that of the nearest op around it."""
    source, ops, modules = recorded_modules(linked)
    tree = host_parents(linked)
    number_of: dict[tuple[int, Module], int] = {}
    ends = np.array([_number(names, number_of) for names in modules], dtype=np.int64)
    backward, forward = backward_ops(linked)
    path = np.full(len(tree.event_id) + 1, -1, dtype=np.int64)
    ops = ops.filter(pl.col("event_id").is_in(linked.host_tree.get_column("event_id").implode()))
    carrying = tree.rows(ops.get_column("event_id").to_numpy())
    path[carrying] = ends[ops.get_column("modules").to_numpy()]
    carries = rows_at(carrying, len(tree.event_id))
    returned = (forward >= 0) & ~carries[backward]
    path[backward[returned]] = path[tree.nearest(carries)[forward[returned]]]
    nearest = tree.nearest(carries | rows_at(backward[returned], len(tree.event_id)))
    names = {module: i for i, module in enumerate(dict.fromkeys(module for _, module in number_of))}
    paths = Paths(
        ends,
        np.array([parent for parent, _ in number_of], dtype=np.int64),
        np.array([names[module] for _, module in number_of], dtype=np.int64),
    )
    in_backward = tree.nearest(rows_at(backward, len(tree.event_id))) >= 0
    return ModuleTree(
        source,
        paths,
        [name for name, _ in names],
        [kind for _, kind in names],
        path[nearest],
        in_backward,
        np.zeros(len(tree.event_id), dtype=np.bool_),
        None,
        first_starts(linked, paths, path[nearest]),
    )


def _number(modules: list[Module], number_of: dict[tuple[int, Module], int]) -> int:
    number = -1
    for module in modules:
        number = number_of.setdefault((number, module), len(number_of))
    return number


def module_tree(linked: LinkedTrace) -> ModuleTree:
    """The modules of a rank, kept with the linked trace.

    The first of these that the trace has counts: marks of module calls among the Python functions (`with_stack`), the
    module hierarchy of TorchScript ops (`with_modules`), the functions that `nn.Module.__call__` called, and the
    same in the call stacks of old traces.

    Each event is in the module whose call is the nearest around it. A backward op is in the module of its forward op,
    which has the same sequence number; one whose forward op is unknown is where it is called. A module that a backward
    op calls, as checkpointing does, is where it was when it was called in the forward pass.
    """
    return linked.derived(_module_tree)


def _module_tree(linked: LinkedTrace) -> ModuleTree:
    calls = module_calls(linked)
    if calls is None or calls.source is ModuleSource.STACKS:
        carried = carried_modules(linked)
        if calls is None or carried.source is ModuleSource.MODULE_HIERARCHY:
            return carried
    return called_modules(linked, calls)


_SEPARATOR = "/"
_SELF = [
    "host_forward_self_ns",
    "host_backward_self_ns",
    "device_forward_self_ns",
    "device_backward_self_ns",
    "device_recompute_self_ns",
    "kernels_self",
]


@analysis(
    MODULES,
    Family.OPS,
    needs=(Need.MODULES,),
    uses=(Need.DEVICE_WORK,),
    shown=(
        "path calls share device_forward_total_ns device_backward_total_ns host_forward_total_ns "
        "host_backward_total_ns kernels_total device_recompute_total_ns device_forward_self_ns class_name"
    ),
    picked_by=(
        "device_forward_total_ns device_backward_total_ns",
        "host_forward_total_ns host_backward_total_ns",
    ),
    formula=(
        "Forward: own time of host events, and durations of what they launched, whose nearest mark is the"
        " module's call. Backward: those whose nearest mark is a backward op of the module. Totals: with "
        "the modules inside."
    ),
    on_page=OnPage(
        Rows.TABLE_ROWS,
        by=(
            "device_forward_total_ns",
            "device_backward_total_ns",
            "host_forward_total_ns",
            "host_backward_total_ns",
        ),
    ),
)
def modules(linked: LinkedTrace, per_step: bool = False) -> pl.DataFrame:
    """Which nn.Modules take the time, forward and backward?

    The tree of nn.Modules with the time of each.

    Every host event's own time, and every device event's duration, counts in exactly one row's self time: that of the
    innermost module around the event or its launch. A backward op counts in the module of its forward op. Work of
    several streams or threads at once counts for each.

    Args:
        linked: one rank.
        per_step: rows for each step, instead of over all.
    """
    tree = module_tree(linked)
    if tree.source is None:
        return MODULES.empty()
    own = _own(linked, tree, StepOptions(per_step))
    found = _with_totals(own, tree)
    device = pl.col("device_forward_total_ns") + pl.col("device_backward_total_ns")
    root = pl.col("depth").fill_null(0) == 0
    of_step = device.filter(root).sum().over("step")
    found = found.with_columns(pl.when(of_step > 0).then(device / of_step).alias("share"))
    return found.pipe(in_order_of_steps, linked).pipe(lambda frame: answer(MODULES, frame, linked))


def _own(linked: LinkedTrace, tree: ModuleTree, options: StepOptions) -> pl.DataFrame:
    """Self times and calls by step and path; path -1: in no module."""
    host = host_times(linked, options).with_columns(
        pl.Series("path", tree.path), pl.Series("backward", tree.backward)
    )
    host = host.with_columns(pl.Series("is_call", tree.is_call) if tree.is_call is not None else _no_calls())
    own_time, is_backward = pl.col("exclusive_ns"), pl.col("backward")
    of_host = host.group_by("step", "path").agg(
        own_time.filter(~is_backward).sum().alias("host_forward_self_ns"),
        own_time.filter(is_backward).sum().alias("host_backward_self_ns"),
        pl.col("is_call").sum().cast(pl.Int64).alias("calls"),
    )
    device = launched(linked, options)
    row = device.get_column("row").to_numpy()
    duration, again = pl.col("dur_ns"), pl.col("recompute")
    of_device = (
        device.select("step", "dur_ns")
        .with_columns(
            pl.Series("path", np.r_[tree.path, -1][row]),
            pl.Series("backward", np.r_[tree.backward, False][row]),
            pl.Series("recompute", np.r_[tree.recompute, False][row]),
        )
        .group_by("step", "path")
        .agg(
            duration.filter(~is_backward).sum().alias("device_forward_self_ns"),
            duration.filter(is_backward).sum().alias("device_backward_self_ns"),
            duration.filter(again).sum().alias("device_recompute_self_ns"),
            pl.len().cast(pl.Int64).alias("kernels_self"),
        )
    )
    both = of_host.join(of_device, on=["step", "path"], how="full", coalesce=True, nulls_equal=True)
    return both.with_columns(pl.col(*_SELF, "calls").fill_null(0))


def _no_calls() -> pl.Expr:
    return pl.lit(None, dtype=pl.Boolean).alias("is_call")


def _with_totals(own: pl.DataFrame, tree: ModuleTree) -> pl.DataFrame:
    """Return a row for each path with time in it or its children, in tree order, time outside modules last."""
    total_of = {name: name.replace("_self", "_total") for name in _SELF}
    none = pl.DataFrame({"path": [-1], "ancestor": [-1]}, schema={"path": pl.Int64, "ancestor": pl.Int64})
    above = pl.concat([tree.paths.ancestors(), none])
    totals = (
        own.join(above, on="path")
        .group_by("step", "ancestor")
        .agg(pl.col(name).sum().alias(total) for name, total in total_of.items())
        .rename({"ancestor": "path"})
    )
    return (
        totals.join(own, on=["step", "path"], how="left", nulls_equal=True)
        .with_columns(pl.col(*_SELF, "calls").fill_null(0))
        .join(_described(tree), on="path", how="left")
        .sort("order", "step")
        .with_columns(pl.lit(tree.source.value if tree.source else None, dtype=pl.String).alias("source"))
        .with_columns(
            pl.when(pl.col("path") >= 0).then("calls").alias("calls")
            if tree.is_call is not None
            else pl.lit(None, dtype=pl.Int64).alias("calls")
        )
        .drop("path")
        .rename({"text": "path"})
    )


def _described(tree: ModuleTree) -> pl.DataFrame:
    """For each path its text, depth and class, and its number in a walk through the tree."""
    paths = tree.paths
    walk = paths.walk(tree.first)
    order = np.empty(len(walk), dtype=np.int64)
    order[walk] = np.arange(len(walk))
    described = pl.DataFrame(
        {
            "path": np.arange(len(walk), dtype=np.int64),
            "text": paths.texts(tree.names, _SEPARATOR),
            "depth": paths.depth,
            "class_name": [tree.classes[name] for name in paths.name.tolist()],
            "order": order,
        },
        schema_overrides={"text": pl.String, "class_name": pl.String},
    )
    none = {"path": [-1], "text": [None], "depth": [None], "class_name": [None], "order": [len(walk)]}
    return pl.concat([described, pl.DataFrame(none, schema=described.schema)])
