"""A report: what it is made of, and what it is made from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl
from msgspec import Struct, field

from tracebraid.model import notebook
from tracebraid.model.analysis import Answer, Need
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.coverage import Coverage
from tracebraid.model.file_info import FileInfo
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.questions import Advice

if TYPE_CHECKING:
    from tracebraid.model.graph import CriticalPath

_SERIES = ("rank", "device", "stream", "name", "source", "process_group")
"""Columns that tell the series of a table apart."""


def most_rows(frame: pl.DataFrame, rows: int, by: Sequence[str] = ()) -> pl.DataFrame:
    """The rows with the largest sum of some columns, in the order of the frame; without columns the first."""
    if frame.height <= rows:
        return frame
    if not by:
        return frame.head(rows)
    order = frame.select(pl.sum_horizontal(*by).rank("ordinal", descending=True)).to_series()
    return frame.filter(order <= rows)


def thinned(frame: pl.DataFrame, rows: int, value: str) -> pl.DataFrame:
    """Thin each series to the minimum and maximum in equal time spans, which preserves the envelope."""
    if frame.height <= rows:
        return frame
    keys = [name for name in _SERIES if name in frame.columns]
    series = frame.select(keys).unique().height if keys else 1
    spans = max(1, rows // (2 * series))
    start, end = frame.select(pl.col("ts_ns").min().alias("a"), pl.col("ts_ns").max().alias("b")).row(0)
    width = max(1, -(-(end - start + 1) // spans))
    span = ((pl.col("ts_ns") - start) // width).alias("_span")
    row = pl.int_range(pl.len(), dtype=pl.Int64)
    grouped = frame.select(*keys, pl.col(value), span, row.alias("_row")).group_by(*keys, "_span")
    ends = grouped.agg(
        pl.col("_row").sort_by(value, nulls_last=False).first().alias("_least"),
        pl.col("_row").sort_by(value, nulls_last=False).last().alias("_most"),
    )
    kept = pl.concat([ends.get_column("_least"), ends.get_column("_most")]).unique().sort()
    found: pl.DataFrame = frame[kept]
    return found


FLAME_FRAMES_VIEW = "flame-frames"
"""`FLAME_FRAMES`: of the ranks that are shown, merged, and as many as a page draws."""
FLAME_NAMES_VIEW = "flame-names"
"""`FLAME_NAMES`: of all frames, those with the most self time of each tree."""


class Level(Enum):
    """Severity of a note."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


class ChartKind(Enum):
    """Kind of a chart; the page's module of that name in `charts/`, `timeline/` or `flame/` draws it."""

    BARS = "bars"
    STACKED_BARS = "stacked_bars"
    HEAT_MAP = "heat_map"
    LINES = "lines"
    AREAS = "areas"
    SCATTER = "scatter"
    TIMELINE = "timeline"
    FLAME = "flame"


class Facts(Struct, frozen=True):
    """Short facts, each with its label.

    Args:
        rows: label and text of each.
    """

    rows: Sequence[tuple[str, str]]


class Verdict(Struct, frozen=True):
    """Key results in a few sentences.

    Args:
        lines: a sentence each, the most important first.
    """

    lines: Sequence[str]


class Card(Struct, frozen=True):
    """Something to change.

    Args:
        title: the problem.
        figure: its cost, in a few words.
        rows: label and text of further facts.
        change: the fix, in full.
        shown_at: the row of `timeline_slices` that shows it, or the step in which it would be; None: nothing is drawn.
        is_drawn: whether that row is an occurrence of it.
    """

    title: str
    figure: str
    rows: Sequence[tuple[str, str]]
    change: str
    shown_at: int | None = None
    is_drawn: bool = True


class Cards(Struct, frozen=True):
    """Cards beside each other, the most important first."""

    cards: Sequence[Card]


class Note(Struct, frozen=True):
    """A sentence or more.

    Args:
        text: what it says.
        level: how much it matters.
        code: what it is for programs, which compare no sentences; empty if it only explains.
    """

    text: str
    level: Level = Level.NOTE
    code: str = ""


class Missing(Struct, frozen=True):
    """Missing data, shown instead of an empty chart.

    Args:
        title: the title of the missing content.
        lacks: the missing data.
        capture: how to capture it.
        code: the missing data for programs: the value of a `Need`, or another short name.
    """

    title: str
    lacks: str
    capture: str
    code: str = ""

    @classmethod
    def of(cls, title: str, need: Need) -> Missing:
        """Content that needs this."""
        return cls(title, need.missing, need.capture, str(need.value))


