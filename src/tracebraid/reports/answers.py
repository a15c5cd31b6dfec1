"""Answers of analyses, for people and for programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec
import polars as pl
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tracebraid.model.analysis import Analysis, Answer, Family, JobAnalysis, Need
from tracebraid.model.answer_sentences import CODE_SENTENCES, CODES_OF_COLUMNS, code_name
from tracebraid.model.answers import STEP
from tracebraid.model.answers.time import HostActivity, IdleCause
from tracebraid.model.collectives import UNKNOWN_GROUP
from tracebraid.model.printable import printable
from tracebraid.model.quantities import duration, moment, number, percent, quantity, ranges, size
from tracebraid.reports.breakdown_bars import bar, step_sparklines
from tracebraid.reports.fitted_table import (
    SEPARATOR_WIDTH,
    WIDEST,
    Head,
    Shown,
    captioned,
    fitted,
    fitted_table,
    table_of,
)
from tracebraid.reports.names import cell, distinct_names

_TITLES = {
    Family.VALIDITY: "Validity",
    Family.TIME: "Time and idle time",
    Family.KERNELS: "Kernels",
    Family.OPS: "Ops and modules",
    Family.LAUNCHES: "Launches and copies",
    Family.EFFICIENCY: "Efficiency",
    Family.MEMORY: "Memory",
    Family.INFERENCE: "Inference",
    Family.COLLECTIVES: "Collectives",
    Family.RANKS: "Ranks",
}
"""Headings of the families of analyses."""


def analyses_data(analyses: Iterable[Analysis]) -> list[dict[str, Any]]:
    """Return the question, options, needs and columns of each analysis."""
    return [
        {
            "name": analysis.name,
            "family": analysis.family.value,
            "question": analysis.question,
            "needs": [need.value for need in analysis.needs],
            "uses": [need.value for need in analysis.uses],
            "options": list(analysis.options),
            "columns": [{"name": column.name, "meaning": column.doc} for column in analysis.table.columns],
        }
        for analysis in analyses
    ]


def analyses_table(analyses: Iterable[Analysis]) -> Table:
    """List the analyses in their groups, with name and question."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    family = None
    for analysis in analyses:
        if analysis.family is not family:
            if family is not None:
                table.add_row("", "")
            table.add_row(Text(_TITLES[analysis.family], style="bold"), "")
        family = analysis.family
        table.add_row(f"  {analysis.name}", cell(analysis.question))
    return table


MOMENTS = frozenset(
    {
        "start_ns",
        "end_ns",
        "ts_ns",
        "peak_ns",
        "allocated_ns",
        "released_ns",
        "arrival_ns",
        "first_arrival_ns",
        "last_arrival_ns",
        "issued_ns",
        "at_ns",
    }
)
"""Columns of moments on the unix clock; all other columns that end in `_ns` are durations."""
_SHARES = frozenset({"mfu", "hfu", "fragmentation", "variation"})
_IDS = (
    "_id",
    "_event",
    "rank",
    "correlation",
    "graph",
    "node",
    "gap",
    "waited_for",
    "_most",
    "collective",
    "reference",
    "sequence",
)
"""Suffixes of columns of numbers that are not counts: they have no thousands separators."""
_NO_UNIT = ("_ns", "_bytes", "_per_s")
_FRAMES = frozenset({"frame", "call_site"})
"""Columns of `folder/file(line): function`; the folder is not shown."""
_LEAST_TEXT = 20
_LEAST_FRAME = 34
"""Minimum characters of a text, and of a frame, which needs both its file and its function."""
_LISTS = frozenset({"pattern", "op_stack"})
"""Columns of JSON lists of names."""

_UNITS: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("_flops_per_s", lambda value: f"{quantity(value)}FLOP/s"),
    ("bytes_per_s", lambda value: f"{quantity(value)}B/s"),
    ("byte_seconds", lambda value: f"{quantity(value)}B s"),
    ("bytes_per_step", lambda value: size(value)),
    ("ns_per_token", duration),
    ("tokens_per_second", number),
    ("_ns", duration),
    ("bytes", size),
    ("flops", lambda value: f"{quantity(value)}FLOP"),
    ("share", percent),
    ("share_of_count", percent),
)
"""Formatters of numbers, by the suffix of their column."""

