"""Options of an export, and its result."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracebraid.analysis.device import device_events_by_step
from tracebraid.analysis.flames import flame_frames
from tracebraid.analysis.op_graph import OpGraph, near, op_graph, top
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.chakra.exporting.replay import ChakraReplay
from tracebraid.chakra.options import ChakraOptions
from tracebraid.errors import ArgumentError, InputError
from tracebraid.exporters.flames import (
    FrameNames,
    collapsed_lines,
    speedscope_end,
    speedscope_profile,
    speedscope_start,
)
from tracebraid.exporters.op_graphs import dot_lines, graphml_lines
from tracebraid.files import refuse_target, write_whole
from tracebraid.filesystem.paths import resolved_name
from tracebraid.model.answers.ops import OP_GRAPH_EDGES, OP_GRAPH_NODES, FlameTree
from tracebraid.model.engine import Job
from tracebraid.model.export_format import ExportFormat
from tracebraid.model.finding import Finding
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import some_steps

T = TypeVar("T")


class ExportOptions(Struct, frozen=True):
    """Options of an export.

    Args:
        rank: only this rank; None: all.
        step: only this step: its number, or its name; None: all.
        top: in a graph of ops, only this many with the most time, with what they launched and what encloses them;
            None: all.
        near: in a graph of ops, only ops of this name, with their descendants, enclosing ops and direct
            neighbours; None: all.
        chakra: options of an export to Chakra; None: the default.
    """

    rank: int | None = None
    step: str | None = None
    top: int | None = None
    near: str | None = None
    chakra: ChakraOptions | None = None

    def step_among(self, names: Iterable[str]) -> str | None:
        """Return the one of possible names that is the exported step's, if only among those of exported steps."""
        wanted = (self.step, f"#{self.step}")
        return next((name for name in names if name == wanted[0] or name.endswith(wanted[1])), None)

    def is_step(self, step: pl.Expr) -> pl.Expr:
        """Whether the name of a step is that of the step that is exported."""
        # No step has a name that is no text.
        if self.step is None or any("\ud800" <= letter <= "\udfff" for letter in self.step):
            return pl.lit(value=False)
        return (step == self.step) | step.str.ends_with(f"#{self.step}")


class Exported(Struct, frozen=True):
    """Summary of the written files.

    Args:
        path: the new file or folder.
        files: the number of files.
        size_bytes: the size of all files on disk.
        rows: number of rows, slices, stacks or nodes; None if not counted.
        findings: the findings, one for each skipped rank among them.
        replay: replayed against measured times of a Chakra trace; None: another format.
    """

    path: Path
    files: int
    size_bytes: int
    rows: int | None = None
    findings: tuple[Finding, ...] = ()
    replay: ChakraReplay | None = None

    @classmethod
    def of(cls, path: Path, rows: int | None = None) -> Exported:
        """Describe the written file or folder."""
        files = [path] if path.is_file() else [found for found in path.rglob("*") if found.is_file()]
        return cls(path, len(files), sum(file.stat().st_size for file in files), rows)


class StepNames:
    """Collects the steps of each rank, to reject a step that none of them has."""

    def __init__(self, options: ExportOptions, annotation: str) -> None:
        self._options, self._annotation = options, annotation
        self._seen: dict[str, None] = {}

    def see(self, names: Iterable[str]) -> None:
        """Add the steps of a rank."""
        self._seen.update(dict.fromkeys(names))

    def check(self) -> None:
        """Reject a step that no rank has."""
        if self._options.step is None or self._options.step_among(self._seen) is not None:
            return
        if not self._seen:
            raise ArgumentError(f"no step is marked by {self._annotation}")
        have = some_steps(list(self._seen))
        raise ArgumentError(f"there is no step {self._options.step}; there are: {have}")


def steps_of(linked: LinkedTrace, options: ExportOptions) -> tuple[str, ...]:
    """Return the names of a rank's steps; none if all are exported."""
    if options.step is None:
        return ()
    return tuple(step_windows(linked).get_column("step").to_list())


def step_bounds(linked: LinkedTrace, options: ExportOptions) -> pl.DataFrame:
    """Return start and end of the exported step on a rank's host: `start_ns`, `end_ns`; no row if missing."""
    windows = step_windows(linked)
    return windows.filter(options.is_step(pl.col("step"))).select("start_ns", "end_ns")


