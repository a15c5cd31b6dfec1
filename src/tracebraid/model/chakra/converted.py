"""`ConvertedCounts`: what became of the nodes of an ET+ file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from tracebraid.model.chakra.chakra_rank import AttributeValue
from tracebraid.model.finding import Finding

__all__ = ["ConvertedChakra", "ConvertedCounts"]


@dataclass(frozen=True)
class ConvertedCounts:
    """What was converted, and what was not.

    Args:
        rank: its number in the simulation.
        nodes: of the ET+ file.
        repeated: nodes whose id another has had before; left out.
        untimed: nodes without a time, as of the process, of threads, and those that were not linked; left out.
        host: nodes on the host that were converted.
        device: nodes on devices that were converted.
        communications: of both, those that became collectives, sends and receives.
        communications_as_compute: those of unknown type, size or peer, which stay compute of the measured time.
        waits_contradicted: dependencies on a node that begins later; left out.
        waits_unknown: dependencies on a node that has no time, or that is not there; left out.
    """

    rank: int
    nodes: int
    repeated: int
    untimed: int
    host: int
    device: int
    communications: int
    communications_as_compute: int
    waits_contradicted: int
    waits_unknown: int

    def attributes(self) -> tuple[tuple[str, AttributeValue], ...]:
        """For the metadata of the file."""
        return tuple((name, value) for name, value in asdict(self).items() if name != "rank")


@dataclass(frozen=True)
class ConvertedChakra:
    """What was written.

    Args:
        paths: the `.et` files, by rank.
        comm_groups: the comm-group file; None: there are no groups but that of all ranks.
        counts: of each rank.
        findings: what was noticed while the ET+ files were read.
    """

    paths: tuple[Path, ...]
    comm_groups: Path | None
    counts: tuple[ConvertedCounts, ...]
    findings: tuple[Finding, ...] = ()
