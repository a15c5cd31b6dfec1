"""`Job`: the linked traces of all ranks of a run, read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from tracebraid.errors import ArgumentError
from tracebraid.model.finding import Finding
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["Job", "Progress", "RankFiles"]

Progress: TypeAlias = Callable[[float], None]
"""Is told how far something is, 0 to 1."""


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
        load: reads and links one rank, and tells how far it is.
        findings: what was noticed about the files.
    """

    path: str
    files: tuple[RankFiles, ...]
    load: Callable[[RankFiles, Progress | None], LinkedTrace]
    findings: tuple[Finding, ...] = ()
    _loaded: dict[int, LinkedTrace] = field(default_factory=dict)

    def __repr__(self) -> str:
        """What it is, in brief."""
        return f"Job(path={self.path!r}, ranks={len(self.ranks)}, findings={len(self.findings)})"

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
            self._loaded[rank] = self.load(self._files_of(rank), None)
        return self._loaded[rank]

    def __iter__(self) -> Iterator[LinkedTrace]:
        """The linked traces of all ranks, one after the other; those not opened before are not kept."""
        return self.read_all()

    def read_all(
        self, progress: Progress | None = None, ranks: list[int] | None = None
    ) -> Iterator[LinkedTrace]:
        """The linked traces of all ranks, or of some, one after the other.

        Args:
            progress: is told how far each Kineto trace is read, 0 to 1.
            ranks: the ranks; None for all.

        Raises:
            ArgumentError: there is no Kineto trace of such a rank.
            InputError: a file cannot be read.
        """
        for rank in self.ranks if ranks is None else ranks:
            yield self._loaded[rank] if rank in self._loaded else self.load(self._files_of(rank), progress)

    def _files_of(self, rank: int) -> RankFiles:
        files = next((one for one in self.files if one.rank == rank and one.kineto is not None), None)
        if files is None:
            have = ", ".join(str(one) for one in self.ranks) or "none"
            raise ArgumentError(f"{self.path} has no Kineto trace of rank {rank}; it has ranks {have}")
        return files
