"""Ops that compute and move nothing: views of a tensor, and memory that is only reserved."""

from __future__ import annotations

from tracebraid.analysis.efficiency.formulas.cost import Cost, Rule
from tracebraid.analysis.efficiency.operands import Operands
from tracebraid.model.answers.efficiency import OpFamily

__all__ = ["RULES"]

_NAMES = (
    "view t transpose expand as_strided detach detach_ slice select unsqueeze squeeze permute narrow chunk split "
    "split_with_sizes unbind alias diagonal unfold movedim swapaxes view_as expand_as unflatten tensor_split T mT "
    "numpy_T adjoint real imag view_as_real view_as_complex _unsafe_view _reshape_alias lift_fresh empty empty_like "
    "empty_strided new_empty new_empty_strided resize_ set_ requires_grad_ resolve_conj resolve_neg conj _conj "
    "result_type record_stream squeeze_ unsqueeze_ transpose_ t_ as_strided_ hsplit vsplit"
)


def _nothing(_op: Operands) -> Cost:
    return Cost(0, 0)


RULES: dict[str, Rule] = {
    **{f"aten::{name}": Rule(OpFamily.VIEW, _nothing) for name in _NAMES.split()},
    "detach": Rule(OpFamily.VIEW, _nothing),
    "detach_": Rule(OpFamily.VIEW, _nothing),
}
"""How views are counted: not at all. `reshape` and `contiguous` may copy; the copy inside them counts."""
