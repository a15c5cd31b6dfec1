"""A report as one HTML page that needs no network."""

from __future__ import annotations

import base64
import re
from typing import Any

import msgspec
import numpy as np
import polars as pl
from isal import igzip

from tracebraid.extras import Extra, missing_extra
from tracebraid.model.answer_sentences import CODES_OF_COLUMNS, code_name
from tracebraid.model.printable import printable
from tracebraid.model.report import Chart, DataTable, Report
from tracebraid.reports.answers import heading
from tracebraid.reports.names import capitalised
from tracebraid.reports.page.modules import content_policy, start, style
from tracebraid.reports.relative_moments import relative_moments
from tracebraid.version import __version__


def table_columns(table: DataTable) -> list[dict[str, Any]]:
    """Describe the shown columns: name, heading, type, meaning, and labels of codes.

    The page formats values by their columns' names and types, as `reports.answers.answer_cells` does.
    """
    names = table.frame.columns if table.columns is None else table.columns
    docs = {column.name: column.doc for column in table.schema.columns}
    return [_column(table.frame.get_column(name), docs.get(name, "")) for name in names]


def _column(series: pl.Series, doc: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": series.name,
        "heading": heading(series.name),
        "type": _type(series.dtype),
    }
    codes = _codes(series)
    return found | ({"doc": doc} if doc else {}) | ({"codes": codes} if codes else {})


def _type(dtype: pl.DataType) -> str:
    if isinstance(dtype, pl.List | pl.Array):
        return "list"
    if dtype == pl.Boolean:
        return "bool"
    return "int" if dtype.is_integer() else "float" if dtype.is_float() else "text"


def _codes(series: pl.Series) -> dict[str, str]:
    """Return the labels of the codes in the column; a cell may hold several, separated by commas."""
    if series.name not in CODES_OF_COLUMNS or series.dtype != pl.String:
        return {}
    held = {part for text in series.unique().drop_nulls() for part in text.split(",")}
    codes = (code for kind in CODES_OF_COLUMNS[series.name] for code in kind)
    return {str(code.value): code_name(code) for code in codes if str(code.value) in held}


_LEVEL = 3
"""igzip's smallest."""
_WIDTHS = (1, 2, 4, 8)


def data_block(frame: pl.DataFrame) -> str:
    """Encode the frame as base64 text of compressed columns; equal frames give equal text."""
    columns: list[dict[str, Any]] = []
    parts: list[bytes] = []
    offset = 0
    for series in frame.get_columns():
        header, data = _encoded_column(series)
        columns.append({"name": series.name, "offset": offset, **header})
        parts.append(data)
        offset += len(data)
    head = msgspec.json.encode({"rows": frame.height, "columns": columns})
    raw = len(head).to_bytes(4, "little") + head + b"".join(parts)
    return base64.b64encode(igzip.compress(raw, _LEVEL, mtime=0)).decode("ascii")


def _encoded_column(series: pl.Series) -> tuple[dict[str, Any], bytes]:
    if series.dtype.is_float():
        return {"type": "float"}, _planes(series.cast(pl.Float64).fill_null(np.nan).to_numpy(), 8)
    if series.dtype.is_integer() or series.dtype == pl.Boolean:
        header, data = _integers(series.cast(pl.Int64))
        return {**header, "type": "bool" if series.dtype == pl.Boolean else "int"}, data
    return _texts(series)


def _integers(series: pl.Series) -> tuple[dict[str, Any], bytes]:
    """Encode integers; null is the largest number of the width."""
    nulls = series.is_null().to_numpy()
    values = series.fill_null(0).to_numpy().astype(np.int64)
    plain = _narrow(values, nulls)
    if len(values) > 1 and not nulls.any():
        deltas = np.concatenate([values[:1] * 0, np.diff(values)])
        by_delta = _narrow(deltas, nulls)
        if by_delta[0]["width"] < plain[0]["width"]:
            return {**by_delta[0], "delta": True, "first": int(values[0])}, by_delta[1]
    return plain


