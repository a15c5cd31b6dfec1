"""What traces can be handed on as."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExportFormat", "fits"]


class ExportFormat(Enum):
    """A format of `tracebraid export --to`."""

    PERFETTO = "perfetto"
    """All ranks as TrackEvents of Perfetto's protobuf."""
    CHROME = "chrome"
    """The same as Chrome's JSON."""
    PARQUET = "parquet"
    """All tables, a file each in a new folder; so with the next three."""
    ARROW = "arrow"
    CSV = "csv"
    JSON = "json"
    SQLITE = "sqlite"
    """All tables in one database."""
    SPEEDSCOPE = "speedscope"
    """Flame graphs."""
    COLLAPSED = "collapsed"
    """Flame graphs: a line for each stack."""
    DOT = "dot"
    """The graph of ops, or a part of it."""
    GRAPHML = "graphml"
    CHAKRA = "chakra"
    """Nodes that simulators run: a file for each rank in a new folder."""

    @property
    def is_op_graph(self) -> bool:
        """Whether it is a graph of ops, of which a part can be chosen."""
        return self in (ExportFormat.DOT, ExportFormat.GRAPHML)

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder with a file for each table, or for each rank."""
        return self in _FOLDERS

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Ends of the names of such files, the usual one first; for a folder those that its name may have."""
        return _SUFFIXES[self]


_FOLDERS = frozenset(
    {ExportFormat.PARQUET, ExportFormat.ARROW, ExportFormat.CSV, ExportFormat.JSON, ExportFormat.CHAKRA}
)

_SUFFIXES = {
    ExportFormat.PERFETTO: (".pftrace.gz", ".pftrace", ".perfetto-trace", ".perfetto-trace.gz"),
    ExportFormat.CHROME: (".json.gz", ".json"),
    ExportFormat.PARQUET: (".parquet",),
    ExportFormat.ARROW: (".arrow", ".feather"),
    ExportFormat.CSV: (".csv",),
    ExportFormat.JSON: (".json",),
    ExportFormat.SQLITE: (".sqlite", ".sqlite3", ".db"),
    ExportFormat.SPEEDSCOPE: (".speedscope.json", ".speedscope.json.gz", ".json", ".json.gz"),
    ExportFormat.COLLAPSED: (
        ".collapsed.txt",
        ".collapsed.txt.gz",
        ".txt",
        ".txt.gz",
        ".collapsed",
        ".folded",
        ".collapsed.gz",
        ".folded.gz",
    ),
    ExportFormat.DOT: (".dot", ".gv", ".dot.gz", ".gv.gz"),
    ExportFormat.GRAPHML: (".graphml", ".graphml.gz", ".xml"),
    ExportFormat.CHAKRA: (".chakra",),
}
_OTHERS = (".gz", ".zip", ".zst", ".html")
"""Ends of names that say something of a file's content, and are no format's."""


def fits(name: str, to: ExportFormat) -> bool:
    """Whether the name of a file or folder says nothing else than the format; a name without a known end does not."""
    lower = name.lower()
    known = [*_OTHERS, *(suffix for form in ExportFormat for suffix in form.suffixes)]
    found = [suffix for suffix in known if lower.endswith(suffix)]
    return not found or any(lower.endswith(suffix) for suffix in to.suffixes)
