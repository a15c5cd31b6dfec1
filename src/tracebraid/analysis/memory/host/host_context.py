"""What memory is allocated and released in: op, module, annotation, phase of the step."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from tracebraid.analysis.host.host_rows import NO_ROW, HostRows, host_rows
from tracebraid.analysis.host.name_rules import by_rules, kinds
from tracebraid.analysis.host.surroundings import nearest_or_none, surroundings
from tracebraid.analysis.memory.host.memory_rules import memory_rules
from tracebraid.analysis.memory.host.phase_codes import phase_code
from tracebraid.model.answers import TrainingPhase
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["HostContext", "host_context"]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class HostContext(HostRows):
    """The host events with what surrounds each; a row number of -1 means that there is none.

    Args:
        any_op: row of the innermost op that holds it, itself included.
        op: the same, of those that do more than allocate, or the innermost where none does.
        top_op: row of the outermost op that holds it.
        module: row of the innermost nn.Module call that holds it, or the forward op that it is the backward of.
        annotation: row of the innermost annotation that holds it and is no step.
        phase: code of its phase: index in `list(TrainingPhase)`.
        phase_row: row of the op or annotation that says so.
        in_collective: whether it, or what holds it, is an op of a communication library.
    """

    any_op: _Ints
    op: _Ints
    top_op: _Ints
    module: _Ints
    annotation: _Ints
    phase: _Ints
    phase_row: _Ints
    in_collective: _Bools

    def of_rows(self, values: _Ints, rows: _Ints) -> _Ints:
        """What a column of this context has in some rows; -1 for -1."""
        none = np.full(len(rows), NO_ROW, dtype=np.int64)
        return np.where(rows >= 0, values[rows], none) if len(values) else none


def host_context(linked: LinkedTrace) -> HostContext:
    """The context of all host events, kept with the linked trace."""
    return linked.derived(_host_context)


def _host_context(linked: LinkedTrace) -> HostContext:
    host, within = host_rows(linked), surroundings(linked, PROFILER_STEP)
    found = by_rules(linked, memory_rules)
    any_op = within.op[:-1]
    op = nearest_or_none(linked, kinds(linked)["is_op"] & ~found["allocates"])[:-1]
    phase_row = nearest_or_none(linked, found["phase"] >= 0)[:-1]
    marked = np.where(phase_row >= 0, found["phase"][phase_row], NO_ROW) if len(op) else op
    unmarked = np.where(any_op >= 0, phase_code(TrainingPhase.FORWARD), phase_code(TrainingPhase.OTHER))
    return HostContext(
        **{member.name: getattr(host, member.name) for member in fields(host)},
        any_op=any_op,
        op=np.where(op == NO_ROW, any_op, op),
        top_op=within.top_op[:-1],
        module=within.module[:-1],
        annotation=within.annotation[:-1],
        phase=np.where(marked >= 0, marked, unmarked),
        phase_row=phase_row,
        in_collective=nearest_or_none(linked, found["communicates"])[:-1] != NO_ROW,
    )
