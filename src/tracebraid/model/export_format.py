"""Formats of exports: one declaration each."""

from __future__ import annotations

from enum import Enum
from itertools import groupby

_TIMELINE = "a timeline of all ranks"
_TABLES = "all tables, a file each in a new folder"
_FLAMES = "flame graphs"
_OP_GRAPH = "the graph of ops, or a part of it"


class ExportFormat(Enum):
    """A format of `tracebraid export --to`.

    Attributes:
        about: description of the output, for users.
        writer: its module of `api.exports` and function, imported on use. The function takes the
            job, the path and `ExportOptions`, and returns a summary.
        suffixes: suffixes of such files, the default first; for a folder those that its name may have.
        is_folder: whether it is a folder with a file for each table, or for each rank.
        is_op_graph: whether it is a graph of ops, of which a part can be selected.
    """

    about: str
    writer: str
    suffixes: tuple[str, ...]
    is_folder: bool
    is_op_graph: bool

    PERFETTO = (
        *("perfetto", _TIMELINE, "perfetto:write_perfetto"),
        ".pftrace.gz .pftrace .perfetto-trace .perfetto-trace.gz",
    )
    """TrackEvents of Perfetto's protobuf."""
    CHROME = "chrome", _TIMELINE, "perfetto:write_chrome", ".json.gz .json"
    PARQUET = "parquet", _TABLES, "tables:write_parquet", ".parquet", True
    ARROW = "arrow", _TABLES, "tables:write_arrow", ".arrow .feather", True
    CSV = "csv", _TABLES, "tables:write_csv", ".csv", True
    JSON = "json", _TABLES, "tables:write_json", ".json", True
    SQLITE = "sqlite", "all tables in one database", "tables:write_sqlite", ".sqlite .sqlite3 .db"
    SPEEDSCOPE = (
        *("speedscope", _FLAMES, "export:write_speedscope"),
        ".speedscope.json .speedscope.json.gz .json .json.gz",
    )
    COLLAPSED = (
        *("collapsed", _FLAMES, "export:write_collapsed"),
        ".collapsed.txt .collapsed.txt.gz .txt .txt.gz .collapsed .folded .collapsed.gz .folded.gz",
    )
    """A line for each stack."""
    DOT = "dot", _OP_GRAPH, "export:write_dot", ".dot .gv .dot.gz .gv.gz", False, True
    GRAPHML = "graphml", _OP_GRAPH, "export:write_graphml", ".graphml .graphml.gz .xml", False, True
    CHAKRA = (
        *("chakra", "nodes that simulators run, a file for each rank in a new folder", "chakra:write_chakra"),
        *(".chakra", True),
    )

    def __new__(
        cls,
        name: str,
        about: str,
        writer: str,
        suffixes: str,
        is_folder: bool = False,
        is_op_graph: bool = False,
    ) -> ExportFormat:
        """The member of a name, which is its value."""
        form = object.__new__(cls)
        form._value_ = name
        form.about, form.writer, form.suffixes = about, writer, tuple(suffixes.split())
        form.is_folder, form.is_op_graph = is_folder, is_op_graph
        return form


def formats_help() -> str:
    """The formats with what they write and how their files are called, for the help of a command."""
    groups = groupby(ExportFormat, key=lambda form: form.about)
    return "; ".join(f"{', '.join(_shown(form) for form in forms)}: {about}" for about, forms in groups) + "."


def _shown(form: ExportFormat) -> str:
    return form.value if form.is_folder else f"{form.value} ({form.suffixes[0]})"


_OTHERS = (".gz", ".zip", ".zst", ".html")
"""Ends of names that say something of a file's content, and are no format's."""


def fits(name: str, to: ExportFormat) -> bool:
    """Return whether the name of a file or folder fits the format; a name without a known suffix does."""
    lower = name.lower()
    known = [*_OTHERS, *(suffix for form in ExportFormat for suffix in form.suffixes)]
    found = [suffix for suffix in known if lower.endswith(suffix)]
    return not found or any(lower.endswith(suffix) for suffix in to.suffixes)