def in_step(bounds: pl.DataFrame) -> pl.Expr:
    """Build an expression for whether `ts_ns` lies in the step."""
    lies = [(pl.col("ts_ns") >= start) & (pl.col("ts_ns") < end) for start, end in bounds.iter_rows()]
    return pl.any_horizontal(lies) if lies else pl.lit(value=False)


def events_of_step(linked: LinkedTrace, options: ExportOptions) -> pl.Series:
    """Return the `event_id` of events of the exported step: started or, on a device, launched in it."""
    on_device = device_events_by_step(linked)
    launched = on_device.filter(options.is_step(pl.col("step"))).get_column("event_id")
    event = pl.col("event_id")
    others = linked.timeline.events.filter(
        in_step(step_bounds(linked, options)),
        ~event.is_in(on_device.get_column("event_id").implode()),
    )
    events: pl.Series = pl.concat([others.get_column("event_id"), launched]).sort()
    return events


def answers_in_step(
    job: Job,
    options: ExportOptions,
    question: Callable[[LinkedTrace, str | None], T],
) -> Iterator[T]:
    """Yield the answers of the ranks that have the requested step; of all ranks without a request."""
    seen = StepNames(options, job.annotation)
    for steps, answers in job.each(_InStep(options, question)):
        seen.see(steps)
        yield from answers
    seen.check()


class _InStep(Struct, Generic[T], frozen=True, eq=False):
    """Question about a rank's part of the step: the names of its steps, and an answer if it has the step."""

    options: ExportOptions
    question: Callable[[LinkedTrace, str | None], T]

    def __call__(self, linked: LinkedTrace) -> tuple[tuple[str, ...], tuple[T, ...]]:
        names = steps_of(linked, self.options)
        if self.options.step is None:
            return names, (self.question(linked, None),)
        step = self.options.step_among(names)
        return names, () if step is None else (self.question(linked, step),)


MOST_NODES = 50_000
"""Maximum nodes of a graph over all ranks: layout tools take minutes for a tenth of them."""


def write_dot(job: Job, path: Path, options: ExportOptions) -> Exported:
    """Write the graph of ops in DOT."""
    return _write(job, path, options, dot_lines)


def write_graphml(job: Job, path: Path, options: ExportOptions) -> Exported:
    """Write the graph of ops in GraphML; see `write_dot`."""
    return _write(job, path, options, graphml_lines)


def _write(
    job: Job,
    path: Path,
    options: ExportOptions,
    lines: Callable[[pl.DataFrame, pl.DataFrame], Iterator[bytes]],
) -> Exported:
    graph = _graph(job, options)
    write_whole(path, lines(graph.nodes, graph.edges), overwrite=False)
    return Exported.of(path, graph.nodes.height)


def _graph(job: Job, options: ExportOptions) -> OpGraph:
    """Return the graph of the selected ranks, or part of it."""
    nodes, edges = [OP_GRAPH_NODES.empty()], [OP_GRAPH_EDGES.empty()]
    count = 0

    for of_rank, graph in answers_in_step(job, options, partial(_of_rank, options)):
        count += of_rank
        if graph is None or count > MOST_NODES:
            raise ArgumentError(
                f"the graph has more than {MOST_NODES:,} nodes: export a part of it, by the rank, a step, the ops that "
                f"take the most time (--top K), or what is near an op (--near NAME)"
            )
        nodes.append(graph.nodes)
        edges.append(graph.edges)
    if count == 0 and options.near is not None:
        raise ArgumentError(f"there is no op, annotation or device event of the name {options.near!r}")
    if count == 0:
        raise InputError(job.path, "there is no op", "Capture with ProfilerActivity.CPU")
    return OpGraph(pl.concat(nodes), pl.concat(edges))


def _of_rank(options: ExportOptions, linked: LinkedTrace, step: str | None) -> tuple[int, OpGraph | None]:
    """Return a rank's number of nodes, and its graph if it is small enough to write."""
    graph = _part(op_graph(linked, step), options)
    return graph.nodes.height, graph if graph.nodes.height <= MOST_NODES else None


def _part(graph: OpGraph, options: ExportOptions) -> OpGraph:
    if options.near is not None:
        graph = near(graph, options.near)
    return graph if options.top is None else top(graph, options.top)


