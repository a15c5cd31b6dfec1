"""The page: hostile names stay text, and equal reports give equal bytes."""

from __future__ import annotations

import base64
import gzip
import json
from html.parser import HTMLParser

import polars as pl
import pytest

from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.report.parts import (
    Chart,
    ChartKind,
    DataTable,
    Facts,
    Level,
    Missing,
    Note,
    Part,
    Report,
    Section,
)
from tracebraid.reports.page.modules import start, style
from tracebraid.reports.page.page import COLUMN_DOCS, page
from tracebraid.reports.text import printable

HOSTILE = [
    "</script><script>alert(1)</script>",
    "</title><!--",
    "\"'><img src=x onerror=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "\u202egpj.exe\u2066",
    "\x00\x1b[31m\u2028",
    "<![CDATA[ &amp; &lt;",
    "k" * 10_000,
    "\U0001f600\U0001f469\u200d\U0001f467",
]
OWN_SCRIPTS = 1
"""What unpacks the modules."""


class Elements(HTMLParser):
    """The elements of a page, and the text of each of some kinds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open[-1]][-1] += data

    def of(self, name: str) -> list[dict[str, str | None]]:
        """Attributes of the elements with this name."""
        return [attributes for tag, attributes in self.tags if tag == name]


def report_of(text: str) -> Report:
    """A report with a text wherever a trace's text may stand."""
    frame = pl.DataFrame({text: [text], "kernel": [text], "ts_ns": [5]})
    schema = Table("t", "", tuple(Column(name, Kind.TEXT, text) for name in frame.columns))
    table = DataTable("rows", text, frame, schema, formula=text, left_out=1)
    chart = Chart(
        "drawn",
        ChartKind.BARS,
        text,
        text,
        {"bars": frame},
        {"label": text},
        text,
        DataTable("twin", text, frame, schema),
    )
    parts: list[Part] = [
        Facts([(text, text)]),
        Note(text, Level.WARNING),
        Missing(text, text, text),
        table,
        chart,
    ]
    return Report(text, [Section("first", text, parts, text)])


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_text_stays_text(text: str) -> None:
    elements = Elements(page(report_of(text)))
    shown = printable(text)
    assert elements.texts["title"] == [shown]
    assert elements.texts["h1"] == [shown]
    assert elements.texts["h2"] == [shown]
    assert elements.texts["dd"] == [shown]
    assert {*elements.texts["h3"], *elements.texts["h4"]} == {shown}
    assert "img" not in elements.texts
    blocks = {"data-rows", "data-drawn-bars", "data-twin", "modules", COLUMN_DOCS}
    scripts = elements.of("script")
    assert len(scripts) == OWN_SCRIPTS + len(blocks)
    assert {script["id"] for script in scripts if "id" in script} == blocks
    figure = elements.of("figure")[0]
    assert json.loads(figure["data-options"] or "") == {"label": text}
    (columns,) = (
        json.loads(tag["data-columns"] or "") for tag in elements.of("div") if tag.get("id") == "rows"
    )
    assert [column["name"] for column in columns] == [text, "kernel", "ts_ns"]
    assert {column["doc"] for column in columns} == {0}


def test_what_columns_mean_stands_once() -> None:
    schema = Table("t", "", (Column("kernel", Kind.TEXT, "K"), Column("ts_ns", Kind.INT, "T")))
    frame = pl.DataFrame({"ts_ns": [5], "kernel": ["k"], "other": ["o"]})
    tables = [DataTable(name, name, frame, schema) for name in ("first", "second")]
    text = page(Report("r", [Section("s", "s", list(tables))]))
    elements = Elements(text)
    found = [json.loads(tag["data-columns"] or "") for tag in elements.of("div") if "data-columns" in tag]
    assert [[column.get("doc") for column in columns] for columns in found] == [[0, 1, None]] * 2
    block = text.partition(f'id="{COLUMN_DOCS}">')[2].partition("<")[0]
    assert json.loads(_header(block))["columns"][0]["texts"] == ["T", "K"]


def _header(block: str) -> bytes:
    data = gzip.decompress(base64.b64decode(block))
    return data[4 : 4 + int.from_bytes(data[:4], "little")]


def test_no_text_of_a_trace_is_read_as_a_template() -> None:
    assert "{{ 7 * 7 }}" in page(report_of("{{ 7 * 7 }}"))


def test_equal_reports_give_equal_bytes() -> None:
    assert page(report_of("a")) == page(report_of("a"))
    assert page(report_of("a")) != page(report_of("b"))


def test_scripts_and_styles_do_not_end_their_elements() -> None:
    assert "</" not in style()
    assert "</" not in start()
    assert "<!--" not in start()


def test_a_page_asks_nothing_of_a_network() -> None:
    for tag, attributes in Elements(page(report_of("a"))).tags:
        for name in ("src", "href", "srcset", "action"):
            assert (attributes.get(name) or "#").startswith("#"), (tag, attributes)
    assert "url(" not in style()
    assert "@import" not in style()
