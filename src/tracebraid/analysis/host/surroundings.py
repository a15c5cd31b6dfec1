"""Which op, annotation, module and Python function is each host event in?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.host.backward_ops import with_forward
from tracebraid.analysis.host.host_rows import NO_ROW, host_rows
from tracebraid.analysis.host.name_rules import by_rules, kinds
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.nearest import nearest_rows
from tracebraid.model.step import is_step_name

__all__ = ["Surroundings", "nearest_or_none", "surroundings"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Surroundings:
    """For each row of `host_tree`, itself included: what encloses it on its thread. Rows; -1 where there is none.

    One more row at the end, which index -1 finds, stands for no host event at all.

    Args:
        op: innermost op.
        top_op: outermost op.
        annotation: innermost annotation that is no step.
        module: innermost call of an nn.Module; of the backward pass that of the forward op.
        frame: innermost Python function of the user's (`model.user_frame`); where there is none, the innermost of all.
    """

    op: _Ints
    top_op: _Ints
    annotation: _Ints
    module: _Ints
    frame: _Ints


def surroundings(linked: LinkedTrace, annotation: str) -> Surroundings:
    """What surrounds all host events, kept with the linked trace.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    return linked.derived(_surroundings, annotation)


def nearest_or_none(linked: LinkedTrace, wanted: NDArray[Any]) -> _Ints:
    """For each row the nearest wanted row among itself and all that enclose it, -1 for none; and one more row, -1."""
    if not wanted.any():
        return np.full(len(wanted) + 1, NO_ROW, dtype=np.int64)
    found: _Ints = np.r_[nearest_rows(host_rows(linked).parent, wanted.astype(np.bool_)), NO_ROW]
    return found


def _surroundings(linked: LinkedTrace, annotation: str) -> Surroundings:
    found = kinds(linked)
    step = by_rules(
        linked, lambda names: names.select(is_step_name(pl.col("name"), annotation).alias("is_step"))
    )
    op = nearest_or_none(linked, found["is_op"])
    frame = nearest_or_none(linked, found["is_user_frame"])
    module = nearest_or_none(linked, found["is_module"])
    if found["is_module"].any():
        module = np.r_[with_forward(linked, module[:-1]), NO_ROW]
    return Surroundings(
        op,
        # The op that the parent of no op lies in.
        nearest_or_none(linked, found["is_op"] & (op[host_rows(linked).parent] < 0)),
        nearest_or_none(linked, found["is_annotation"] & ~step["is_step"]),
        module,
        np.where(frame >= 0, frame, nearest_or_none(linked, found["is_frame"])),
    )
