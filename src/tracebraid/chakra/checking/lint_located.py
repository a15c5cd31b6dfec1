"""Findings with the first nodes that they are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from tracebraid.model.chakra.lint import LintFinding, RankNode
from tracebraid.model.chakra.lint_code import LintCode
from tracebraid.model.printable import printable

__all__ = ["Located", "short"]

_NODES_NAMED = 5
"""Of more nodes with the same fault the first are named, and all are counted."""
_NAME_CHARACTERS = 60
"""Of a name in a sentence: names of kernels are told apart by less, and a damaged file may hold one of megabytes."""


@dataclass(frozen=True)
class Located:
    """Makes the findings of a rank.

    Args:
        rank: the number of the rank.
        path: of its file.
    """

    rank: int
    path: str

    def finding(self, code: LintCode, node_ids: Sequence[int] | pl.Series, **details: object) -> LintFinding:
        """A finding about these nodes."""
        nodes = tuple(RankNode(self.rank, int(node)) for node in node_ids[:_NODES_NAMED])
        return LintFinding(code, self.path, nodes, max(1, len(node_ids)), details)

    def where(self, nodes: pl.DataFrame, wrong: pl.Expr, code: LintCode) -> list[LintFinding]:
        """A finding about the nodes for which an expression holds, if it does for any."""
        found = nodes.lazy().filter(wrong).select("node_id").collect().get_column("node_id")
        return [self.finding(code, found)] if len(found) else []

    def where_values(
        self, nodes: pl.DataFrame, wrong: pl.Expr, code: LintCode, field: str, value: str
    ) -> list[LintFinding]:
        """Likewise, one for each value of a column, which the sentence names by this field."""
        found = nodes.filter(wrong).group_by(value, maintain_order=True).agg("node_id")
        return [
            self.finding(code, node_ids, **{field: short(shown) if isinstance(shown, str) else shown})
            for shown, node_ids in found.select(value, "node_id").iter_rows()
        ]


def short(name: str) -> str:
    """A name as a sentence shows it."""
    name = name if len(name) <= _NAME_CHARACTERS else f"{name[: _NAME_CHARACTERS - 3]}..."
    return printable(name)
