"""What the names of host events say: which only allocate, which belong to which phase of a training step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.answers import TrainingPhase
from tracebraid.model.category import Role, categories_of
from tracebraid.model.device_kind import host_op_communicates
from tracebraid.model.expressions import as_text
from tracebraid.model.name_rules import distinct_pairs
from tracebraid.model.step import is_profiler_step

__all__ = ["HostKinds", "kinds_of_names", "phase_code", "phase_names"]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]

_PHASES = [phase.value for phase in TrainingPhase]
"""Phases in the order of their codes."""

_ALLOCATES = (
    r"^aten::(new_)?(empty|zeros|ones|full|clone|resize)(_like|_strided|_quantized|_permuted)?_?$|"
    r"^aten::(to|_to_copy|contiguous|detach)$|^inductor::_alloc_from_pool$"
)
"""Ops whose purpose is the tensor that they make: the op around them says more."""

_BACKWARD = r"^autograd::engine::|^torch::autograd::|^(\w+::)*\w+Backward\d*$"
"""Nodes of autograd, as its engine runs them."""

_PHASE_OF_ANNOTATION = {
    TrainingPhase.OPTIMIZER: r"^Optimizer\.step#",
    TrainingPhase.ZERO_GRAD: r"^Optimizer\.zero_grad#",
    TrainingPhase.LOADING: r"^enumerate\(DataLoader\)#",
}
"""Annotations that PyTorch itself makes."""

_MODULE = "nn.Module: "


def phase_code(phase: TrainingPhase) -> int:
    """The code of a phase."""
    return _PHASES.index(phase.value)


def phase_names(codes: _Ints) -> pl.Series:
    """The phases of some codes; null for -1."""
    numbers = pl.Series(codes, dtype=pl.Int64)
    names: pl.Series = numbers.replace_strict(
        list(range(len(_PHASES))), _PHASES, default=None, return_dtype=pl.String
    )
    return names


@dataclass(frozen=True)
class HostKinds:
    """Of each host event what its name and category say.

    Args:
        is_op: it is an operator.
        is_annotation: it is an annotation, and no step.
        is_module: it is a call of an nn.Module.
        allocates: it is an op that only makes a tensor.
        communicates: it is of a communication library.
        phase: code of the phase that it marks; -1: none.
    """

    is_op: _Bools
    is_annotation: _Bools
    is_module: _Bools
    allocates: _Bools
    communicates: _Bools
    phase: _Ints

    def phase_of(self, phase_row: _Ints, any_op: _Ints) -> _Ints:
        """The phase of each event by the row that marks it; without: forward in an op."""
        other = np.where(any_op >= 0, phase_code(TrainingPhase.FORWARD), phase_code(TrainingPhase.OTHER))
        found: _Ints = np.where(phase_row >= 0, self.phase[phase_row], other) if len(any_op) else other
        return found


def kinds_of_names(events: pl.DataFrame) -> HostKinds:
    """What names and categories say of host events.

    Args:
        events: columns `name` and `category`.
    """
    key = ["name", "category"]
    pairs, row = distinct_pairs(events.get_column("name"), events.get_column("category"))
    unique = pairs.with_columns(as_text(*key))
    name, category = pl.col("name").fill_null(""), pl.col("category")
    # Until 2022 annotations were ops.
    named = is_profiler_step(name) | pl.any_horizontal(
        name.str.contains(pattern) for pattern in _PHASE_OF_ANNOTATION.values()
    )
    is_op = category.is_in(categories_of(Role.OP)) & ~named
    is_annotation = category.is_in(categories_of(Role.ANNOTATION)) | (
        category.is_in(categories_of(Role.OP)) & named
    )
    marks = [
        pl.when(is_annotation & name.str.contains(pattern)).then(phase_code(marked))
        for marked, pattern in _PHASE_OF_ANNOTATION.items()
    ]
    marks.append(pl.when(is_op & name.str.contains(_BACKWARD)).then(phase_code(TrainingPhase.BACKWARD)))
    flags = unique.with_columns(
        is_op.alias("is_op"),
        (is_annotation & ~is_profiler_step(name)).alias("is_annotation"),
        (category.is_in(categories_of(Role.PYTHON)) & name.str.starts_with(_MODULE)).alias("is_module"),
        (is_op & name.str.contains(_ALLOCATES)).alias("allocates"),
        host_op_communicates(unique).alias("communicates"),
        pl.coalesce(*marks, -1).cast(pl.Int64).alias("phase"),
    )
    found = flags.drop(key).select(pl.all().gather(pl.Series(row)))
    bools = ("is_op", "is_annotation", "is_module", "allocates", "communicates")
    columns = {name: found.get_column(name).fill_null(value=False).to_numpy() for name in bools}
    return HostKinds(**columns, phase=found.get_column("phase").fill_null(-1).to_numpy())
