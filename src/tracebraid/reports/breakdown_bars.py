"""Time breakdown of ranks as bars, and step durations as sparklines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, isfinite
from typing import TYPE_CHECKING

import polars as pl

from tracebraid.model.printable import printable
from tracebraid.model.quantities import duration, ranges
from tracebraid.model.step import is_skewed

if TYPE_CHECKING:
    from tracebraid.model.questions import Advice

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = "▁▂▃▄▅▆▇█"
FILLS = "█▓▒░"
"""Fill characters of a stacked bar's parts, distinguishable without colour."""
_ASCII = str.maketrans(
    {
        **dict(zip("▏▎▍▌▋▊▉█", " ..=====#"[1:], strict=True)),
        **dict(zip("▁▂▃▄▅▆▇", "__.--=+", strict=True)),
        **dict(zip("▓▒░", "+-.", strict=True)),
        "µ": "u",
    }
)


def bar(share: float | None, width: int) -> str:
    """Draw a bar for a share of the width, to an eighth of a character; a positive share is always visible."""
    if share is None or not isfinite(share) or share <= 0:
        return ""
    eighths = max(1, round(min(share, 1.0) * width * 8))
    return _EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def stacked_bar(parts: Sequence[float], width: int) -> str:
    """Draw a bar of several parts over the whole width, in the order of `FILLS`, rounded to characters."""
    total = sum(parts)
    if total <= 0:
        return ""
    ends, reached = [], 0.0
    for part in parts:
        reached += part
        ends.append(round(reached / total * width))
    starts = [0, *ends[:-1]]
    fills = FILLS[: len(ends)]
    return "".join(fill * (end - start) for fill, start, end in zip(fills, starts, ends, strict=True))


def sparkline(values: Sequence[float], width: int) -> str:
    """Draw a mark for each value, scaled from 0 to the largest."""
    if not values or width < 1:
        return ""
    each = ceil(len(values) / width)
    tops = [max(values[start : start + each]) for start in range(0, len(values), each)]
    most = max(tops)
    if most <= 0:
        return _LEVELS[0] * len(tops)
    return "".join(_LEVELS[min(7, max(0, ceil(top / most * 8) - 1))] for top in tops)


def can_show(encoding: str | None) -> bool:
    """Return whether an encoding can represent the characters of bars; None: not encoded."""
    try:
        (_EIGHTHS + _LEVELS + FILLS).encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def ascii_form(text: str) -> str:
    """Replace the characters of bars and the micro sign by ASCII."""
    return text.translate(_ASCII)


_PARTS = {
    "compute": "compute_ns",
    "exposed comm": "exposed_communication_ns",
    "exposed memory": "exposed_memory_ns",
    "idle": "idle_ns",
}
"""Parts of a breakdown that add up to its span, in the order of `FILLS`."""
_BAR_WIDTH = 48
"""Bar width in characters, so that a line with label and time fits into 80."""
_RANKS_SHOWN = 8
"""Maximum number of bars and sparklines; the tables have all ranks."""


def breakdown_bars(frame: pl.DataFrame) -> list[str]:
    """Draw a bar for each rank and device, with a legend; nothing without times."""
    whole = frame.filter(pl.col("step").is_null(), pl.col("span_ns") > 0)
    devices = whole.height > whole.get_column("rank").n_unique()
    rows = list(whole.head(_RANKS_SHOWN).iter_rows(named=True))
    labels = [f"rank {row['rank']}{', ' + printable(row['device']) if devices else ''}"[:16] for row in rows]
    width = max(map(len, labels), default=0)
    lines = [
        f"{label.ljust(width)}  {stacked_bar([row[column] or 0 for column in _PARTS.values()], _BAR_WIDTH)}"
        f"  {duration(row['span_ns'])}"
        for row, label in zip(rows, labels, strict=True)
    ]
    if not lines:
        return []
    present = [
        f"{fill} {name}"
        for fill, (name, column) in zip(FILLS, _PARTS.items(), strict=True)
        if (whole.get_column(column) > 0).any()
    ]
    legend = " " * width + "  " + "  ".join(present)
    more = [f"{whole.height - len(rows):,} more"] if whole.height > len(rows) else []
    return [*lines, legend, *more]


def step_sparklines(frame: pl.DataFrame, time: str = "span_ns") -> list[str]:
    """Draw a sparkline of the step times of each rank, from 0; nothing if no rank has several steps."""
    steps = frame.filter(pl.col("step").is_not_null(), pl.col(time).is_not_null())
    if "device" in steps.columns:
        steps = steps.unique(["rank", "step"], keep="first", maintain_order=True)
    ranks = steps.partition_by("rank", maintain_order=True)
    lines = list(_lines([rank for rank in ranks if rank.height > 1], time))
    return ["Step times, each from 0:", *lines] if lines else []


def _lines(ranks: list[pl.DataFrame], time: str) -> Iterator[str]:
    for rank in ranks[:_RANKS_SHOWN]:
        times = rank.get_column(time).to_list()
        marks = sparkline(times, _BAR_WIDTH)
        yield f"rank {rank.item(0, 'rank')}  {marks}  {duration(min(times))} to {duration(max(times))}"
    if len(ranks) > _RANKS_SHOWN:
        yield f"{len(ranks) - _RANKS_SHOWN:,} more ranks"


def skew_lines(breakdowns: pl.DataFrame, advice: Advice) -> list[str]:
    """Say of which ranks the first step is longer in the breakdown than in the accounting, and by how much at most."""
    of_ranks = advice.accounting.group_by(pl.col("of_rank").alias("rank"), "step").agg(pl.col("ns").sum())
    steps = breakdowns.unique(["rank", "step"], keep="first", maintain_order=True)
    longer = steps.join(of_ranks, on=["rank", "step"], maintain_order="left").filter(
        is_skewed(pl.col("span_ns"), pl.col("ns"))
    )
    if longer.is_empty():
        return []
    ranks = longer.get_column("rank").unique().sort().to_list()
    most = longer.select((pl.col("span_ns") - pl.col("ns")).max()).item()
    which = f"{'rank' if len(ranks) == 1 else 'ranks'} {ranges(ranks)}"
    return [
        f"Recordings of ranks began apart: here the first step of {which} holds up to {duration(most)} of waiting for "
        "the others to begin, which is no part of the step time."
    ]