_HEADINGS = {
    "bandwidth_bytes_per_s": "bandwidth",
    "blocked_ns": "blocked for",
    "blocks": "of",
    "bounds": "upper bounds",
    "bytes_per_s": "bandwidth",
    "caused_ns": "caused waiting",
    "communication_ns": "comm",
    "count_of_all": "of runs",
    "dur_ns": "length",
    "exposed_communication_ns": "exposed comm",
    "flops_per_byte": "FLOP per byte",
    "hfu": "HFU",
    "input_dims": "shapes",
    "is_bound": "upper bound",
    "late_count": "times late",
    "mean_bytes_per_s": "mean",
    "p50_bytes_per_s": "p50",
    "min_bytes_per_s": "min",
    "max_bytes_per_s": "max",
    "std_bytes_per_s": "std",
    "mfu": "MFU",
    "ns_per_token": "per token",
    "op_ns": "op time",
    "others_ns": "elsewhere",
    "device_ns_per_token": "device per token",
    "ts_ns": "at",
    "peak_ns": "at",
    "allocated_ns": "allocated at",
    "released_ns": "released at",
    "roofline_ns": "least",
    "roofline_share": "of roofline",
    "worst_count": "was latest",
}


def heading(name: str) -> str:
    """The heading of a column: its name without the unit, which the cells show."""
    if name in _HEADINGS:
        return _HEADINGS[name]
    for end, rate in (("_flops_per_s", "_FLOP/s"), ("_bytes_per_s", "_B/s")):
        if name.endswith(end):
            return name.replace(end, rate).replace("_", " ")
    for end in _NO_UNIT:
        name = name.removesuffix(end)
    return name.replace("_bytes", "").replace("_", " ")


def is_id(name: str) -> bool:
    """Return whether the numbers of a column are not counts, so that 0 is an ordinary value."""
    return name.endswith(_IDS)


def least_width(name: str) -> int:
    """Return the minimum characters of a column's texts."""
    return _LEAST_FRAME if name in _FRAMES else _LEAST_TEXT


