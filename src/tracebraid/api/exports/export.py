"""`export`: a job in another format."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path

from tracebraid.api.exports.options import Exported, ExportOptions
from tracebraid.errors import ArgumentError
from tracebraid.files import refuse_target
from tracebraid.model.export_format import ExportFormat
from tracebraid.model.job import Job

__all__ = ["export"]

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
    ExportFormat.CHAKRA: "chakra:write_chakra",
}
"""Module and function of each format; imported when it is asked for.

Each takes the job, the path and the options, asks the ranks by `options.ask_each`, and returns what was written, or
None where it counts nothing and noticed nothing.
"""


def export(
    job: Job,
    path: str | os.PathLike[str],
    to: ExportFormat | str,
    options: ExportOptions | None = None,
) -> Exported:
    """Write a job in another format. A rank that cannot be read is left out, with a finding.

    Args:
        job: the ranks.
        path: the new file, or, of formats that write a file for each table, the new folder.
        to: the format, or its name.
        options: what is exported; by default all.

    Returns:
        What was written, and what was noticed.

    Raises:
        ArgumentError: there is no such rank or step; or something is asked that the format does not have.
        InputError: no rank can be read.
        OutputError: the file is there, or cannot be written; nothing is read then.
        ValueError: there is no such format.

    Example::

        tracebraid.export(tracebraid.open("traces/"), "tables", "parquet")
    """
    target = Path(path)
    form, options = ExportFormat(to), options or ExportOptions()
    _check_options(form, options)
    module, _, name = _WRITERS[form].partition(":")
    refuse_target(target)
    write: Callable[[Job, Path, ExportOptions], Exported | None] = getattr(
        importlib.import_module(f"tracebraid.api.exports.{module}"), name
    )
    return write(job, target, options) or Exported.of(target)


def _check_options(form: ExportFormat, options: ExportOptions) -> None:
    """Refuse what the format does not have.

    Raises:
        ArgumentError: names the formats that do, or the option that stands for it.
    """
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
