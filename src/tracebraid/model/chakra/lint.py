"""`LintFinding`, `RankLint` and `ChakraCheck`: what a check of `.et` files found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tracebraid.model.chakra.lint_code import LintCode
from tracebraid.model.chakra.lint_rules import LINT_RULES
from tracebraid.model.check import Severity

__all__ = ["ChakraCheck", "CheckedChakraRank", "LintFinding", "RankNode"]


@dataclass(frozen=True)
class RankNode:
    """A node of a rank."""

    rank: int
    node_id: int

    def __str__(self) -> str:
        """A few words for people."""
        return f"rank {self.rank} node {self.node_id}"


@dataclass(frozen=True)
class LintFinding:
    """Something in `.et` files that a simulator cannot run, or not as it is meant.

    Args:
        code: what it is.
        path: the file; "" where it is no single file's matter.
        nodes: the first nodes that it is about.
        count: how many times it was found.
        details: values of the fields of its sentence in `lint_rules`.
    """

    code: LintCode
    path: str = ""
    nodes: tuple[RankNode, ...] = ()
    count: int = 1
    details: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def severity(self) -> Severity:
        """How much it matters."""
        return LINT_RULES[self.code].severity

    @property
    def message(self) -> str:
        """What was found, for people: nothing to compare or to search."""
        return LINT_RULES[self.code].template.format_map(dict(self.details))

    @property
    def advice(self) -> str:
        """What to do about it, for people."""
        return LINT_RULES[self.code].advice

    def __str__(self) -> str:
        """One line for people."""
        nodes = ", ".join(map(str, self.nodes))
        location = ", ".join(part for part in (self.path, nodes) if part)
        times = f" ({self.count:,} times)" if self.count > 1 else ""
        return f"{location + ': ' if location else ''}{self.message}{times}"


@dataclass(frozen=True)
class CheckedChakraRank:
    """A rank that was checked.

    Args:
        rank: its number.
        path: of its file.
        nodes: how many it has.
        dependencies: how many of them are followed; one that stands in both lists counts twice.
        collectives: collective nodes.
        sends: nodes that send.
        receives: nodes that receive.
    """

    rank: int
    path: str
    nodes: int
    dependencies: int
    collectives: int
    sends: int
    receives: int


@dataclass(frozen=True)
class ChakraCheck:
    """The result of a check of a job's `.et` files.

    Args:
        path: what was checked.
        ranks: those that could be read, ascending.
        findings: what was found, errors first.
    """

    path: str
    ranks: tuple[CheckedChakraRank, ...]
    findings: tuple[LintFinding, ...]

    @property
    def runs(self) -> bool:
        """Whether there is no error: nothing known keeps a simulator from running it to the end."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)