def cell_text(name: str, value: Any, start_ns: int, null: str = "-") -> str:
    """Format a value of a column with its unit; may be long."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return null
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return printable(_names(name, value))
    if isinstance(value, pl.Series):
        return ranges(value)
    if name in MOMENTS:
        return moment(value - start_ns)
    if value == 0:
        return "0"
    if name in _SHARES:
        return percent(value)
    for end, text in _UNITS:
        if name.endswith(end):
            return text(value)
    if isinstance(value, int):
        return str(value) if is_id(name) else f"{value:,}"
    return number(value) if isinstance(value, float) else printable(str(value))


def _names(column: str, text: str) -> str:
    """Format a cell: labels of codes, joined lists of names."""
    codes = {str(code.value): code for kind in CODES_OF_COLUMNS.get(column, ()) for code in kind}
    if any(part in codes for part in text.split(",")):
        return ", ".join(code_name(codes[part]) if part in codes else part for part in text.split(","))
    if column in _FRAMES:
        return text.rpartition("/")[2]
    if column in _LISTS:
        try:
            return ", ".join(msgspec.json.decode(text, type=list[str]))
        except (msgspec.DecodeError, msgspec.ValidationError):
            return text
    return text


CONTEXT = ("rank", "step", "device", "doubtful")
"""Leading columns, shown only if they differ between rows or, for the last, have a value."""
_BAR_WIDTH = 12
"""Width of the bar of a share of 1, in characters."""
_NOTHING = "the traces have none"
_NULLS = {
    ("overlap", "stream"): "all",
    ("python_frames", "name"): "(in no Python function)",
    ("modules", "path"): "(in no module)",
}
"""Text of null in columns of an analysis, if it is not `-`."""


def answer_parts(answer: Answer, top: int, width: int) -> list[RenderableType]:
    """Format the first rows of an answer, with a legend."""
    rows = _top_rows(answer, top)
    names = shown_names(answer)
    context = sum(name in CONTEXT for name in names)
    columns = [_shown(answer.analysis, name, rows, answer.starts) for name in names]
    shown = fitted(columns, width, context + 1)
    table = table_of("", [(column.heading, "left" if column.is_text else "right") for column in shown])
    for drawn, column in zip(table.columns, shown, strict=True):
        drawn.width = column.width
    bars = _bars(rows, shown, width)
    if bars:
        table.add_column("", no_wrap=True, width=_BAR_WIDTH)
    sections = _sections(_ranks(rows))
    for index, cells in enumerate(zip(*(column.cells for column in shown), strict=True)):
        if index in sections:
            table.add_section()
        table.add_row(*map(cell, cells), *bars[index : index + 1])
    title = Text(_title(answer), style="bold")
    of_job = isinstance(answer.analysis, JobAnalysis)
    lines = [*_rest_lines(answer, rows, [c.name for c in shown], top), *_legend(rows, shown, of_job)]
    marks = step_sparklines(answer.frame) if answer.analysis.name == "step_times" else []
    return [title, table, *map(Text, marks), *lines, *_too_few_lines(answer)]


def _too_few_lines(answer: Answer) -> list[str]:
    """Explain how many steps are needed to rule out chance, if there are fewer."""
    if answer.analysis.name != "stragglers" or answer.frame.get_column("systematic").any():
        return []
    blocks, needed = answer.frame.select("blocks", "blocks_needed").row(0)
    if blocks is None or needed is None or blocks >= needed:
        return []
    some = "1 step or collective" if blocks == 1 else f"{blocks} steps or collectives"
    return [f"{some} with a late rank cannot rule out chance: record {needed} steps."]


def _bars(rows: pl.DataFrame, shown: Sequence[Shown], width: int) -> list[str]:
    """Return a bar for the share of each row, if shares are shown and the table leaves room."""
    taken = sum(column.width for column in shown) + SEPARATOR_WIDTH * len(shown) + _BAR_WIDTH
    if taken > width or all(column.name != "share" for column in shown):
        return []
    return [bar(share, _BAR_WIDTH) for share in rows.get_column("share").to_list()]


def lacks_lines(answer: Answer) -> list[str]:
    """List the data that the traces are missing for an answer, and how to capture it."""
    lines = []
    for need, ranks in answer.ranks_by_need.items():
        if need is Need.COLLECTIVES:
            # A rank that does not communicate has no collectives either.
            ranks = [rank for rank in ranks if Need.COMMUNICATION not in answer.lacks[rank]]
        empty = need is Need.LOST or need in answer.analysis.needs
        if not empty and (_is_no_fault(need, answer) or (answer.is_unanswerable and answer.frame.is_empty())):
            continue
        if not ranks:
            continue
        consequence = "cannot answer without" if empty else "answers in part without"
        some = len(ranks) < len(answer.lacks)
        which = f" (rank {ranges(ranks)})" if some else ""
        lines.append(
            f"note: {answer.analysis.name} {consequence} {need.value}{which}: {need.missing}. {need.capture}"
        )
    return lines


def _is_no_fault(need: Need, answer: Answer) -> bool:
    """Return whether no capture of the program could provide the data, since it runs on the CPU."""
    on_host = [Need.DEVICE_WORK in lacks for lacks in answer.lacks.values()]
    return need is Need.DEVICE_WORK or (need is Need.SYNC_EVENTS and all(on_host))


def no_rows_line(answer: Answer, step: str | None = None) -> str:
    """Explain an answer without rows; of a single step, if one was requested."""
    of_step = "" if step is None else f" of step {step}"
    return cell(f"{answer.analysis.name}{of_step} has no rows: {no_rows_sentence(answer)}.")


def no_rows_sentence(answer: Answer) -> str:
    """Explain an answer without rows, without the name of the analysis."""
    return answer.analysis.when_empty or _NOTHING


def unmatched_line(answer: Answer) -> str:
    """Explain an empty answer over all ranks whose events are not matched."""
    return (
        f"note: {answer.analysis.name} cannot answer: nothing that the ranks communicate was matched between them; "
        "`tracebraid analyze matched_groups` says what each communicates"
    )


def _title(answer: Answer) -> str:
    """Return the question, with the step, and the host instead of a device, if all rows share them."""
    step, device = (_single(answer.frame, name) for name in ("step", "device"))
    host = "on the CPU" if device == "cpu" else None
    context = ", ".join(text for text in (step, host) if text)
    return printable(f"{answer.analysis.question} ({context})" if context else answer.analysis.question)


def _single(frame: pl.DataFrame, name: str) -> str | None:
    """Return the value that all rows share in a column; None if they differ or the column is missing."""
    values = frame.get_column(name).unique().to_list() if name in frame.columns else []
    return values[0] if len(values) == 1 else None


def _top_rows(answer: Answer, top: int) -> pl.DataFrame:
    """Select the shown rows of each rank, in the answer's order; of equal ones the first."""
    rows = answer.frame.with_row_index("_row")
    if picked_by := answer.analysis.picked_by:
        sums = [pl.sum_horizontal(names.split()) for names in picked_by]
        rows = rows.sort(sums, descending=True, nulls_last=True, maintain_order=True)
    by_rank = "rank" in rows.columns and not isinstance(answer.analysis, JobAnalysis)
    order = pl.int_range(pl.len())
    rows = rows.filter((order.over("rank") if by_rank else order) < top)
    return rows.sort("_row").drop("_row")


