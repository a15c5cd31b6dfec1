"""Findings about arguments that have a column, and a value that it cannot hold."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from tracebraid.model.column import Kind
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.schema import DETAIL_TABLES_BY_CATEGORY

__all__ = ["unfit_findings"]

_SHOWN = 3
"""Arguments, or events, in a finding."""


def unfit_findings(path: str, tables: dict[str, pl.DataFrame]) -> list[Finding]:
    """How many values count as missing because they are of another type than their column, or too large.

    Lists do not count: PyTorch itself writes those of many ranks cut, as no list.

    Args:
        path: the trace's file.
        tables: the tables of the trace, see `model.schema.KINETO_TABLES`; `extra_args` has these values.
    """
    extra = tables["extra_args"]
    if extra.is_empty():
        return []
    keys = extra.get_column("key").unique().cast(pl.String)
    categories = {category: _keys_with_column(category) for category in DETAIL_TABLES_BY_CATEGORY}
    if set(keys).isdisjoint(key for known in categories.values() for key in known):
        return []
    known = pl.DataFrame(
        [(category, key) for category, of_category in categories.items() for key in of_category],
        schema={"category": pl.String, "key": pl.String},
        orient="row",
    )
    unfit = (
        extra.select("event_id", as_text("key"))
        .join(tables["events"].select("event_id", as_text("category")), on="event_id", maintain_order="left")
        .join(known, on=["category", "key"], how="semi", maintain_order="left")
    )
    if unfit.is_empty():
        return []
    events = unfit.get_column("event_id").unique(maintain_order=True)
    where = f"event{'' if len(events) == 1 else 's'} {_listed(events.to_list())}"
    names = _listed(sorted(set(unfit.get_column("key"))))
    return [Finding.of(FindingCode.ARGUMENT_UNFIT, path, where, unfit.height, keys=names)]


def _keys_with_column(category: str) -> list[str]:
    return [
        key
        for table in DETAIL_TABLES_BY_CATEGORY[category]
        for column in table.columns
        if column.kind is not Kind.INTS
        for key in column.keys
    ]


def _listed(values: Iterable[object]) -> str:
    first = list(map(str, values))
    return ", ".join(first[:_SHOWN]) + (", ..." if len(first) > _SHOWN else "")
