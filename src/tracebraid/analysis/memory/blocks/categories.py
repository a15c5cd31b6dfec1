"""What memory is used for, by rules: the first that fits decides. `docs/analyses/memory.md` explains each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.memory.host.host_context import HostContext
from tracebraid.analysis.memory.host.passes import NEVER, Passes
from tracebraid.analysis.memory.host.phase_codes import phase_code
from tracebraid.model.answers import CategoryRule, MemoryCategory, TrainingPhase

__all__ = ["Lives", "categories"]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
_Rule = tuple[_Bools, MemoryCategory, CategoryRule]


@dataclass(frozen=True)
class Lives:
    """Blocks of memory, each from its allocation to its release.

    Args:
        begin_ns: allocation; any number where `before`.
        end_ns: release; `NEVER` where there is none.
        row: row of `host_context` that held the allocation; -1: none.
        before: it was allocated before the trace.
        ends_known: whether `end_ns` are releases; else they are last uses.
        facts: columns of `storage_facts.FACTS`, null where no storage is known.
    """

    begin_ns: _Ints
    end_ns: _Ints
    row: _Ints
    before: _Bools
    ends_known: bool
    facts: pl.DataFrame

    def fact(self, name: str) -> _Bools:
        """One of the facts; false where no storage is known."""
        found: _Bools = self.facts.get_column(name).fill_null(value=False).to_numpy()
        return found


def categories(lives: Lives, context: HostContext, passes: Passes) -> pl.DataFrame:
    """Columns `category`, `rule` and `phase` (as a code; -1: before the trace) of each block."""
    codes = np.where(
        lives.row >= 0, context.of_rows(context.phase, lives.row), phase_code(TrainingPhase.OTHER)
    )
    phase = np.where(lives.before, -1, passes.phases(codes, lives.begin_ns))
    rules = [*_by_storage(lives, phase, passes), *_by_context(lives, phase, context, passes)]
    number = np.select(
        [condition for condition, _, _ in rules], list(range(len(rules))), default=len(rules) - 1
    )
    names = {"category": [c.value for _, c, _ in rules], "rule": [r.value for _, _, r in rules]}
    columns = [pl.Series(name, values).gather(number) for name, values in names.items()]
    return pl.DataFrame([*columns, pl.Series("phase", phase, dtype=pl.Int64)])


def _by_storage(lives: Lives, phase: _Ints, passes: Passes) -> list[_Rule]:
    """What the Execution Trace says of the storage that the block is."""
    before, never = lives.before, lives.end_ns == NEVER
    forward, backward, optimizer = (lives.fact(f"in_{name}") for name in ("forward", "backward", "optimizer"))
    updated, communicated = lives.fact("updated"), lives.fact("communicated")
    made_forward = phase == phase_code(TrainingPhase.FORWARD)
    outlives = before | (lives.end_ns > passes.at(passes.end_ns, passes.holding(lives.begin_ns)))
    early = lives.begin_ns <= passes.at(passes.forward_ns, passes.coming(lives.begin_ns))
    made_outside = phase == phase_code(TrainingPhase.OTHER)
    written = lives.fact("written_in_backward") & (optimizer | ~communicated)
    category, rule = MemoryCategory, CategoryRule
    return [
        (
            lives.fact("accumulated") & (outlives | optimizer | (not lives.ends_known)),
            category.GRADIENTS,
            rule.ACCUMULATED,
        ),
        (lives.fact("zeroed") & ~forward, category.GRADIENTS, rule.ZEROED),
        ((before | made_outside) & written & ~forward, category.GRADIENTS, rule.WRITTEN_BY_BACKWARD),
        (updated & forward & ~made_forward, category.PARAMETERS, rule.UPDATED_BY_OPTIMIZER),
        (lives.fact("as_weight") & (before | (never & early)), category.PARAMETERS, rule.WEIGHT_ARGUMENT),
        (before & lives.fact("as_state"), category.OPTIMIZER_STATE, rule.STATE_ARGUMENT),
        (before & updated & ~forward & ~backward, category.OPTIMIZER_STATE, rule.OPTIMIZER_ONLY),
        (before & communicated, category.COLLECTIVE_BUFFERS, rule.COMMUNICATED),
        (before & forward, category.INPUTS, rule.READ_BY_FORWARD),
        (before, category.BEFORE_TRACE, rule.SEEN_BEFORE_TRACE),
        (made_forward & backward & ~_kept(lives, passes), category.ACTIVATIONS, rule.READ_BY_BACKWARD),
    ]


def _by_context(lives: Lives, phase: _Ints, context: HostContext, passes: Passes) -> list[_Rule]:
    """What the Kineto trace says: what held the allocation, and what it outlives."""
    end, never = lives.end_ns, lives.end_ns == NEVER
    is_in = {name: phase == phase_code(name) for name in TrainingPhase}
    span_end, top_end, collective = _spans(lives, context)
    in_optimizer = is_in[TrainingPhase.OPTIMIZER] | is_in[TrainingPhase.ZERO_GRAD]
    coming = passes.coming(lives.begin_ns)
    is_coming = coming < len(passes.begin_ns)
    at_forward = is_coming & (end > passes.at(passes.forward_ns, coming)) & is_in[TrainingPhase.OTHER]
    over = passes.of_next_step(lives.begin_ns) < len(passes.begin_ns)
    forward = is_in[TrainingPhase.FORWARD]
    pass_end = passes.at(passes.end_ns, passes.holding(lives.begin_ns))
    category, rule = MemoryCategory, CategoryRule
    return [
        (is_in[TrainingPhase.LOADING], category.INPUTS, rule.LOADED),
        (collective, category.COLLECTIVE_BUFFERS, rule.IN_COLLECTIVE),
        (in_optimizer & (end <= span_end), category.TEMPORARIES, rule.RELEASED_IN_PHASE),
        (is_in[TrainingPhase.OPTIMIZER], category.OPTIMIZER_STATE, rule.KEPT_AFTER_OPTIMIZER),
        (is_in[TrainingPhase.BACKWARD] & (end <= pass_end), category.TEMPORARIES, rule.RELEASED_IN_PHASE),
        (is_in[TrainingPhase.BACKWARD], category.GRADIENTS, rule.KEPT_AFTER_BACKWARD),
        (at_forward & never & over, category.PARAMETERS, rule.KEPT_FROM_BEFORE_FORWARD),
        (at_forward, category.INPUTS, rule.MADE_BEFORE_FORWARD),
        (forward & _kept(lives, passes), category.UNKNOWN, rule.KEPT_AFTER_STEP),
        (
            forward & is_coming & (end >= passes.at(passes.begin_ns, coming)),
            category.ACTIVATIONS,
            rule.HELD_FOR_BACKWARD,
        ),
        (forward & is_coming, category.TEMPORARIES, rule.RELEASED_BEFORE_BACKWARD),
        (never, category.UNKNOWN, rule.NEVER_RELEASED),
        (forward & (end > top_end), category.ACTIVATIONS, rule.PASSED_BETWEEN_OPS),
        (forward, category.TEMPORARIES, rule.RELEASED_IN_OP),
        (np.ones(len(end), dtype=np.bool_), category.TEMPORARIES, rule.OUTSIDE_OF_PHASES),
    ]


def _kept(lives: Lives, passes: Passes) -> _Bools:
    """Whether a block made before a pass is alive when the first pass of the next step begins."""
    following = passes.of_next_step(lives.begin_ns)
    found: _Bools = (following < len(passes.begin_ns)) & (
        lives.end_ns > passes.at(passes.begin_ns, following)
    )
    return found


def _spans(lives: Lives, context: HostContext) -> tuple[_Ints, _Ints, _Bools]:
    """End of what marks the phase, end of the outermost op, whether a collective's op holds the allocation."""
    phase_row, top_op = (context.of_rows(rows, lives.row) for rows in (context.phase_row, context.top_op))
    in_collective = context.of_rows(context.in_collective.astype(np.int64), lives.row) == 1
    return _ends(context, phase_row), _ends(context, top_op), in_collective


def _ends(context: HostContext, rows: _Ints) -> _Ints:
    """Ends of the host events of some rows; before all moments for -1."""
    found: _Ints = np.where(rows >= 0, context.of_rows(context.end_ns, rows), -NEVER)
    return found
