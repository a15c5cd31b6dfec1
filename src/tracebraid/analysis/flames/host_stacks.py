"""Host events as stacks: whose time is whose."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.flames.frame_table import Stacks
from tracebraid.analysis.host.host_trees import host_names, host_parents
from tracebraid.analysis.ops.launch_rows import host_times
from tracebraid.analysis.step_rows import StepOptions
from tracebraid.model.answers.flames import FlameKind, FlameTree
from tracebraid.model.category import ROLE_BY_CATEGORY, Role
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.module_name import is_module_call
from tracebraid.model.step import is_step_name

__all__ = ["NO_NAME", "host_stacks", "in_step", "stack_names"]

NO_NAME = "(no name)"
_ADDRESS = r"( object)? at 0x[0-9a-fA-F]+"
"""What distinguishes the objects of one type in the name of a built-in method."""

_KIND_BY_ROLE = {
    Role.OP: FlameKind.OP,
    Role.ANNOTATION: FlameKind.ANNOTATION,
    Role.CALL: FlameKind.CALL,
    Role.PYTHON: FlameKind.PYTHON,
}


def stack_names(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """`name` and `kind` of each row of `host_tree`: steps without numbers, functions without addresses."""
    rows = host_names(linked).select("name", "category")
    unique = rows.unique(maintain_order=True)
    kinds = {
        category: _KIND_BY_ROLE.get(role, FlameKind.OP).value for category, role in ROLE_BY_CATEGORY.items()
    }
    text = as_text("name").fill_null("")
    is_python = as_text("category") == "python_function"
    named = unique.with_columns(
        pl.when(text == "")
        .then(pl.lit(NO_NAME))
        .when(is_python)
        .then(text.str.replace_all(_ADDRESS, ""))
        .when(is_step_name(text, annotation))
        .then(pl.lit(annotation))
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
    """Whether each row, with `step`, is in a step; all are where none is asked for."""
    wanted = pl.lit(value=True) if step is None else (pl.col("step") == step).fill_null(value=False)
    return rows.select(pl.repeat(value=True, n=rows.height, dtype=pl.Boolean) & wanted).to_series()


def host_stacks(linked: LinkedTrace, annotation: str, step: str | None) -> Stacks:
    """All host events with their own times.

    Args:
        linked: one rank.
        annotation: what marks a step.
        step: only the time of events that start in this step; None: all.
    """
    tree = host_parents(linked)
    times = host_times(linked, StepOptions(annotation, step is not None))
    counts = in_step(times, step)
    own = times.select(pl.when(counts).then("exclusive_ns").otherwise(0)).to_series()
    rows = np.arange(len(tree.event_id))
    return Stacks(
        FlameTree.HOST,
        np.where(tree.enclosing == rows, -1, tree.enclosing),
        stack_names(linked, annotation),
        own.to_numpy(),
        counts.cast(pl.Int64),
        counts.to_numpy(),
    )
