"""Findings about a trace's categories: old names, unknown names, device work without host events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import polars as pl

from tracebraid.importers.kineto.decode import EventColumns
from tracebraid.model.category import CATEGORY_BY_OLD_NAME, ROLE_BY_CATEGORY, Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode

__all__ = ["category_findings"]

_DEVICE_KEYS = ["correlation", "stream", "device"]
"""Arguments that only events of a device, or calls that launch them, carry."""

_LAUNCH = "(?i)launch(?:kernel|cooperative|graph)|graphlaunch"
"""Names of calls of CUDA, HIP and their drivers that launch kernels; for a finding, no link is made by it."""
_SHOWN = 3
"""Categories, or events, in a finding."""
_CHARACTERS_SHOWN = 40
"""Characters of a category's name in a finding."""


def category_findings(
    path: str, chunks: Sequence[EventColumns], tables: dict[str, pl.DataFrame]
) -> list[Finding]:
    """The findings about the categories of a trace's events.

    Args:
        path: the trace's file.
        chunks: the decoded columns, with the old names that were found.
        tables: the tables of the trace, see `model.schema.KINETO_TABLES`.
    """
    events = tables["events"]
    present = set(events.get_column("category").unique().cast(pl.String))
    of_work, of_calls = categories_of(Role.DEVICE_WORK), categories_of(Role.CALL)
    found = _renamed(path, chunks)
    if not present <= ROLE_BY_CATEGORY.keys():
        found += _unknown(path, events.with_columns(as_text("category")), tables["extra_args"])
    if present.isdisjoint(categories_of(Role.OP, Role.ANNOTATION)):
        work = events.filter(pl.col("category").is_in(of_work))
        if not work.is_empty():
            found.append(Finding(FindingCode.HOST_OPS_MISSING, path, _first(work), work.height))
    if not present.isdisjoint(of_calls) and present.isdisjoint(of_work):
        found += _without_device(path, events.filter(pl.col("category").is_in(of_calls)))
    return found


def _renamed(path: str, chunks: Sequence[EventColumns]) -> list[Finding]:
    counts: Counter[str] = Counter()
    for chunk in chunks:
        counts.update(chunk.old_categories)
    if not counts:
        return []
    pairs = ", ".join(f"{name} as {CATEGORY_BY_OLD_NAME[name]}" for name in sorted(counts))
    return [Finding.of(FindingCode.CATEGORY_OLD, path, "in `cat`", counts.total(), pairs=pairs)]


def _unknown(path: str, events: pl.DataFrame, extra_args: pl.DataFrame) -> list[Finding]:
    """Events with a duration and of unknown category; another code where their arguments are of device work."""
    known = list(ROLE_BY_CATEGORY)
    unknown = events.filter(~pl.col("category").fill_null("").is_in(known) & (pl.col("dur_ns") > 0))
    if unknown.is_empty():
        return []
    with_device_keys = extra_args.filter(as_text("key").is_in(_DEVICE_KEYS))
    where, named = _first(unknown), _named(unknown)
    if unknown.join(with_device_keys, on="event_id", how="semi").is_empty():
        return [Finding.of(FindingCode.CATEGORY_UNKNOWN, path, where, unknown.height, categories=named)]
    return [Finding.of(FindingCode.DEVICE_WORK_UNREAD, path, where, unknown.height, categories=named)]


def _named(events: pl.DataFrame) -> str:
    """The categories that the most events have, each with how many, shortened to fit a line."""
    counts = events.get_column("category").fill_null("(none)").value_counts()
    most = counts.sort("count", "category", descending=[True, False])
    named = [f"{count:,} {name[:_CHARACTERS_SHOWN]}" for name, count in most.head(_SHOWN).iter_rows()]
    return ", ".join(named) + (", ..." if most.height > _SHOWN else "")


def _first(events: pl.DataFrame) -> str:
    """The numbers of the first of these events."""
    numbers = events.get_column("event_id").head(_SHOWN).to_list()
    more = ", ..." if events.height > _SHOWN else ""
    return f"event{'' if events.height == 1 else 's'} {', '.join(map(str, numbers))}{more}"


def _without_device(path: str, calls: pl.DataFrame) -> list[Finding]:
    """Calls that launch by their name, of whatever API, where no event of a device is of any category."""
    launches = calls.filter(as_text("name").str.contains(_LAUNCH))
    if launches.is_empty():
        return []
    return [Finding(FindingCode.DEVICE_WORK_MISSING, path, _first(launches), launches.height)]