def write_speedscope(job: Job, path: Path, options: ExportOptions) -> Exported:
    """Write flame graphs as one file for https://www.speedscope.app: a profile for each rank and tree."""
    frames: list[int] = []
    write_whole(path, _speedscope(job, options, frames), overwrite=False)
    return Exported.of(path, sum(frames))


def write_collapsed(job: Job, path: Path, options: ExportOptions) -> Exported:
    """Write flame graphs as collapsed stacks with self times in ns, under a frame for the rank and one for the tree."""
    frames: list[int] = []
    write_whole(path, _collapsed(job, options, frames), overwrite=False)
    return Exported.of(path, sum(frames))


def _speedscope(job: Job, options: ExportOptions, counts: list[int]) -> Iterator[bytes]:
    shared = FrameNames()
    yield speedscope_start(f"Tracebraid: {resolved_name(job.path)}")
    for rank, tree, frames in _trees(job, options, counts):
        if len(counts) > 1:
            yield b",\n"
        yield from speedscope_profile(frames, f"rank {rank}: {tree}", shared)
    yield from speedscope_end(shared)


def _collapsed(job: Job, options: ExportOptions, counts: list[int]) -> Iterator[bytes]:
    for rank, tree, frames in _trees(job, options, counts):
        yield from collapsed_lines(frames, (f"rank {rank}", tree))


def _trees(job: Job, options: ExportOptions, counts: list[int]) -> Iterator[tuple[int, str, pl.DataFrame]]:
    """Yield rank, title and frames of each tree, and count the frames of each."""
    for rank, frames in answers_in_step(job, options, _frames):
        for (tree,), rows in frames.group_by(["tree"], maintain_order=True):
            counts.append(rows.height)
            yield rank, FlameTree(tree).title, rows  # type: ignore[call-arg]
    if not counts:
        problem = "there is no event to draw a flame graph of"
        raise InputError(job.path, problem, "Capture host ops (ProfilerActivity.CPU) or work of a device")


def _frames(linked: LinkedTrace, step: str | None) -> tuple[int, pl.DataFrame]:
    return linked.rank, flame_frames(linked, step)


def export(
    job: Job,
    path: str | os.PathLike[str],
    to: ExportFormat | str,
    options: ExportOptions | None = None,
) -> Exported:
    """Write a job in another format.

    Args:
        job: the ranks.
        path: the new file; for formats that write a file for each table, the new folder.
        to: the format, or its name.
        options: the options; by default everything is exported.

    Returns:
        A summary of the written files, and the findings of the job.

    Raises:
        ArgumentError: the rank or step does not exist, or the format does not support an option.
        InputError: a file cannot be read, or two traces state the same rank.
        OutputError: the file exists, or cannot be written; checked before anything is read.
        ValueError: the format is unknown.

    Example::

        tracebraid.export(tracebraid.open("traces/"), "tables", "parquet")
    """
    target = Path(path)
    # Mypy takes the look-up for the making of a member.
    form, options = ExportFormat(to), options or ExportOptions()  # type: ignore[call-arg, arg-type]
    _check_options(form, options)
    module, _, name = form.writer.partition(":")
    refuse_target(target)
    write: Callable[[Job, Path, ExportOptions], Exported] = getattr(
        importlib.import_module(f"tracebraid.api.exports.{module}"), name
    )
    return replace(write(job.only(options.rank), target, options), findings=job.findings)


def _check_options(form: ExportFormat, options: ExportOptions) -> None:
    """Reject options that the format does not support."""
    if not form.is_op_graph and (options.top is not None or options.near is not None):
        raise ArgumentError(
            f"top and near choose a part of a graph of ops (dot, graphml); {form.value} has none"
        )
    if form is not ExportFormat.CHAKRA and options.chakra is not None:
        raise ArgumentError(
            f"detail, steps, repeat, missing and simulator are options of chakra; {form.value} has none of them"
        )
    if form is ExportFormat.CHAKRA and options.rank is not None:
        raise ArgumentError(
            "a Chakra trace has all ranks, since collectives wait for them; choose some when the job is opened, and "
            "let missing say what becomes of the others: shrink or replicate"
        )
    if form is ExportFormat.CHAKRA and options.step is not None:
        raise ArgumentError("of a Chakra trace several steps can be chosen: by steps, such as 3 or 3..5")