def shown_names(answer: Answer) -> list[str]:
    """Select the columns with information, which are shown if the width allows."""
    frame = answer.frame
    # Of several ranks a row is about a rank, even where there is one row.
    about = {"rank"} if isinstance(answer.analysis, JobAnalysis) else set()
    context = [
        name
        for name in CONTEXT
        if name in frame.columns and (name in about or _distinguishes_rows(frame, name))
    ]
    wanted = answer.analysis.shown_columns
    said = [
        name.rstrip("!")
        for name in wanted
        if _is_informative(frame.get_column(name.rstrip("!")), even_zero=name.endswith("!"))
    ]
    return context + (said or [wanted[0].rstrip("!")])


def _distinguishes_rows(frame: pl.DataFrame, name: str) -> bool:
    """Return whether a context column is informative; for devices, whether any rank has several."""
    if name == "doubtful":
        return bool(frame.get_column(name).any())
    if name == "device":
        if "rank" not in frame.columns:
            return frame.get_column(name).n_unique() > 1
        return frame.select("rank", name).unique().height > frame.get_column("rank").n_unique()
    return frame.get_column(name).n_unique() > 1


def _is_informative(values: pl.Series, even_zero: bool = False) -> bool:
    """Return whether any value is not null, nor zero (unless zeros count); for lists, whether any is not empty."""
    if isinstance(values.dtype, pl.List):
        return bool((values.list.len() > 0).any())
    if values.name == "group" and (values == UNKNOWN_GROUP).all():
        return False
    return values.null_count() < len(values) and (even_zero or not _is_zero(values))


def _is_zero(values: pl.Series) -> bool:
    """Return whether all values but nulls are zero, and there are any; False for numbers that are not counts."""
    known = values.drop_nulls()
    counts = values.dtype.is_numeric() and values.name not in MOMENTS and not is_id(values.name)
    return counts and not known.is_empty() and bool((known == 0).all())


def _ranks(rows: pl.DataFrame) -> list[int | None]:
    """Return the rank of each row; None if rows cover all ranks."""
    return rows.get_column("rank").to_list() if "rank" in rows.columns else [None] * rows.height


def _sections(ranks: list[int | None]) -> set[int]:
    """Return the rows at which a new rank begins, if rows are grouped by rank and some rank has several."""
    begins = {i for i in range(1, len(ranks)) if ranks[i] != ranks[i - 1]}
    runs, distinct = len(begins) + 1, len(set(ranks))
    return begins if runs == distinct < len(ranks) else set()


def _start(starts: Mapping[int, int], rank: int | None) -> int:
    """Return the start of a rank's trace, or of the first trace."""
    return min(starts.values(), default=0) if rank is None else starts.get(rank, 0)


def _shown(analysis: Analysis, name: str, rows: pl.DataFrame, starts: Mapping[int, int]) -> Shown:
    """Format a column's cells."""
    values = rows.get_column(name)
    is_text = values.dtype == pl.String
    null = null_text(analysis, name)
    if name == "path" and "depth" in rows.columns:
        depths = rows.get_column("depth")
        cells = [_in_tree(path, depth, null) for path, depth in zip(values, depths, strict=True)]
    else:
        ranks = _ranks(rows)
        cells = [
            cell_text(name, value, _start(starts, rank), null)
            for value, rank in zip(values, ranks, strict=True)
        ]
    return Shown(name, heading(name), is_text, cells, least_width(name))


def null_text(analysis: Analysis, name: str) -> str:
    """Return the text of null in a column."""
    if name == "step":
        return "all" if analysis.table.column("step") is STEP else "none"
    return _NULLS.get((analysis.name, name), "-")


def _in_tree(path: str | None, depth: int | None, null: str) -> str:
    return null if path is None else "  " * (depth or 0) + path.rpartition("/")[2]


