"""`Job`: the linked traces of all ranks of a run, read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tracebraid.errors import ArgumentError
from tracebraid.model.finding import Finding
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["Job", "RankFiles"]


@dataclass(frozen=True)
class RankFiles:
    """The files of one rank.

    Args:
        rank: the rank.
        kineto: path of the Kineto trace; None where there is none.
        et: path of the Execution Trace; None where there is none.
    """

    rank: int
    kineto: str | None
    et: str | None


@dataclass(frozen=True)
class Job:
    """A run's ranks. `job[rank]` reads and links that rank, and keeps it.

    Args:
        path: the folder or file that was opened.
        files: the files of each rank, in the order of ranks.
        load: reads and links one rank.
        findings: what was noticed about the files.
    """

    path: str
    files: tuple[RankFiles, ...]
    load: Callable[[RankFiles], LinkedTrace]
    findings: tuple[Finding, ...] = ()
    _loaded: dict[int, LinkedTrace] = field(default_factory=dict)

    @property
    def ranks(self) -> list[int]:
        """The ranks that have a Kineto trace, and so can be opened."""
        return [one.rank for one in self.files if one.kineto is not None]

    def __len__(self) -> int:
        return len(self.ranks)

    def __getitem__(self, rank: int) -> LinkedTrace:
        """The linked trace of a rank.

        Raises:
            ArgumentError: there is no Kineto trace of that rank.
            InputError: its files cannot be read.
        """
        if rank not in self._loaded:
            files = next((one for one in self.files if one.rank == rank and one.kineto is not None), None)
            if files is None:
                have = ", ".join(str(one) for one in self.ranks) or "none"
                raise ArgumentError(f"{self.path} has no Kineto trace of rank {rank}; it has ranks {have}")
            self._loaded[rank] = self.load(files)
        return self._loaded[rank]

    def __iter__(self) -> Iterator[LinkedTrace]:
        """The linked traces of all ranks, one after the other; those not opened before are not kept."""
        for files in self.files:
            if files.kineto is not None:
                yield self._loaded[files.rank] if files.rank in self._loaded else self.load(files)
