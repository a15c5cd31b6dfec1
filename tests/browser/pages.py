"""Pages to open: made once for all processes of a run; and what stands in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

import tracebraid
from tests.integration.calm import shared_capture
from tracebraid.reports.page.page import page as html
from tracebraid.viewer import TIMELINE

_DRAW = """async (unfold) => {
  const waiting = () => [...document.querySelectorAll(
    '[data-chart]:not([data-state]), [data-block]:not([data-state])')]
    .filter((element) => unfold || !element.closest('details:not([open])'));
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  if (unfold) for (const fold of document.querySelectorAll('details')) fold.open = true;
  for (let round = 0; round < 400 && waiting().length; round++) {
    waiting()[0].scrollIntoView({ behavior: 'instant' });
    await frame();
  }
  scrollTo({ top: 0, behavior: 'instant' });
  await frame();
  return Array.from(waiting(), (element) => element.id);
}"""
"""Opens what is folded, if wanted, and scrolls to each figure until it is drawn; the ids of those that never are."""

_MARKS = """(figure) => {
  const canvases = [...figure.querySelectorAll('canvas')];
  const shapes = figure.querySelectorAll(
    'svg rect, svg path, svg circle, svg line, svg polyline, svg polygon, .bar, [data-mark]').length;
  const colours = new Set();
  for (const canvas of canvases) {
    if (!canvas.width || !canvas.height) continue;
    const pixels = new Uint32Array(
      canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    for (const pixel of pixels) if (colours.size < 9) colours.add(pixel);
  }
  return { canvases: canvases.length, colours: colours.size, shapes };
}"""
"""What a figure shows: its canvases and how many colours (up to 9) are on them, its shapes of SVG or boxes."""

_CELLS = """(table) => {
  const names = [...table.querySelectorAll('th')].map((cell) => cell.dataset.column);
  return [...table.querySelectorAll('tbody tr:not(.gap)')].map((row) =>
    Object.fromEntries([...row.cells].map((cell, at) => [names[at], cell.textContent])));
}"""


def page_of_job(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The page of a job; written once for all processes of a run. Beside it lies `served.html`, as `view` serves it.

    Args:
        factory: of temporary folders.
        name: names the page among all.
        make: writes the job's traces into a folder, which is there; or returns the folder where they are.
    """

    def write(folder: Path) -> None:
        folder.mkdir()
        traces = folder / "traces"
        traces.mkdir()
        given = make(traces)
        job = tracebraid.open(given if isinstance(given, Path) else traces, unreadable="skip")
        report = tracebraid.report(job, title=f"Page of {name}")
        tracebraid.write_report(report, folder / "report.html")
        (folder / "served.html").write_text(html(report, TIMELINE))

    return shared_capture(factory, f"page_of_{name}", write) / "report.html"


def draw_all(page: Page, unfold: bool = True) -> None:
    """Open what is folded, if wanted, scroll through the page, and wait until every figure and table is drawn."""
    undrawn = page.evaluate(_DRAW, unfold)
    assert undrawn == [], f"never drawn: {undrawn}"


def figures_of(page: Page) -> dict[str, str]:
    """The charts of the page: their kinds by their ids."""
    found: dict[str, str] = page.evaluate(
        "() => Object.fromEntries([...document.querySelectorAll('[data-chart]')].map((f) => [f.id, f.dataset.chart]))"
    )
    return found


def tables_of(page: Page) -> list[str]:
    """The ids of the tables of the page."""
    found: list[str] = page.evaluate(
        "() => [...document.querySelectorAll('[data-block]')].map((table) => table.id)"
    )
    return found


def marks_of(page: Page, figure: str) -> dict[str, Any]:
    """What a figure shows: its `canvases`, the `colours` on them, and `shapes` of SVG and boxes."""
    found: dict[str, Any] = page.locator(f"[id='{figure}']").evaluate(_MARKS)
    return found


def cells_of(page: Page, table: str) -> list[dict[str, str]]:
    """The rows of a table as the page shows them: texts by their columns' names."""
    found: list[dict[str, str]] = page.locator(f"[id='{table}']").evaluate(_CELLS)
    return found


def is_wider_than_window(page: Page) -> bool:
    """Whether the page scrolls sideways."""
    found: bool = page.evaluate(
        "() => document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )
    return found
