"""Where in the program is each op called: in which module, under which annotations and ops?"""

from __future__ import annotations

import hashlib

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.event_columns import fetched, rows_of_events
from tracebraid.analysis.host.host_trees import host_names
from tracebraid.analysis.ops.annotations.annotation_tree import annotation_tree
from tracebraid.analysis.ops.modules.module_tree import module_tree
from tracebraid.analysis.ops.name_paths import Paths, paths_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.nearest import nearest_ancestors
from tracebraid.model.step import is_step_name

__all__ = ["KEY", "op_positions"]

_Ints = NDArray[np.int64]

KEY = ["path_id", "module", "input_dims", "input_types"]
"""What makes two calls one row."""

_SEPARATOR = " > "
_SHOWN = 8
"""Names of a path that are shown: the innermost; deep recursion would make the texts too long to hold."""

_COUNTERS = r"(?i)\b(step|iter|iteration|batch|epoch)([ _#:=]*)\d+"
_HASHES = r"\b[0-9a-f]{16,}\b|\b[a-z0-9]{40,}\b"
"""What differs between two runs of one program: counters, and the hashes of compiled graphs."""


def op_positions(linked: LinkedTrace, annotation: str) -> tuple[pl.DataFrame, _Ints]:
    """The positions of a rank's ops and annotations, and for each row of `host_tree` its position's row; -1: no op.

    Columns: path_id (equal for equal paths of any trace), parent_id (that of the enclosing op; null: none), path,
    name, category, module, input_dims, input_types. In the order in which they are first called. Steps extend no path.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    names = host_names(linked)
    is_op = linked.host_tree.get_column("op_exclusive_ns").is_not_null().to_numpy()
    rows = np.flatnonzero(is_op)
    paths, texts, of_mark = _paths(linked, annotation, rows)
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


def _paths(linked: LinkedTrace, annotation: str, rows: _Ints) -> tuple[Paths, list[str], _Ints]:
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
    is_step = pl.DataFrame({"name": unique}).select(is_step_name(pl.col("name"), annotation)).to_series()
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
    """A number of 63 bits for each path, made of its names alone."""
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
