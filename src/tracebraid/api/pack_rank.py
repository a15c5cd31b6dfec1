"""The work of a pack on one rank."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tracebraid.api.stored_questions import store_answers
from tracebraid.api.traces import archive_of_load
from tracebraid.errors import InputError
from tracebraid.filesystem.choose import in_archive
from tracebraid.importers.discovery.fingerprint import State, fingerprint, state_of, unless_changed
from tracebraid.linking.cut_steps import cut_to_steps
from tracebraid.linking.link_traces import link_traces
from tracebraid.model.engine import LoadingWork
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.matching import Matching
from tracebraid.model.rank_files import Progress, RankFiles
from tracebraid.model.source_file import SourceFile
from tracebraid.store.manifest import PackOptions, RankEntry
from tracebraid.store.rank_writer import write_rank

__all__ = ["LoadSteps", "PackRank"]


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
        located = in_archive(archive_of_load(self.load), files)
        assert located.kineto is not None, "only ranks that have a Kineto trace are packed"
        before = state_of(located.kineto)
        et_before = None if located.et is None else state_of(located.et)
        with ThreadPoolExecutor(1) as beside:
            kineto = beside.submit(fingerprint, located.kineto)
            linked = self.load(files, progress)
        # A file that was changed while it was read is packed again by the next pack.
        sources = (
            unless_changed(kineto.result(), located.kineto, before),
            _fingerprint_of_et(located.et, et_before),
        )
        store_answers(Path(self.store), files.rank, linked)
        return write_rank(Path(self.store), linked, files.rank, sources, self.options)


@dataclass(frozen=True)
class LoadSteps(LoadingWork):
    """Opens a rank, cut to some steps.

    Args:
        matching: how its two traces are matched.
        steps: the numbers of the steps.
    """

    matching: Matching
    steps: tuple[range, ...]

    def __call__(self, files: RankFiles, progress: Progress | None) -> LinkedTrace:
        """See `Load`."""
        whole: LinkedTrace = self.load(files, progress)
        timeline = cut_to_steps(whole.timeline, whole.launches, self.steps)
        return link_traces(timeline, whole.stages.et, self.matching)


def _fingerprint_of_et(path: str | None, before: State | None) -> SourceFile | None:
    """Of an Execution Trace that cannot be read only the path: the rank is packed without, and tried again."""
    if path is None or before is None:
        return None
    try:
        return unless_changed(fingerprint(path), path, before)
    except InputError:
        return SourceFile(str(path))
