"""The Python functions that are calls of nn.Modules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.host.host_trees import host_names, host_parents
from tracebraid.model.answers import ModuleSource
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.module_name import (
    calls_modules,
    class_of,
    forward_function,
    instance_of,
    is_module_call,
)
from tracebraid.model.user_frame import is_line_frame

__all__ = ["ModuleCalls", "module_calls"]


@dataclass(frozen=True)
class ModuleCalls:
    """Calls of modules.

    Args:
        source: what tells them.
        rows: their rows in `host_tree`.
        name: for each the number of its module's name.
        names: the names.
        classes: the class of each name; None where it is unknown.
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
