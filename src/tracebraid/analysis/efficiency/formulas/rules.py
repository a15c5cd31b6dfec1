"""All rules, by the names of ops."""

from __future__ import annotations

from tracebraid.analysis.efficiency.formulas import (
    attention,
    collectives,
    convolution,
    copies,
    embedding,
    fbgemm,
    indexing,
    loss,
    matmul,
    normalisation,
    optimizer,
    pointwise,
    pooling,
    reduction,
    softmax,
    views,
)
from tracebraid.analysis.efficiency.formulas.cost import Cost, Rule
from tracebraid.analysis.efficiency.operands import Operands
from tracebraid.model.answers.efficiency import OpFamily

__all__ = ["RULE_NAMES", "cost_of", "family_of", "rule_of"]

_MOST = 10**17
"""FLOPs or bytes of an op: no device does as much in a minute; a trace that says so is damaged."""

_RULES: dict[str, Rule] = {
    **views.RULES,
    **pointwise.RULES,
    **reduction.RULES,
    **pooling.RULES,
    **copies.RULES,
    **indexing.RULES,
    **embedding.RULES,
    **fbgemm.RULES,
    **softmax.RULES,
    **normalisation.RULES,
    **loss.RULES,
    **optimizer.RULES,
    **collectives.RULES,
    **matmul.RULES,
    **convolution.RULES,
    **attention.RULES,
}

RULE_NAMES = frozenset(_RULES)
"""The ops that a rule counts, beside the kernels of Triton."""


def rule_of(name: str) -> Rule | None:
    """The rule of an op; None where none counts it."""
    found = _RULES.get(name)
    return copies.TRITON if found is None and name.startswith(copies.TRITON_PREFIX) else found


def family_of(name: str) -> OpFamily:
    """What kind of work an op does."""
    rule = rule_of(name)
    return OpFamily.UNKNOWN if rule is None else rule.family


def cost_of(rule: Rule, operands: Operands) -> Cost:
    """What an op costs; amounts that no device reaches are unknown.

    Raises:
        UnknownOperandError: the trace does not say what the rule needs.
    """
    found = rule.formula(operands)
    flops, size_bytes, causal = (
        value if value is not None and 0 <= value <= _MOST else None
        for value in (found.flops, found.size_bytes, found.causal_flops)
    )
    repeated = 0 if flops is None else min(max(found.repeated_flops, 0), flops)
    return Cost(flops, size_bytes, found.precision, flops if causal is None else causal, repeated)
