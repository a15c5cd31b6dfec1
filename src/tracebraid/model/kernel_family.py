"""Which family a kernel is of: GEMM, attention, elementwise, ...: the rules, and how they are applied.

The kind of a device event decides first (`model.device_kind`: communication, copies and fills, waits), then the op that
launched the kernel, then the kernel's own name. The tables of rules are `model.kernel_family_rules`.
"""

from __future__ import annotations

import re
from functools import cache

import polars as pl

from tracebraid.model.category import Role, categories_of
from tracebraid.model.device_kind import COMMUNICATION, MEMORY, WAIT
from tracebraid.model.kernel_family_rules import (
    FAMILY_RULES,
    FamilyBasis,
    FamilyRule,
    KernelFamily,
    RuleSubject,
)

__all__ = ["family_of", "family_of_kernel_name", "family_of_op", "kernel_families_of"]

_EVALUATE = "autograd::engine::evaluate_function: "
_NAMESPACE = re.compile(r"^void |\(anonymous namespace\)::|<unnamed>::|\bfbgemm(?:_gpu)?::")
"""What of a function's name says nothing about what it does: the type void, namespaces."""
_FILL = re.compile(r"(?i)memset|fill")
_LONGEST_NAME = 2_000
"""Characters of a name that are searched: those of kernels hold whole lambdas, and a file may hold anything."""
_KEY = ["name", "kind", "op_name", "op_category"]


def family_of(name: str, kind: str, op_name: str | None) -> tuple[KernelFamily, FamilyBasis | None]:
    """The family of a device event, and what decided it; nothing did: `OTHER`.

    Args:
        name: the kernel's name.
        kind: see `model.device_kind`.
        op_name: the operator that launched it; None where there is none, or an annotation.
    """
    if kind == COMMUNICATION:
        return KernelFamily.COMMUNICATION, FamilyBasis.KIND
    if kind == WAIT:
        return KernelFamily.WAIT, FamilyBasis.KIND
    if kind == MEMORY:
        return KernelFamily.FILL if _FILL.search(name) else KernelFamily.COPY, FamilyBasis.KIND
    if op_name is not None and (family := family_of_op(op_name)) is not None:
        return family, FamilyBasis.OP
    if (family := family_of_kernel_name(name)) is not None:
        return family, FamilyBasis.NAME
    return KernelFamily.OTHER, None


@cache
def family_of_op(name: str) -> KernelFamily | None:
    """The family of the kernels that an operator launches; None where it launches several, or is not known."""
    name = name.removeprefix(_EVALUATE)[:_LONGEST_NAME]
    rule = next((rule for rule, pattern in _rules(RuleSubject.OP) if pattern.search(name)), None)
    return rule.family if rule is not None else None


@cache
def family_of_kernel_name(name: str) -> KernelFamily | None:
    """The family that a kernel's name shows; None where it shows none."""
    name = name[:_LONGEST_NAME]
    function = _function_of(name)
    for rule, pattern in _rules(RuleSubject.KERNEL, RuleSubject.FUNCTION):
        if pattern.search(name if rule.subject is RuleSubject.KERNEL else function):
            return rule.family
    return None


def kernel_families_of(work: pl.DataFrame) -> pl.DataFrame:
    """The family of each device event, in its row: columns `family` and `family_by`; each pair of names decided once.

    Args:
        work: columns `name`, `kind`, and of the op or annotation that launched it `op_name` and `op_category`, null
            where there is none.
    """
    pairs = work.select(_KEY).unique(maintain_order=True)
    is_op = pl.col("op_category").is_in(categories_of(Role.OP))
    rows = pairs.select("name", "kind", pl.when(is_op).then("op_name")).iter_rows()
    found = [family_of(name or "", kind, op_name) for name, kind, op_name in rows]
    decided = pairs.with_columns(
        pl.Series("family", [family.value for family, _ in found], dtype=pl.String),
        pl.Series("family_by", [basis and basis.value for _, basis in found], dtype=pl.String),
    )
    joined = work.select(_KEY).join(decided, on=_KEY, how="left", nulls_equal=True, maintain_order="left")
    return joined.select("family", "family_by")


def _function_of(name: str) -> str:
    """A kernel's name up to its template arguments and parameters, which may name anything."""
    return re.split(r"[<(]", _NAMESPACE.sub("", name), maxsplit=1)[0]


@cache
def _rules(*subjects: RuleSubject) -> tuple[tuple[FamilyRule, re.Pattern[str]], ...]:
    return tuple((rule, re.compile(rule.pattern)) for rule in FAMILY_RULES if rule.subject in subjects)
