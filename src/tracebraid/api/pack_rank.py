"""The work of a pack on one rank."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tracebraid.api.stored_questions import store_answers
from tracebraid.errors import InputError
from tracebraid.importers.discovery.fingerprint import fingerprint
from tracebraid.model.engine import LoadingWork
from tracebraid.model.rank_files import Progress, RankFiles
from tracebraid.model.source_file import SourceFile
from tracebraid.store.manifest import PackOptions, RankEntry
from tracebraid.store.rank_writer import write_rank

__all__ = ["PackRank"]


@dataclass(frozen=True)
class PackRank(LoadingWork):
    """Reads a rank and writes it into a store: the work that an engine runs.

    Args:
        store: the folder of the store.
        options: with what it is packed.
    """

    store: str
    options: PackOptions

    def __call__(self, files: RankFiles, progress: Progress | None) -> RankEntry:
        """See `RankWork`."""
        assert files.kineto is not None, "only ranks that have a Kineto trace are packed"
        # Before they are read: a file that changes meanwhile is packed again.
        sources = fingerprint(files.kineto), _fingerprint_of_et(files.et)
        linked = self.load(files, progress)
        store_answers(Path(self.store), files.rank, linked)
        return write_rank(Path(self.store), linked, files.rank, sources, self.options)


def _fingerprint_of_et(path: str | None) -> SourceFile | None:
    """Of an Execution Trace that cannot be read only the path: the rank is packed without, and tried again."""
    if path is None:
        return None
    try:
        return fingerprint(path)
    except InputError:
        return SourceFile(path)
