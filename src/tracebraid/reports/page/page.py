"""A report as one HTML page that needs no network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from tracebraid.errors import MissingLibraryError
from tracebraid.model.report.parts import Chart, DataTable, Report
from tracebraid.reports.page.data_block import data_block
from tracebraid.reports.page.modules import packed_modules, start, style
from tracebraid.reports.page.table_columns import table_columns
from tracebraid.reports.relative_moments import relative_moments
from tracebraid.reports.text import printable
from tracebraid.version import __version__

__all__ = ["COLUMN_DOCS", "ServedPage", "page"]

COLUMN_DOCS = "column-docs"
"""The id of the block with the meanings of columns, once each; `js/main.js` reads it."""


def page(report: Report, served: ServedPage | None = None) -> str:
    """The page.

    Args:
        report: what it shows.
        served: what only a page that comes from a server has; None: it is opened as a file.

    Raises:
        MissingLibraryError: jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise MissingLibraryError(
            "a page needs jinja2, which is not installed here. Install it with: pip install 'tracebraid[report]'"
        ) from error
    environment = Environment(
        loader=PackageLoader("tracebraid.reports.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["printable"] = printable
    environment.tests["a"] = lambda part, kind: type(part).__name__ == kind
    blocks = _Blocks()
    environment.globals |= {
        "block": blocks.add,
        "chart_blocks": blocks.of_chart,
        "table_columns": blocks.columns_of,
    }
    template = environment.get_template("page.html.jinja")
    return template.render(
        report=report,
        blocks=blocks.all_texts,
        modules=packed_modules(),
        start=start(),
        style=style(),
        version=__version__,
        served=served,
    )


@dataclass(frozen=True)
class ServedPage:
    """What a page has that comes from a server.

    Args:
        nonce: stands in its own scripts and styles, so that the browser can refuse all others.
        timeline: the address of the timeline for Perfetto, relative to the page's.
    """

    nonce: str
    timeline: str


class _Blocks:
    """The data of the page, each frame a block with an id; filled while the sections are rendered."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._docs: dict[str, int] = {}

    def add(self, table: DataTable) -> str:
        """Add the rows of a table, moments from its start; returns the id of their block."""
        frame = table.frame if table.columns is None else table.frame.select(table.columns)
        self.texts[f"data-{table.id}"] = data_block(relative_moments(table).select(frame.columns))
        return f"data-{table.id}"

    def columns_of(self, table: DataTable) -> list[dict[str, Any]]:
        """`table_columns`, with the number of each meaning instead of its text, which many tables share."""
        columns = table_columns(table)
        for column in columns:
            if "doc" in column:
                column["doc"] = self._docs.setdefault(column["doc"], len(self._docs))
        return columns

    def all_texts(self) -> dict[str, str]:
        """All blocks by their ids, with that of the meanings of columns."""
        docs = pl.DataFrame({"doc": list(self._docs)}, schema={"doc": pl.String})
        return {**self.texts, COLUMN_DOCS: data_block(docs)}

    def of_chart(self, chart: Chart) -> dict[str, str]:
        """Add the frames of a chart; returns the ids of their blocks."""
        for name, frame in chart.frames.items():
            self.texts[f"data-{chart.id}-{name}"] = data_block(frame)
        return {name: f"data-{chart.id}-{name}" for name in chart.frames}