class DataTable(Struct, frozen=True, eq=False):
    """A table.

    Args:
        id: unique in the report, `[a-z0-9-]+`.
        title: what it is about.
        frame: its rows, those that matter most first.
        schema: declares its columns; what each means can be read in the report.
        columns: the names of those that are shown, in order; None: all.
        formula: how its figures are computed; empty if its columns say all.
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


class Chart(Struct, frozen=True, eq=False):
    """A chart, and the table that says the same.

    Args:
        id: unique in the report, `[a-z0-9-]+`.
        kind: how it is drawn.
        title: what it is about.
        summary: its content in a sentence, as a text alternative.
        frames: the columns that it is drawn from, by the names under which its module asks for them.
        options: further input of its module: plain JSON values.
        formula: how its figures are computed.
        table: the same as a table; None if the chart has a table of its own.
    """

    id: str
    kind: ChartKind
    title: str
    summary: str
    frames: Mapping[str, pl.DataFrame]
    options: Mapping[str, Any] = field(default_factory=dict)
    formula: str = ""
    table: DataTable | None = None


Part: TypeAlias = Verdict | Cards | Facts | Note | Missing | DataTable | Chart


class Section(Struct, frozen=True, eq=False):
    """A section of a report.

    Args:
        id: unique in the report, `[a-z0-9-]+`.
        title: its heading.
        parts: what stands in it, in order.
        lead: a sentence on the meaning of its figures; may be empty.
        folds: whether a page initially shows only its heading.
    """

    id: str
    title: str
    parts: Sequence[Part]
    lead: str = ""
    folds: bool = False


class Report(Struct, frozen=True, eq=False):
    """A report of a run, or of a comparison.

    Args:
        title: its title.
        sections: in order.
    """

    title: str
    sections: Sequence[Section]

    def __repr__(self) -> str:
        """Return a short description."""
        return f"Report({self.title!r}, sections={[section.id for section in self.sections]})"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: its sections; `write_report` makes the page."""
        rows = ((section.title, len(section.parts)) for section in self.sections)
        sections = notebook.rows_html("", ("section", "parts"), rows, len(self.sections))
        return notebook.shown(self.title, sections)


