"""What a report consists of: sections of parts, which renderers turn into a page, a terminal's text or JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from tracebraid.model import notebook
from tracebraid.model.column import Table

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Chart",
    "ChartKind",
    "DataTable",
    "Facts",
    "Level",
    "Missing",
    "Note",
    "Part",
    "Report",
    "Section",
]


class Level(Enum):
    """How much a note matters."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


class ChartKind(Enum):
    """How a chart is drawn; the page's module of that name in `charts/`, `timeline/` or `flame/` draws it."""

    BARS = "bars"
    STACKED_BARS = "stacked_bars"
    HEAT_MAP = "heat_map"
    LINES = "lines"
    AREAS = "areas"
    SCATTER = "scatter"
    TIMELINE = "timeline"
    FLAME = "flame"


@dataclass(frozen=True)
class Facts:
    """Short facts, each with its label.

    Args:
        rows: label and text of each.
    """

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Note:
    """A sentence or more.

    Args:
        text: what it says.
        level: how much it matters.
        code: what it is for programs, which compare no sentences; empty where it only explains.
    """

    text: str
    level: Level = Level.NOTE
    code: str = ""


@dataclass(frozen=True)
class Missing:
    """What the traces do not hold, instead of an empty chart.

    Args:
        title: what would stand here.
        lacks: what is not in the traces.
        capture: how to capture it.
        code: what is lacking, for programs: the value of a `Need`, or another short name.
    """

    title: str
    lacks: str
    capture: str
    code: str = ""


@dataclass(frozen=True, eq=False)
class DataTable:
    """A table.

    Args:
        id: unique in the report, `[a-z0-9-]+`.
        title: what it is about.
        frame: its rows, those that matter most first.
        schema: declares its columns; what each means can be read in the report.
        columns: the names of those that are shown, in order; None: all.
        formula: how its figures are computed; empty where its columns say all.
        left_out: rows that there are beside these.
        start_ns: start of the traces on the unix clock, from which moments are shown.
        starts: start of the trace of each rank, from which the moments of its rows are shown, on its own clock.
    """

    id: str
    title: str
    frame: pl.DataFrame
    schema: Table
    columns: tuple[str, ...] | None = None
    formula: str = ""
    left_out: int = 0
    start_ns: int = 0
    starts: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Chart:
    """A chart, and the table that says the same.

    Args:
        id: unique in the report, `[a-z0-9-]+`.
        kind: how it is drawn.
        title: what it is about.
        summary: what it shows, in a sentence, for who cannot see it.
        frames: the columns that it is drawn from, by the names under which its module asks for them.
        options: what else its module needs: plain JSON values.
        formula: how its figures are computed.
        table: the same as a table; None where the chart has a table of its own.
    """

    id: str
    kind: ChartKind
    title: str
    summary: str
    frames: Mapping[str, pl.DataFrame]
    options: Mapping[str, Any] = field(default_factory=dict)
    formula: str = ""
    table: DataTable | None = None


Part: TypeAlias = Facts | Note | Missing | DataTable | Chart


@dataclass(frozen=True, eq=False)
class Section:
    """A section of a report.

    Args:
        id: unique in the report, `[a-z0-9-]+`.
        title: its heading.
        parts: what stands in it, in order.
        lead: a sentence that says what its figures mean; may be empty.
    """

    id: str
    title: str
    parts: Sequence[Part]
    lead: str = ""


@dataclass(frozen=True, eq=False)
class Report:
    """A report of a run, or of a comparison.

    Args:
        title: its title.
        sections: in order.
    """

    title: str
    sections: Sequence[Section]

    def __repr__(self) -> str:
        """What it is, in brief."""
        return f"Report({self.title!r}, sections={[section.id for section in self.sections]})"

    def _repr_html_(self) -> str:
        """What it is, for a notebook: its sections; `write_report` makes the page."""
        rows = ((section.title, len(section.parts)) for section in self.sections)
        sections = notebook.rows_html("", ("section", "parts"), rows, len(self.sections))
        return notebook.shown(self.title, sections)
