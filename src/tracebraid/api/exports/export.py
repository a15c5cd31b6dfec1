"""`export`: a job in another format."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tracebraid.model.export_format import ExportFormat
from tracebraid.model.job import Job
from tracebraid.model.step import PROFILER_STEP

__all__ = ["ExportOptions", "export"]


@dataclass(frozen=True)
class ExportOptions:
    """What is exported.

    Args:
        rank: only this rank; None: all.
        step: only this step: its number, or its name; None: all.
        annotation: what marks a step, see `steps`.
    """

    rank: int | None = None
    step: str | None = None
    annotation: str = PROFILER_STEP


_WRITERS = {
    ExportFormat.PERFETTO: "perfetto:write_perfetto",
    ExportFormat.CHROME: "perfetto:write_chrome",
    ExportFormat.PARQUET: "tables:write_parquet",
    ExportFormat.ARROW: "tables:write_arrow",
    ExportFormat.CSV: "tables:write_csv",
    ExportFormat.JSON: "tables:write_json",
    ExportFormat.SQLITE: "tables:write_sqlite",
    ExportFormat.SPEEDSCOPE: "flames:write_speedscope",
    ExportFormat.COLLAPSED: "flames:write_collapsed",
    ExportFormat.DOT: "op_graphs:write_dot",
    ExportFormat.GRAPHML: "op_graphs:write_graphml",
}
"""Module and function of each format; imported when it is asked for. Each takes the job, the path and the options."""


def export(
    job: Job,
    path: str | os.PathLike[str],
    to: ExportFormat | str,
    options: ExportOptions | None = None,
) -> None:
    """Write a job in another format.

    Args:
        job: the ranks.
        path: the new file, or, of formats that write a file for each table, the new folder.
        to: the format, or its name.
        options: what is exported; by default all.

    Raises:
        InputError: a file cannot be read.
        OutputError: the file is there, or cannot be written.
        ValueError: there is no such format.
    """
    module, _, name = _WRITERS[ExportFormat(to)].partition(":")
    write: Callable[[Job, Path, ExportOptions], None] = getattr(
        importlib.import_module(f"tracebraid.api.exports.{module}"), name
    )
    write(job, Path(path), options or ExportOptions())