def _rest_lines(answer: Answer, rows: pl.DataFrame, shown: Sequence[str], top: int) -> list[str]:
    """List what the table omits: the number of rows, and names of columns."""
    lines, frame = [], answer.frame
    if frame.height > rows.height:
        of_job = isinstance(answer.analysis, JobAnalysis)
        each = " of each rank" if len(set(_ranks(frame))) > 1 and not of_job else ""
        picked = " with the most time or size" if answer.analysis.picked_by else ""
        left = frame.height - rows.height
        more = f"{left:,} more row{'' if left == 1 else 's'}; shown are {top:,}{each}{picked}"
        lines.append(f"{more}: --top shows more, --csv and --json all")
    hidden = [name for name in frame.columns if name not in shown and name not in CONTEXT and name != "depth"]
    zero = [
        name
        for name in hidden
        if frame.get_column(name).null_count() == 0 and _is_zero(frame.get_column(name))
    ]
    other = [name for name in hidden if _is_informative(frame.get_column(name))]
    if zero:
        lines.append(f"0 in all rows: {', '.join(zero)}")
    if other:
        lines.append(f"Also in --csv and --json: {', '.join(other)}")
    return lines


def _legend(rows: pl.DataFrame, shown: Iterable[Shown], of_job: bool) -> list[str]:
    """Explain the shown values that need it."""
    lines = []
    for column in shown:
        values = set(rows.get_column(column.name).drop_nulls().to_list()) if column.is_text else set()
        lines += [f"{code_name(code)}: {CODE_SENTENCES[code]}" for code in _explained(column.name, values)]
    names = {column.name for column in shown}
    if names & MOMENTS:
        whose = "first trace, on aligned clocks" if of_job else "rank's trace"
        lines.append(f"Moments are counted from the start of the {whose}")
    if "doubtful" in names:
        lines.append("doubtful: these figures are unreliable; `tracebraid analyze validity` has the reason")
    return [cell(line) for line in lines]


def _explained(column: str, values: set[Any]) -> list[Enum]:
    """Return the codes in a column that need an explanation."""
    codes = [code for kind in CODES_OF_COLUMNS.get(column, ()) for code in kind]
    return [code for code in codes if code.value in values and code in CODE_SENTENCES]


_LABEL_WIDTH = 72
"""Maximum characters of a host activity."""


def idle_tables(causes: pl.DataFrame, blame: pl.DataFrame, top: int, width: int = WIDEST) -> list[Table]:
    """Return a table of the top causes of idle time for each device, over the whole trace."""
    overall = causes.filter(pl.col("step").is_null(), pl.col("idle_ns") > 0)
    devices = overall.get_column("device").unique(maintain_order=True).to_list()
    return [_table(overall, blame, device, top, width) for device in devices]


def _table(causes: pl.DataFrame, blame: pl.DataFrame, device: str, top: int, width: int) -> Table:
    found = (
        causes.filter(pl.col("device") == device)
        .group_by("cause", "host_activity", maintain_order=True)
        .agg(pl.col("idle_ns").sum())
        .sort("idle_ns", descending=True, maintain_order=True)
    )
    total_ns = found.get_column("idle_ns").sum()
    mostly = _mostly(blame.filter(pl.col("device") == device))
    title = "Why no op runs" if device == "cpu" else f"Why device {cell(device)} is idle"
    heads = [Head("idle"), Head("share"), Head("why", "left"), Head("mostly in", "left", shortens=True)]
    shown = found.head(top)
    labels = [printable(mostly.get(activity, "")) for activity in shown.get_column("host_activity").to_list()]
    rows = [
        [
            duration(row["idle_ns"]),
            percent(row["idle_ns"] / total_ns),
            _why(row["cause"], row["host_activity"], device),
            label if row["host_activity"] else "",
        ]
        for row, label in zip(shown.iter_rows(named=True), distinct_names(labels, _LABEL_WIDTH), strict=True)
    ]
    table = fitted_table(title, heads, rows, width, kept=3)
    rest = found.height - top
    if rest <= 0:
        return table
    return captioned(
        table, f"{rest} more; tracebraid analyze idle_causes shows all, idle_blame the ops and lines"
    )


def _why(cause: str, activity: str | None, device: str) -> str:
    if activity is None:
        return code_name(IdleCause(cause))
    did = code_name(HostActivity(activity))
    return f"host {did}" if device == "cpu" else f"{code_name(IdleCause(cause))}: {did}"


def _mostly(blame: pl.DataFrame) -> dict[str, str]:
    """Return, for each host activity, the Python line, op or annotation with most of its time."""
    label = pl.coalesce("frame", "top_op", "annotation", "next_op")
    found = (
        blame.filter(pl.col("step").is_null())
        .select("host_activity", label.alias("label"), "idle_ns")
        .drop_nulls("label")
        .group_by("host_activity", "label", maintain_order=True)
        .agg(pl.col("idle_ns").sum())
        .sort("idle_ns", descending=True, maintain_order=True)
        .unique("host_activity", keep="first", maintain_order=True)
    )
    return dict(found.select("host_activity", "label").iter_rows())