class RunResults(Struct, frozen=True, eq=False):
    """The results of a run.

    Args:
        path: the folder or file that was opened.
        ranks: those that were read.
        infos: what each file is.
        coverages: of each rank, how much of it was linked.
        answers: by the name of the analysis; what traces lack stands in each.
        findings: what was noticed, each once; without those that follow from others.
        start_ns: when the first trace began, on the unix clock.
        advice: what would make the steps shorter; None if it was not asked.
        path_of_steps: the critical path of the steps; None if there is no graph.
        without_graph: why there is no dependency graph, or no sweep; empty if there are both.
        sweep: what-if answers of all groups; None if there is no graph.
        views: what is drawn and is no answer of an analysis, by the names that `api.reporting` gives: such as the
            slices of the timeline, and the frames of the flame graphs.
        starts: when the trace of each rank began, on its own clock; moments of its answers are shown from there.
        left_out: by the name of the analysis, how many rows of its answer are not kept.
        detailed: the ranks of which all was asked; of the others only what is compared over all ranks.
        steps: the names of the steps that the timeline shows.
        notes: codes of those findings that are good to know, and nothing is wrong.
    """

    path: str
    ranks: Sequence[int]
    infos: Sequence[FileInfo]
    coverages: Mapping[int, Coverage]
    answers: Mapping[str, Answer]
    findings: Sequence[Finding]
    start_ns: int = 0
    advice: Advice | None = None
    path_of_steps: CriticalPath | None = None
    without_graph: str = ""
    sweep: pl.DataFrame | None = None
    views: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    starts: Mapping[int, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    detailed: Sequence[int] = ()
    steps: Sequence[str] = ()
    notes: Collection[FindingCode] = ()


def sampled(series: pl.DataFrame, value: str, most: int) -> pl.DataFrame:
    """Sample the moment with the largest value in each of equal time spans, and the last moment."""
    if series.height <= most:
        return series
    first, last = series.item(0, "ts_ns"), series.item(series.height - 1, "ts_ns")
    width = max(1, -(-(last - first + 1) // most))
    numbered = series.with_row_index("_row").with_columns(((pl.col("ts_ns") - first) // width).alias("_span"))
    rows = numbered.group_by("_span").agg(pl.col("_row").sort_by(value).last()).get_column("_row")
    kept = pl.concat([rows, pl.Series([series.height - 1], dtype=rows.dtype)]).unique().sort()
    found: pl.DataFrame = series[kept]
    return found


MOST_SLICES = 200_000
"""Slices of all ranks that a page holds: what a browser still draws at 30 frames a second, in about 4 MB."""

_INT, _FLOAT, _BOOL, _NAME, _TEXT, _JSON = (
    *(Kind.INT, Kind.FLOAT, Kind.BOOL),
    *(Kind.NAME, Kind.TEXT, Kind.JSON),
)
_SLICE = "row of `timeline_slices`"


class SliceKind(Enum):
    """Kind of a slice; the value is its code in tables."""

    OP = "op"
    ANNOTATION = "annotation"
    PYTHON = "python"
    CALL = "call"
    KERNEL = "kernel"
    COPY = "copy"
    COMMUNICATION = "communication"
    WAIT = "wait"
    DEVICE_ANNOTATION = "device annotation"
    OTHER = "other"
    MERGED = "merged"


TIMELINE_SLICES = Table(
    "timeline_slices",
    "One row per slice that is drawn: an event, or several short ones in a row; by rank, lane, level and start.",
    (
        Column("track", _INT, "row of `timeline_tracks`"),
        Column("level", _INT, "line of the track, from 0: nested slices, and those that overlap, lie lower"),
        Column("start_ns", _INT, "start, on aligned clocks, from the start of what is shown"),
        Column("duration_ns", _INT, "duration"),
        Column("name", _NAME, "name of the event; null: several"),
        Column("kind", _NAME, "its kind (`SliceKind`)"),
        Column("family", _NAME, "family of device work (`KernelFamily`); else null"),
        Column("count", _INT, "number of events in it"),
        Column("busy_ns", _INT, "sum of their durations"),
        Column("event_id", _INT, "the event: its row in `events` of the rank's timeline; null: several"),
        Column("call", _INT, f"the call that launched it: {_SLICE}; null: unknown"),
        Column("op", _INT, f"the op that launched it: {_SLICE}; null: unknown"),
        Column("node_id", _INT, "Execution Trace node of the op; null: there is none"),
        Column("shapes", _JSON, "shapes of the inputs; null: not recorded"),
        Column("types", _JSON, "types of the inputs; null: not recorded"),
        Column("call_site", _TEXT, "innermost frame of the user, `file(line): function`; null: unknown"),
        Column("grid", _TEXT, "blocks of a kernel, and threads of a block; null: not recorded"),
        Column("size_bytes", _INT, "bytes that are copied, filled or communicated; null: unknown"),
        Column("collective", _INT, "row of `matched_collectives`; null: none, or not matched"),
        Column("group", _TEXT, "process group of communication"),
        Column("sequence", _INT, "number of the collective in its group; null: unknown"),
    ),
)

TIMELINE_TRACKS = Table(
    "timeline_tracks",
    "One row per thread or stream that has slices; by rank, threads before streams.",
    (
        Column("track", _INT, "row number"),
        Column("rank", _INT, "the rank"),
        Column("lane", _INT, "its row in `lanes` of the rank's timeline"),
        Column("is_device", _BOOL, "whether it is a stream of a device"),
        Column("label", _TEXT, "name of the thread or stream"),
        Column("process", _TEXT, "its process or device"),
        Column("levels", _INT, "lines that its slices take"),
        Column("slices", _INT, "slices that are drawn"),
        Column("events", _INT, "number of events in them"),
    ),
)

TIMELINE_RANKS = Table(
    "timeline_ranks",
    "One row per rank that is drawn.",
    (
        Column("rank", _INT, "the rank"),
        Column("steps", _TEXT, "the steps that are shown, by commas; null: the whole trace"),
        Column("start_ns", _INT, "start of its shown window, as `timeline_slices`"),
        Column("end_ns", _INT, "end: of the steps, or of the last work that was launched in them"),
        Column("origin_ns", _INT, "moment 0 of the timeline, on the reference's clock"),
        Column("events", _INT, "events in that window"),
        Column("slices", _INT, "slices that are drawn"),
        Column("merged_ns", _INT, "shorter slices are merged where they follow each other; 0: none are"),
        Column("is_aligned", _BOOL, "whether its clock is known; else its start is laid on the others'"),
    ),
)

TIMELINE_LINKS = Table(
    "timeline_links",
    "One row per dependency other than launches and the order of a stream, which slices show themselves.",
    (
        Column("before", _INT, f"what is waited for: {_SLICE}"),
        Column("after", _INT, f"what waits: {_SLICE}"),
        Column(
            "kind", _NAME, "`event_wait`, `sync`, `inter_thread`, `forward_backward`, as in `dependencies`"
        ),
        Column("slack_ns", _INT, "from the one to the other; null: not a wait"),
    ),
)

TIMELINE_PATH = Table(
    "timeline_path",
    "One row per segment of the critical path of the shown steps; in order.",
    (
        Column("track", _INT, "row of `timeline_tracks`; null: it lies on no thread or stream that is drawn"),
        Column("slice", _INT, f"{_SLICE}; null: the segment has no event, or its rank is not drawn"),
        Column("start_ns", _INT, "start, as in `timeline_slices`"),
        Column("duration_ns", _INT, "duration"),
        Column("kind", _NAME, "kind of the segment (`SegmentKind`)"),
        Column("name", _NAME, "name of the event, or of the thread"),
    ),
)

TIMELINE_LONGEST = Table(
    "timeline_longest",
    "One row per event of a timeline, the longest first.",
    (
        Column("rank", _INT, "the rank"),
        Column("where", _TEXT, "name of the thread or stream"),
        *(
            TIMELINE_SLICES.column(name)
            for name in ("name", "kind", "start_ns", "duration_ns", "family", "shapes", "size_bytes")
        ),
    ),
)

TIMELINE_TABLES = {
    "timeline-slices": TIMELINE_SLICES,
    "timeline-tracks": TIMELINE_TRACKS,
    "timeline-ranks": TIMELINE_RANKS,
    "timeline-links": TIMELINE_LINKS,
    "timeline-path": TIMELINE_PATH,
}
"""The tables by the names under which `RunResults.views` has them."""
