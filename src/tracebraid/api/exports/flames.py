"""Flame graphs for their viewers: speedscope, and all that read collapsed stacks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from tracebraid.analysis.flames.flame_frames import flame_frames
from tracebraid.api.exports.steps import asked_ranks, found_in_steps, of_rank
from tracebraid.errors import InputError
from tracebraid.exporters.flames.collapsed import collapsed_lines
from tracebraid.exporters.flames.speedscope import (
    FrameNames,
    speedscope_end,
    speedscope_profile,
    speedscope_start,
)
from tracebraid.files import refuse_existing, write_whole
from tracebraid.model.answers import FlameTree
from tracebraid.model.flame_titles import FLAME_TREE_TITLES
from tracebraid.model.job import Job

if TYPE_CHECKING:
    from tracebraid.api.exports.export import ExportOptions

__all__ = ["write_collapsed", "write_speedscope"]


def write_speedscope(job: Job, path: Path, options: ExportOptions) -> None:
    """Write flame graphs as one file for https://www.speedscope.app: a profile for each rank and tree.

    Args:
        job: the ranks.
        path: the new file; compressed where it ends in `.gz`.
        options: `rank`, `step`, `annotation`.

    Raises:
        ArgumentError: there is no such rank or step.
        InputError: a file cannot be read, or there is nothing to draw.
        OutputError: the file is there, or cannot be written.
    """
    refuse_existing([path])
    write_whole(path, _speedscope(job, options), overwrite=False)


def write_collapsed(job: Job, path: Path, options: ExportOptions) -> None:
    """Write flame graphs as collapsed stacks with self times in ns, under a frame for the rank and the tree.

    Args:
        job: the ranks.
        path: the new file; compressed where it ends in `.gz`.
        options: `rank`, `step`, `annotation`.

    Raises:
        ArgumentError: there is no such rank or step.
        InputError: a file cannot be read, or there is nothing to draw.
        OutputError: the file is there, or cannot be written.
    """
    refuse_existing([path])
    write_whole(path, _collapsed(job, options), overwrite=False)


def _speedscope(job: Job, options: ExportOptions) -> Iterator[bytes]:
    shared = FrameNames()
    first = True
    yield speedscope_start(f"Tracebraid: {Path(job.path).resolve().name}")
    for rank, tree, frames in _trees(job, options):
        if not first:
            yield b",\n"
        yield from speedscope_profile(frames, f"rank {rank}: {tree}", shared)
        first = False
    yield from speedscope_end(shared)


def _collapsed(job: Job, options: ExportOptions) -> Iterator[bytes]:
    for rank, tree, frames in _trees(job, options):
        yield from collapsed_lines(frames, (f"rank {rank}", tree))


def _trees(job: Job, options: ExportOptions) -> Iterator[tuple[int, str, pl.DataFrame]]:
    """Rank, name of the tree, and its frames.

    Raises:
        InputError: there is none.
    """
    found = False
    for frames in _frames(job, options):
        for (rank, tree), rows in frames.group_by(["rank", "tree"], maintain_order=True):
            found = True
            yield int(str(rank)), FLAME_TREE_TITLES[FlameTree(tree)], rows
    if not found:
        raise InputError(
            job.path, "there is nothing to draw a flame graph of", "Capture host ops or device work"
        )


def _frames(job: Job, options: ExportOptions) -> Iterator[pl.DataFrame]:
    with_steps = partial(of_rank, options=options, question=flame_frames)
    return found_in_steps(job.each(with_steps, asked_ranks(options)), options)
