"""A report's page in headless Chromium: its size, how soon it opens, frames a second while its timeline zooms.

`frames/s` counts the frames in which the timeline was drawn while each
asked for the next zoom, in and out in turn; `slowest` is the longest time between two frames in ms. Chromium draws
with the processor here: a machine with a graphics device draws faster.
"""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, sync_playwright

import tracebraid
from benchmarks.inputs import Given
from benchmarks.measure import Row, Target
from tests.browser.chromium import Window, chromium_path, launched, opened
from tracebraid.model.report import Chart, ChartKind, Report

LEAST_FRAMES_PER_SECOND = 30.0
MOST_OPENING_SECONDS = 1.0
SECONDS = 5.0

_TIMELINE = "[data-chart=timeline]"
_OPENED_MS = "performance.getEntriesByType('navigation')[0].loadEventEnd"
_ZOOM = """async ([selector, lasting]) => {
  const scroller = document.querySelector(`${selector} .timeline-scroller`);
  const box = scroller.getBoundingClientRect();
  const frame = () => new Promise(requestAnimationFrame);
  const zoom = (amount) => scroller.dispatchEvent(new WheelEvent('wheel', {
    deltaY: amount, ctrlKey: true, bubbles: true, cancelable: true,
    clientX: box.left + box.width * 0.6, clientY: box.top + box.height / 2 }));
  let [before, frames, slowest] = [await frame(), 0, 0];
  const begun = before;
  while (before - begun < lasting) {
    zoom(Math.floor(frames / 24) % 2 ? 100 : -100);
    const now = await frame();
    slowest = Math.max(slowest, now - before);
    before = now;
    frames++;
  }
  return { frames: 1000 * frames / (before - begun), slowest };
}"""
"""Zooms in for 24 frames and out for as many, so that all depths are drawn."""


def page_rows(trace: Path, page: Path, steps: str | None = None, seconds: float = SECONDS) -> list[Row]:
    """A row for the page, and one for its timeline."""
    report = tracebraid.report(tracebraid.open(trace), steps=steps)
    tracebraid.write_report(report, page)
    path = chromium_path()
    if path is None:
        raise SystemExit("needs Chromium: make chromium, or apt-get install chromium")
    with (
        sync_playwright() as playwright,
        launched(playwright, path) as browser,
        opened(browser, page.as_uri(), Window()) as (shown, _),
    ):
        opening_s = shown.evaluate(_OPENED_MS) / 1e3
        found = _zoomed(shown, seconds)
    soon = Target(f"{MOST_OPENING_SECONDS:.0f} s", opening_s <= MOST_OPENING_SECONDS)
    smooth = Target(f"{LEAST_FRAMES_PER_SECOND:.0f} frames/s", found["frames"] >= LEAST_FRAMES_PER_SECOND)
    figures = {"slices": float(_slices(report)), "frames/s": found["frames"], "slowest": found["slowest"]}
    return [
        Row(trace.name, "opens", opening_s, figures={"MB": page.stat().st_size / 1e6}, target=soon),
        Row(trace.name, "zooms", figures=figures, target=smooth),
    ]


def _zoomed(page: Page, seconds: float) -> dict[str, float]:
    page.locator(_TIMELINE).scroll_into_view_if_needed()
    page.locator(f"{_TIMELINE}[data-state=ready]").wait_for()
    found: dict[str, float] = page.evaluate(_ZOOM, [_TIMELINE, seconds * 1e3])
    return found


def _slices(report: Report) -> int:
    parts = [part for section in report.sections for part in section.parts]
    charts = [part for part in parts if isinstance(part, Chart) and part.kind is ChartKind.TIMELINE]
    return sum(chart.frames["slices"].height for chart in charts)


def page_frames(given: Given) -> list[Row]:
    """A report's page in headless Chromium, drawn by the processor: opening, and frames a second in zooming."""
    return page_rows(given.timeline, given.folder / "report.html", seconds=given.seconds)