def _narrow(values: np.ndarray[Any, Any], nulls: np.ndarray[Any, Any]) -> tuple[dict[str, Any], bytes]:
    known = values[~nulls]
    least = int(known.min()) if len(known) else 0
    span = int(known.max()) - least if len(known) else 0
    has_nulls = bool(nulls.any())
    width = next(width for width in _WIDTHS if width == 8 or span + has_nulls < 1 << (8 * width))
    shifted = (values - least).astype(np.uint64)
    if has_nulls:
        shifted[nulls] = (1 << (8 * width)) - 1
    data = shifted.astype(f"<u{width}")
    return {"least": least, "width": width, "nulls": has_nulls}, _planes(data, width)


def _texts(series: pl.Series) -> tuple[dict[str, Any], bytes]:
    if isinstance(series.dtype, pl.List | pl.Array | pl.Struct):
        values = [
            None if value is None else msgspec.json.encode(value).decode() for value in series.to_list()
        ]
        series = pl.Series(series.name, values, dtype=pl.String)
    text = series.cast(pl.String)
    distinct = text.drop_nulls().unique(maintain_order=True)
    codes = text.to_frame("text").join(
        distinct.to_frame("text").with_row_index("code"), on="text", how="left", maintain_order="left"
    )
    header, data = _integers(codes.get_column("code").cast(pl.Int64))
    return {**header, "type": "text", "texts": distinct.to_list()}, data


def _planes(values: np.ndarray[Any, Any], width: int) -> bytes:
    """Split values into byte planes: the lowest bytes of all values first."""
    little = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<"), copy=False))
    planes: bytes = little.view(np.uint8).reshape(-1, width).T.tobytes()
    return planes


COLUMN_DOCS = "column-docs"
"""Id of the block with the distinct meanings of columns; `js/main.js` reads it."""


def page(report: Report, timeline: str | None = None) -> str:
    """Render the page."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup, escape
    except ImportError as error:
        raise missing_extra(Extra.REPORT) from error
    environment = Environment(
        loader=PackageLoader("tracebraid.reports.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["printable"] = printable
    environment.filters["capitalised"] = capitalised
    environment.filters["unbroken"] = _unbroken
    environment.filters["with_code"] = lambda text: Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))
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
        policy=content_policy(served=timeline is not None),
        start=start(),
        style=style(),
        version=__version__,
        timeline=timeline,
    )


_CODE = re.compile("`([^`]+)`")
_FIGURE = re.compile(r"(?<=\d) (?=(?:%|[nµm]?s|[kKMGTP]?B)(?!\w))")


def _unbroken(text: str) -> str:
    """The text, in which no line ends between a number and its unit."""
    return _FIGURE.sub("\N{NO-BREAK SPACE}", text)


class _Blocks:
    """Data blocks of the page, one for each frame; filled while the sections are rendered."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._docs: dict[str, int] = {}

    def add(self, table: DataTable) -> str:
        """Add the rows of a table, with moments relative to its start; return the id of the block."""
        frame = table.frame if table.columns is None else table.frame.select(table.columns)
        self.texts[f"data-{table.id}"] = data_block(relative_moments(table).select(frame.columns))
        return f"data-{table.id}"

    def columns_of(self, table: DataTable) -> list[dict[str, Any]]:
        """Return `table_columns` with an index for each meaning, since many tables share them."""
        columns = table_columns(table)
        for column in columns:
            if "doc" in column:
                column["doc"] = self._docs.setdefault(column["doc"], len(self._docs))
        return columns

    def all_texts(self) -> dict[str, str]:
        """Return all blocks by id, including that of the meanings of columns."""
        docs = pl.DataFrame({"doc": list(self._docs)}, schema={"doc": pl.String})
        return {**self.texts, COLUMN_DOCS: data_block(docs)}

    def of_chart(self, chart: Chart) -> dict[str, str]:
        """Add the frames of a chart; return the ids of their blocks."""
        for name, frame in chart.frames.items():
            self.texts[f"data-{chart.id}-{name}"] = data_block(frame)
        return {name: f"data-{chart.id}-{name}" for name in chart.frames}
