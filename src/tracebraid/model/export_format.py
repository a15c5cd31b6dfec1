"""What traces can be handed on as."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExportFormat"]


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
