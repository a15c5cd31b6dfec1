"""A trace file of either kind, or an export of Nsight Systems."""

from __future__ import annotations

from pathlib import Path

from tracebraid.filesystem.choose import file_system_of
from tracebraid.filesystem.paths import name_of, text_of
from tracebraid.importers.execution_trace.reader import execution_trace_of
from tracebraid.importers.json_stream.chunks import open_array
from tracebraid.importers.json_stream.source import open_source
from tracebraid.importers.kineto.reader import timeline_of
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.op_schema import is_arrow
from tracebraid.model.rank_files import Progress
from tracebraid.model.timeline import Timeline


def read_trace(path: str | Path, progress: Progress | None = None) -> tuple[ExecutionTrace | Timeline, int]:
    """Read whichever of the two a file is; returns it with the file's size in bytes."""
    if is_arrow(name_of(str(path))):
        from tracebraid.importers.execution_trace.arrow import read_et_arrow

        return read_et_arrow(path), _size(path)
    source = open_source(path, database=True)
    if source.is_database:
        from tracebraid.importers.nsys.reader import read_nsys

        return read_nsys(path, progress), source.size_bytes
    file = open_array(source)
    trace = (
        execution_trace_of(file, progress=progress)
        if file.array == "nodes"
        else timeline_of(file, progress=progress)
    )
    return trace, source.size_bytes


def _size(path: str | Path) -> int:
    text = text_of(path)
    return file_system_of(text).size_bytes(text)
