"""Flame graphs for their viewers: speedscope, and all that read collapsed stacks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import polars as pl

from tracebraid.analysis.flames.flame_frames import flame_frames
from tracebraid.api.exports.asking import ask_in_step
from tracebraid.api.exports.options import Exported, ExportOptions
from tracebraid.errors import InputError
from tracebraid.exporters.flames.collapsed import collapsed_lines
from tracebraid.exporters.flames.speedscope import (
    FrameNames,
    speedscope_end,
    speedscope_profile,
    speedscope_start,
)
from tracebraid.files import write_whole
from tracebraid.filesystem.paths import resolved_name
from tracebraid.model.answers import FlameTree
from tracebraid.model.finding import Finding
from tracebraid.model.flame_titles import FLAME_TREE_TITLES
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["write_collapsed", "write_speedscope"]


class _Noticed(NamedTuple):
    """What is noticed while a file is written: frames are counted in a list, each tree's by itself."""

    findings: list[Finding]
    frames: list[int]


def write_speedscope(job: Job, path: Path, options: ExportOptions) -> Exported:
    """Write flame graphs as one file for https://www.speedscope.app: a profile for each rank and tree.

    Args:
        job: the ranks.
        path: the new file; compressed where it ends in `.gz`.
        options: what is exported.

    Returns:
        Its rows are frames.

    Raises:
        ArgumentError: there is no such rank or step.
        InputError: no rank can be read, or there is nothing to draw.
        OutputError: the file is there, or cannot be written.
    """
    noticed = _Noticed([], [])
    write_whole(path, _speedscope(job, options, noticed), overwrite=False)
    return Exported.of(path, sum(noticed.frames), tuple(noticed.findings))


def write_collapsed(job: Job, path: Path, options: ExportOptions) -> Exported:
    """Write flame graphs as collapsed stacks with self times in ns, under a frame for the rank and one for the tree.

    Args:
        job: the ranks.
        path: the new file; compressed where it ends in `.gz`.
        options: what is exported.

    Returns:
        Its rows are frames; those without self time have no line.

    Raises:
        ArgumentError: there is no such rank or step.
        InputError: no rank can be read, or there is nothing to draw.
        OutputError: the file is there, or cannot be written.
    """
    noticed = _Noticed([], [])
    write_whole(path, _collapsed(job, options, noticed), overwrite=False)
    return Exported.of(path, sum(noticed.frames), tuple(noticed.findings))


def _speedscope(job: Job, options: ExportOptions, noticed: _Noticed) -> Iterator[bytes]:
    shared = FrameNames()
    yield speedscope_start(f"Tracebraid: {resolved_name(job.path)}")
    for rank, tree, frames in _trees(job, options, noticed):
        if len(noticed.frames) > 1:
            yield b",\n"
        yield from speedscope_profile(frames, f"rank {rank}: {tree}", shared)
    yield from speedscope_end(shared)


def _collapsed(job: Job, options: ExportOptions, noticed: _Noticed) -> Iterator[bytes]:
    for rank, tree, frames in _trees(job, options, noticed):
        yield from collapsed_lines(frames, (f"rank {rank}", tree))


def _trees(job: Job, options: ExportOptions, noticed: _Noticed) -> Iterator[tuple[int, str, pl.DataFrame]]:
    """Rank, title and frames of each tree.

    Raises:
        InputError: there is none.
    """
    question = partial(_frames, options.annotation)
    for rank, frames in ask_in_step(job, options, question, noticed.findings):
        for (tree,), rows in frames.group_by(["tree"], maintain_order=True):
            noticed.frames.append(rows.height)
            yield rank, FLAME_TREE_TITLES[FlameTree(tree)], rows
    if not noticed.frames:
        problem = "there is no event to draw a flame graph of"
        raise InputError(job.path, problem, "Capture host ops (ProfilerActivity.CPU) or work of a device")


def _frames(annotation: str, linked: LinkedTrace, step: str | None) -> tuple[int, pl.DataFrame]:
    return linked.rank, flame_frames(linked, annotation, step)
