"""Values of an answer as people read them: with units, moments from the trace's start, codes by their names."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import polars as pl

from tracebraid.model.answer_sentences import CODES_OF_COLUMNS, code_name
from tracebraid.reports.text import printable
from tracebraid.reports.units import duration, moment, number, percent, quantity, size

__all__ = ["MOMENTS", "cell_text", "heading", "is_id", "least_width", "ranges"]

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
"""Columns that hold a moment on the unix clock; all others that end in `_ns` hold a duration."""
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
"""Ends of the names of numbers that count nothing: they have no thousands separators."""
_NO_UNIT = ("_ns", "_bytes", "_per_s")
_FRAMES = frozenset({"frame", "call_site"})
"""Columns that hold `folder/file(line): function`; the folder is not shown."""
_CATEGORIES = {"cpu_op": "op", "user_annotation": "annotation"}
"""What people call categories of host events."""
_LEAST_TEXT, _LEAST_FRAME = 20, 34
"""Characters of a text, and of a frame, that are shown at least: a frame's file and function are both needed."""
_LISTS = frozenset({"pattern", "op_stack"})
"""Columns that hold a JSON list of names."""

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
"""How a number is shown, by the end of its column's name."""

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
    """The heading of a column: its name without its unit, which stands in the cells."""
    if name in _HEADINGS:
        return _HEADINGS[name]
    for end, rate in (("_flops_per_s", "_FLOP/s"), ("_bytes_per_s", "_B/s")):
        if name.endswith(end):
            return name.replace(end, rate).replace("_", " ")
    for end in _NO_UNIT:
        name = name.removesuffix(end)
    return name.replace("_bytes", "").replace("_", " ")


def is_id(name: str) -> bool:
    """Whether the numbers of a column count nothing: 0 is one of them like any other."""
    return name.endswith(_IDS)


def least_width(name: str) -> int:
    """Characters of a column's texts that are shown at least."""
    return _LEAST_FRAME if name in _FRAMES else _LEAST_TEXT


def cell_text(name: str, value: Any, start_ns: int, null: str = "-") -> str:
    """A value of a column, with its unit; may be long.

    Args:
        name: the column's.
        value: what it holds.
        start_ns: start of the trace, from which moments are shown.
        null: what stands for null.
    """
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


def ranges(values: Iterable[int]) -> str:
    """A list of numbers, those that follow each other joined: `0-3, 7`."""
    runs: list[tuple[int, int]] = []
    for value in values:
        if runs and value == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], value)
        else:
            runs.append((value, value))
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs) or "none"


def _names(column: str, text: str) -> str:
    """The text of a cell: codes by their names, lists of names joined."""
    codes = {str(code.value): code for kind in CODES_OF_COLUMNS.get(column, ()) for code in kind}
    if any(part in codes for part in text.split(",")):
        return ", ".join(code_name(codes[part]) if part in codes else part for part in text.split(","))
    if column in ("category", "op_category"):
        return _CATEGORIES.get(text, text)
    if column in _FRAMES:
        return text.rpartition("/")[2]
    if column in _LISTS:
        try:
            return ", ".join(msgspec.json.decode(text, type=list[str]))
        except (msgspec.DecodeError, msgspec.ValidationError):
            return text
    return text
