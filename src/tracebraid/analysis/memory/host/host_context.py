"""What surrounds each host event: op, module, annotation, phase of the step; and which host event holds a moment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.host_parents import host_names, host_parents
from tracebraid.analysis.memory.host.host_names import kinds_of_names
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.nearest import nearest_ancestors, nearest_rows

__all__ = ["HostContext", "host_context"]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
_NONE = -1


@dataclass(frozen=True)
class HostContext:
    """The host events of a `host_tree`, one row each; a row number of -1 means that there is none.

    Args:
        event_id: event of each row, rising.
        start_ns: its start.
        end_ns: its end, cut where it outlasts its parent.
        lane: its thread.
        depth: number of host events that enclose it.
        parent: row of the innermost host event that encloses it.
        any_op: row of the innermost op that holds it, itself included.
        op: the same, of those that do more than allocate, or the innermost where none does.
        top_op: row of the outermost op that holds it.
        module: row of the innermost nn.Module call that holds it, or the forward op that it is the backward of.
        annotation: row of the innermost annotation that holds it and is no step.
        phase: code of its phase: index in `list(TrainingPhase)`.
        phase_row: row of the op or annotation that says so.
        in_collective: whether it, or what holds it, is an op of a communication library.
    """

    event_id: _Ints
    start_ns: _Ints
    end_ns: _Ints
    lane: _Ints
    depth: _Ints
    parent: _Ints
    any_op: _Ints
    op: _Ints
    top_op: _Ints
    module: _Ints
    annotation: _Ints
    phase: _Ints
    phase_row: _Ints
    in_collective: _Bools

    def rows(self, events: _Ints) -> _Ints:
        """The rows of some events; -1 for those that have none, such as -1."""
        if not len(self.event_id):
            return np.full(len(events), _NONE, dtype=np.int64)
        rows = np.minimum(np.searchsorted(self.event_id, events), len(self.event_id) - 1)
        found: _Ints = np.where(self.event_id[rows] == events, rows, _NONE)
        return found

    def holding(self, moments: _Ints, lanes: _Ints) -> _Ints:
        """Row of the innermost host event that each moment of a thread lies in, its end excluded.

        The last event to start before a moment is in all that hold the moment: from it, up the tree, to the first
        that has not ended.
        """
        order = np.lexsort((self.depth, self.start_ns, self.lane))
        found = np.full(len(moments), _NONE, dtype=np.int64)
        for lane in np.unique(lanes):
            begin, end = np.searchsorted(self.lane[order], [lane, lane + 1])
            rows = order[begin:end]
            chosen = np.flatnonzero(lanes == lane)
            last = np.searchsorted(self.start_ns[rows], moments[chosen], side="right") - 1
            found[chosen] = np.where(last >= 0, rows[np.maximum(last, 0)] if len(rows) else _NONE, _NONE)
        over = np.flatnonzero((found >= 0) & (self.end_ns[found] <= moments)) if len(order) else found[:0]
        while len(over):
            found[over] = self.parent[found[over]]
            over = over[(found[over] >= 0) & (self.end_ns[found[over]] <= moments[over])]
        return found

    def of_rows(self, values: _Ints, rows: _Ints) -> _Ints:
        """What a column of this context has in some rows; -1 for -1."""
        none = np.full(len(rows), _NONE, dtype=np.int64)
        return np.where(rows >= 0, values[rows], none) if len(values) else none

    def names(self, rows: _Ints, linked: LinkedTrace) -> pl.Series:
        """The names of the events of some rows; null for -1."""
        events = pl.Series(np.where(rows >= 0, self.event_id[rows], _NONE) if len(self.event_id) else rows)
        known = events.set(events < 0, None)
        names: pl.Series = linked.timeline.events.get_column("name").gather(known).cast(pl.String)
        return names


def host_context(linked: LinkedTrace) -> HostContext:
    """The context of all host events, kept with the linked trace."""
    return linked.derived(_host_context)


def _host_context(linked: LinkedTrace) -> HostContext:
    tree, rows = linked.host_tree, host_names(linked)
    kinds = kinds_of_names(rows)
    event_id = _ints(rows, "event_id")
    enclosing = host_parents(linked).enclosing
    parent = np.where(enclosing == np.arange(len(enclosing)), _NONE, enclosing)
    start = _ints(rows, "ts_ns")
    is_op = kinds.is_op
    any_op = nearest_rows(parent, is_op)
    op = nearest_rows(parent, is_op & ~kinds.allocates)
    is_top = is_op & (nearest_ancestors(parent, is_op) == _NONE)
    phase_row = nearest_rows(parent, kinds.phase >= 0)
    return HostContext(
        event_id=event_id,
        start_ns=start,
        end_ns=start + _ints(tree, "inclusive_ns"),
        lane=_ints(rows, "lane"),
        depth=_ints(tree, "depth"),
        parent=parent,
        any_op=any_op,
        op=np.where(op == _NONE, any_op, op),
        top_op=nearest_rows(parent, is_top),
        module=_modules(linked, parent, event_id, kinds.is_module),
        annotation=nearest_rows(parent, kinds.is_annotation),
        phase=kinds.phase_of(phase_row, any_op),
        phase_row=phase_row,
        in_collective=nearest_rows(parent, kinds.communicates) != _NONE,
    )


def _modules(linked: LinkedTrace, parent: _Ints, event_id: _Ints, is_module: _Bools) -> _Ints:
    """In backward the module of the forward op, where the trace has the sequence numbers."""
    if not is_module.any():
        return np.full(len(parent), _NONE, dtype=np.int64)
    own = nearest_rows(parent, is_module)
    pairs = linked.forward_backward.select("backward_event", "forward_event").unique(
        "backward_event", keep="first", maintain_order=True
    )
    backward, forward = (
        np.searchsorted(event_id, pairs.get_column(name).to_numpy()) for name in pairs.columns
    )
    of_forward = np.full(len(parent), _NONE, dtype=np.int64)
    of_forward[backward] = own[forward]
    marks = np.zeros(len(parent), dtype=np.bool_)
    marks[backward] = True
    mark = nearest_rows(parent, marks)
    found: _Ints = np.where((own == _NONE) & (mark != _NONE), of_forward[mark], own)
    return found


def _ints(frame: pl.DataFrame, column: str) -> _Ints:
    values: _Ints = frame.get_column(column).to_numpy()
    return values
