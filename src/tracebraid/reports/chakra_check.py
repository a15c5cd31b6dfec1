"""The result of a check of `.et` files, for people and for machines."""

from __future__ import annotations

from typing import Any

from tracebraid.model.chakra.lint import ChakraCheck, LintFinding
from tracebraid.model.check import Severity
from tracebraid.reports.text import printable

__all__ = ["chakra_check_data", "chakra_verdict", "lint_text"]


def lint_text(finding: LintFinding) -> str:
    """A finding, and what to do about it, in two lines."""
    return (
        f"{finding.severity.value}: {finding.code}: {printable(str(finding))}\n  {printable(finding.advice)}"
    )


def chakra_verdict(check: ChakraCheck) -> str:
    """The check in one line."""
    nodes = sum(rank.nodes for rank in check.ranks)
    what = "nothing known keeps a simulator from running it" if check.runs else "a simulator cannot run it"
    counts = {
        severity: sum(finding.severity is severity for finding in check.findings) for severity in Severity
    }
    counted = "".join(
        f"; {count} {severity.value}{'' if count == 1 else 's'}"
        for severity, count in counts.items()
        if count
    )
    ranks = "1 rank" if len(check.ranks) == 1 else f"{len(check.ranks):,} ranks"
    return f"{printable(check.path)}: {ranks}, {nodes:,} nodes: {what}{counted}"


def chakra_check_data(check: ChakraCheck) -> dict[str, Any]:
    """The result as plain data."""
    return {
        "path": check.path,
        "runs": check.runs,
        "ranks": [
            {
                "rank": rank.rank,
                "path": rank.path,
                "nodes": rank.nodes,
                "dependencies": rank.dependencies,
                "collectives": rank.collectives,
                "sends": rank.sends,
                "receives": rank.receives,
            }
            for rank in check.ranks
        ],
        "findings": [_finding_data(finding) for finding in check.findings],
    }


def _finding_data(finding: LintFinding) -> dict[str, Any]:
    return {
        "severity": finding.severity.value,
        "code": finding.code.value,
        "path": finding.path,
        "nodes": [{"rank": node.rank, "node_id": node.node_id} for node in finding.nodes],
        "count": finding.count,
        "message": finding.message,
        "advice": finding.advice,
        "details": dict(finding.details),
    }
