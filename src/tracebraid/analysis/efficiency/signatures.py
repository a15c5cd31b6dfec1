"""The cost of each way in which an op was called, computed once."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.efficiency.calls import SIGNATURE, calls_of
from tracebraid.analysis.efficiency.formulas.cost import Cost
from tracebraid.analysis.efficiency.formulas.rules import cost_of, family_of, rule_of
from tracebraid.analysis.efficiency.operands import UnknownOperandError, operands_of
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["calls_with_costs"]

_COSTS = {
    "family": pl.String,
    "has_rule": pl.Boolean,
    "is_composite": pl.Boolean,
    "precision": pl.String,
    "flops": pl.Int64,
    "causal_flops": pl.Int64,
    "bytes": pl.Int64,
    "repeated_flops": pl.Int64,
}
_UNKNOWN = Cost(None, None)


def calls_with_costs(linked: LinkedTrace) -> pl.DataFrame:
    """The rows of `calls_of` with family, has_rule, is_composite, precision, flops, causal_flops, bytes and
    repeated_flops.

    An op that lies in another of these has its own cost all the same: who adds them up says which count.
    """
    return linked.derived(_calls_with_costs)


def _calls_with_costs(linked: LinkedTrace) -> pl.DataFrame:
    calls = calls_of(linked)
    unique = calls.select(SIGNATURE).unique(maintain_order=True)
    rows = [_row(signature) for signature in unique.iter_rows()]
    costs = pl.concat([unique, pl.DataFrame(rows, schema=_COSTS, orient="row")], how="horizontal")
    return calls.join(costs, on=SIGNATURE, how="left", nulls_equal=True, maintain_order="left")


def _row(signature: tuple[object, ...]) -> tuple[object, ...]:
    name, *texts, group_size = signature
    rule = rule_of(str(name))
    if rule is None:
        return (family_of(str(name)).value, False, False, None, None, None, None, None)
    inputs = [text if isinstance(text, str) else None for text in texts]
    size = group_size if isinstance(group_size, int) else None
    try:
        operands = operands_of(str(name), tuple(inputs[:4]), tuple(inputs[4:]), size)
        found = cost_of(rule, operands)
    except (UnknownOperandError, RecursionError):
        found = _UNKNOWN
    precision = None if found.precision is None else found.precision.value
    amounts = (found.flops, found.causal_flops, found.size_bytes, found.repeated_flops)
    return (rule.family.value, True, rule.composite, precision, *amounts)
