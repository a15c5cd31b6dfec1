"""Measure a report's page in headless Chromium: its size, how soon it opens, frames a second while its timeline zooms.

    python -m benchmarks.page_frames [TRACE] [--steps STEPS] [--seconds N] [--traces DIR] [--json]

Without TRACE, that of 54 MB with 216k events. `frames/s` counts the frames in which the timeline was drawn while each
asked for the next zoom, in and out in turn; `slowest` is the longest time between two frames in ms. Chromium draws
with the processor here: a machine with a graphics device draws faster.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

import tracebraid
from benchmarks.inputs import Inputs, find_real_traces
from benchmarks.table import Row, Target, as_json, as_table
from tests.browser.chromium import Window, chromium_path, launched, opened
from tracebraid.model.report.parts import Chart, ChartKind, Report

__all__ = ["rows_of"]

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


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trace", type=Path, nargs="?", metavar="TRACE")
    parser.add_argument("--steps", help="the steps of the timeline; by default a typical step")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long the timeline zooms")
    parser.add_argument("--traces", type=Path, metavar="DIR", help="the folder of real traces")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as made:
        path = given.trace or Inputs(Path(made), find_real_traces(given.traces)).timeline()
        rows = rows_of(path, Path(made) / "report.html", given.steps, given.seconds)
    print(as_json(rows) if given.json else as_table(rows))


def rows_of(trace: Path, page: Path, steps: str | None = None, seconds: float = SECONDS) -> list[Row]:
    """A row for the page, and one for its timeline.

    Args:
        trace: a trace or a folder.
        page: the file that is written for it.
        steps: of the timeline; None: a typical step.
        seconds: how long the timeline zooms.
    """
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


if __name__ == "__main__":
    main()
