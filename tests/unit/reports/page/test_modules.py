"""The page's modules, and how they reach the browser."""

from __future__ import annotations

import base64
import gzip
import json
import re

from tests.deno import evaluated
from tracebraid.reports.page.modules import modules, packed_modules, stripped

SOURCE = """// Comment.
import { a } from "tracebraid/a.js";

/**
 * @param {string} text with `one backtick
 */
export function f(text) {
  // "quoted"
  const url = "https://example.com"; // behind code it stays
  return `${text} // no comment é % #`;
}
/** @type {number[]} */ (f("")).push(1);
/** Doc. */
f("");
"""
STRIPPED = """import { a } from "tracebraid/a.js";
export function f(text) {
const url = "https://example.com"; // behind code it stays
return `${text} // no comment é % #`;
}
/** @type {number[]} */ (f("")).push(1);
f("");
"""
MOST_BYTES = 150_000
"""Of all modules together, without comments and indentation."""


def test_comments_are_left_out() -> None:
    assert stripped(SOURCE) == STRIPPED


def test_no_text_spans_lines() -> None:
    """Otherwise it would lose its indentation, and lines that look like comments."""
    odd = [
        (name, line)
        for name, source in modules().items()
        for line in source.splitlines()
        if line.count("`") % 2
    ]
    assert odd == []


def test_each_module_names_itself_and_imports_what_is_there() -> None:
    found = modules()
    for name, source in found.items():
        assert source.endswith(f"//# sourceURL={name}\n")
        assert set(re.findall(r'from "(tracebraid/[^"]+)"', source)) - set(found) == set()


def test_each_module_is_whole() -> None:
    """The page's own module needs a page; all others load wherever they are."""
    script = """
    output = [];
    for (const [name, source] of Object.entries(input)) {
      const address = `data:text/javascript;charset=utf-8,${encodeURIComponent(source)}`;
      try { await import(address); } catch (error) { output.push([name, error.name]); }
    }"""
    assert evaluated(script, modules()) == [["tracebraid/main.js", "ReferenceError"]]


def test_the_modules_are_small() -> None:
    assert sum(len(source.encode()) for source in modules().values()) < MOST_BYTES


def test_they_travel_compressed() -> None:
    assert json.loads(gzip.decompress(base64.b64decode(packed_modules()))) == modules()
    assert packed_modules() == packed_modules()
