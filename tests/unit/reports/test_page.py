"""The page: hostile names stay text, and equal reports give equal bytes."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser

import polars as pl
import pytest

from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.printable import printable
from tracebraid.model.report import (
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
    Verdict,
)
from tracebraid.reports.page.modules import content_policy, import_map, start, style
from tracebraid.reports.page.page import COLUMN_DOCS, page

HOSTILE = [
    "</script><script>alert(1)</script>",
    "</title><!--",
    "\"'><img src=x onerror=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "\u202egpj.exe\u2066",
    "\x00\x1b[31m\u2028\u2029",
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


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_text_stays_text(text: str) -> None:
    text_of_page = page(report_of(text))
    elements = Elements(text_of_page)
    shown = printable(text)
    assert elements.texts["title"] == [shown]
    assert elements.texts["h1"] == [shown]
    assert elements.texts["h2"] == [shown]
    assert elements.texts["dd"] == [shown]
    assert {*elements.texts["h3"], *elements.texts["h4"]} == {shown}
    assert "img" not in elements.texts
    assert not {"\u2028", "\u2029"} & set(text_of_page)
    blocks = {"data-rows", "data-drawn-bars", "data-twin", COLUMN_DOCS}
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


@pytest.mark.parametrize("timeline", [None, "timeline.gz"], ids=["file", "served"])
def test_the_policy_is_first_and_names_the_own_scripts_and_styles_by_hash(timeline: str | None) -> None:
    elements = Elements(page(report_of("a"), timeline))
    (policy,) = (meta["content"] for meta in elements.of("meta") if "http-equiv" in meta)
    assert policy == content_policy(served=timeline is not None)
    rules = dict(rule.split(" ", 1) for rule in (policy or "").split("; "))
    (own,) = (
        text
        for text, attributes in zip(elements.texts["script"], elements.of("script"), strict=True)
        if "type" not in attributes
    )
    assert set(rules["script-src"].split()) == {"'strict-dynamic'", hash_of(own), hash_of(import_map())}
    assert [rules["style-src"]] == list(map(hash_of, elements.texts["style"]))
    tags = [tag for tag, _ in elements.tags]
    assert tags.index("meta") < tags.index("style") < tags.index("script")
    allowed = {"default-src": "'none'", "base-uri": "'none'", "form-action": "'none'"}
    allowed |= {"connect-src": "'self'"} if timeline else {}
    assert {rule: rules[rule] for rule in rules.keys() - {"script-src", "style-src"}} == allowed


def hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_no_element_has_what_the_policy_refuses() -> None:
    odd = {name for _, attributes in Elements(page(report_of("a"), "t")).tags for name in attributes}
    assert not {name for name in odd if name.startswith("on") or name in ("style", "nonce")}


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


@pytest.mark.slow
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


def test_figures_keep_their_units_and_code_is_marked() -> None:
    parts: list[Part] = [
        Verdict(["Step time 382.5 ms: 57 % host code; 12 kB are seen in 3 steps."]),
        Missing("stacks", "no Python frames were recorded", "Capture with `tracebraid <b>`"),
    ]
    text = page(Report("x", (Section("a", "A", parts),))).replace("\N{NO-BREAK SPACE}", "~")
    assert "382.5~ms: 57~% host code; 12~kB are seen in 3 steps." in text
    assert "<code>tracebraid &lt;b&gt;</code>" in text


# --- Contrast of the page's colours, in both themes: WCAG 2.2, 1.4.3 and 1.4.11 ----------------------


GROUNDS = ("ground", "raised")
TEXTS = ("text", "faint", "accent", "warning", "error")
SHAPES = (*(f"series-{n}" for n in range(1, 11)), "idle", "critical", "edge")
PAIRS = dict(re.findall(r"--([\w-]+): light-dark\((#\w{6}, #\w{6})\)", style()))


def contrast(first: str, second: str) -> float:
    """Of two colours, 1 to 21."""
    least, most = sorted((luminance(first), luminance(second)))
    return (most + 0.05) / (least + 0.05)


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb`."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def worst(name: str, theme: int, grounds: tuple[str, ...]) -> float:
    own = PAIRS[name].split(", ")[theme]
    return min(contrast(own, PAIRS[ground].split(", ")[theme]) for ground in grounds)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_can_be_read(theme: int) -> None:
    assert {name for name in TEXTS if worst(name, theme, (*GROUNDS, "marked")) < 4.5} == set()


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_shapes_can_be_seen(theme: int) -> None:
    assert {name for name in SHAPES if worst(name, theme, GROUNDS) < 3} == set()


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
