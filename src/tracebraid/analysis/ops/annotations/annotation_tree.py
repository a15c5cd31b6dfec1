"""Which annotations is each host event in, on its own thread and on the thread that waits for it?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.host.host_trees import host_names, host_ops
from tracebraid.analysis.ops.name_paths import Paths, paths_of
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.nearest import nearest_ancestors, nearest_rows
from tracebraid.model.op_tree import OpTree
from tracebraid.model.step import is_step_name

__all__ = ["AnnotationTree", "annotation_paths", "annotation_tree"]

_Ints = NDArray[np.int64]
_SEPARATOR = " > "
"""Between the names of nested annotations."""


@dataclass(frozen=True)
class AnnotationTree:
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
    own_root = nearest_rows(tree.enclosing, tree.enclosing == np.arange(len(enclosing)))
    # How much deeper each root lies than on its thread, and with it all that it encloses.
    deeper = np.zeros(len(enclosing), dtype=np.int64)
    while (changed := (below := tree.depth[outer] + 1 + deeper[own_root[outer]]) != deeper[roots]).any():
        deeper[roots[changed]] = below[changed]
    return OpTree(tree.event_id, enclosing, tree.depth + deeper[own_root])


def annotation_paths(linked: LinkedTrace, annotation: str) -> tuple[_Ints, list[str], Paths]:
    """For each row of `host_tree` the path of the annotations that enclose it (-1: none), their texts, and the paths.

    Steps are left out: they have a column of their own.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    return linked.derived(_annotation_paths, annotation)


def _annotation_paths(linked: LinkedTrace, annotation: str) -> tuple[_Ints, list[str], Paths]:
    annotations = annotation_tree(linked)
    tree = annotations.tree
    names = host_names(linked).select(as_text("name"))
    is_step = (
        names.select(is_step_name(pl.col("name"), annotation).fill_null(value=False)).to_series().to_numpy()
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
