"""The rule of an op: its family of work, and the formula of its cost."""

from __future__ import annotations

from tracebraid.analysis.efficiency.movement_formulas import MOVEMENT_RULES, TRITON, TRITON_PREFIX
from tracebraid.analysis.efficiency.operands import Cost, Operands, Rule
from tracebraid.analysis.efficiency.product_formulas import NAMES_OVER_A_CACHE, OVER_A_CACHE, PRODUCT_RULES
from tracebraid.analysis.efficiency.tensor_formulas import TENSOR_RULES
from tracebraid.model.answers.efficiency import OpFamily

_MOST = 10**17
"""FLOPs or bytes of an op: no device does as much in a minute; a trace that says so is damaged."""

_RULES: dict[str, Rule] = {**TENSOR_RULES, **MOVEMENT_RULES, **PRODUCT_RULES}

RULE_NAMES = frozenset(_RULES)
"""The ops that a rule counts, beside the kernels of Triton and attention over a cache."""


def rule_of(name: str) -> Rule | None:
    """The rule of an op; None if none counts it."""
    found = _RULES.get(name)
    if found is None and name.startswith(TRITON_PREFIX):
        return TRITON
    if found is None and NAMES_OVER_A_CACHE.search(name):
        return OVER_A_CACHE
    return found


def family_of(name: str) -> OpFamily:
    """Return the kind of work of an op."""
    rule = rule_of(name)
    return OpFamily.UNKNOWN if rule is None else rule.family


def cost_of(rule: Rule, operands: Operands) -> Cost:
    """Compute the cost of an op; impossible amounts are unknown."""
    found = rule.formula(operands)
    flops, size_bytes, causal = (
        value if value is not None and 0 <= value <= _MOST else None
        for value in (found.flops, found.size_bytes, found.causal_flops)
    )
    repeated = 0 if flops is None else min(max(found.repeated_flops, 0), flops)
    return Cost(flops, size_bytes, found.precision, flops if causal is None else causal, repeated)
