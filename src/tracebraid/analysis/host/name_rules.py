"""What the name and category of a host event say: each distinct pair is judged once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.host.host_trees import host_names
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.module_name import is_module_call
from tracebraid.model.name_rules import distinct_pairs
from tracebraid.model.user_frame import is_user_frame

__all__ = ["by_rules", "is_in_role", "is_operator", "kinds"]

_RANGE_OP = r"#|^[^:]*\.[^:]*$"
"""Ops that are annotations in truth: `ProfilerStep#2`, `Optimizer.step#SGD.step`, `DistributedDataParallel.forward`."""


def by_rules(linked: LinkedTrace, rules: Callable[[pl.DataFrame], pl.DataFrame]) -> dict[str, NDArray[Any]]:
    """What rules say of each row of `host_tree`, by column.

    Args:
        linked: one rank.
        rules: take distinct pairs of `name` and `category`, as text without nulls, and give a row without nulls for
            each.
    """
    distinct, codes = linked.derived(_distinct)
    return {column.name: column.to_numpy()[codes] for column in rules(distinct).get_columns()}


def kinds(linked: LinkedTrace) -> dict[str, NDArray[Any]]:
    """What each row of `host_tree` is, as flags.

    `is_op`; `is_annotation`, steps among them; `is_frame`, a Python function; `is_user_frame`; `is_module`, a call of
    an nn.Module. Until 2022 annotations were ops: they are told by their names.
    """
    return linked.derived(_kinds)


def is_in_role(*roles: Role) -> pl.Expr:
    """Whether the column `category`, as text, plays one of these roles."""
    return pl.col("category").is_in(categories_of(*roles))


def is_operator() -> pl.Expr:
    """Whether the columns `name` and `category`, as text, are those of an op and not of an annotation."""
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
