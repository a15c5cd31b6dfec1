"""Take the pictures of the documents: `python tools/take_screenshots.py [FOLDER]`; needs Chromium.

They show the report of the bundled traces: its timeline in light, what to change first in dark, its top on a phone.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, ViewportSize, sync_playwright

import tracebraid
from tracebraid.model.report.parts import Report

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.browser.chromium import PHONE, Window, chromium_path, launched, opened  # noqa: E402
from tests.browser.pages import draw_all  # noqa: E402

IMAGES = ROOT / "docs" / "images"
MOST_BYTES = 200_000
"""Of a picture: they are in the repository."""
DESK = ViewportSize(width=1360, height=840)
PICTURES = {
    "report.png": (Window(DESK), "#timeline"),
    "report_changes.png": (Window(DESK, dark=True), "#changes"),
    "report_phone.png": (Window(PHONE), None),
}
"""The window of each, and what it is scrolled to."""


def main() -> int:
    """Take all; exit code 1 without Chromium, or where a picture is too large."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else IMAGES).resolve()
    path = chromium_path()
    if path is None:
        print("needs Chromium: make chromium, or apt-get install chromium", file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as made,
        sync_playwright() as playwright,
        launched(playwright, path) as browser,
    ):
        page = Path(made) / "report.html"
        tracebraid.write_report(demo_report(Path(made)), page)
        sizes = {name: take(browser, page, folder / name) for name in PICTURES}
    too_large = {name: size for name, size in sizes.items() if size > MOST_BYTES}
    for name, size in sizes.items():
        print(f"{folder / name}: {size:,} bytes{' TOO LARGE' if name in too_large else ''}")
    return int(bool(too_large))


def demo_report(folder: Path) -> Report:
    """The report of a copy of the bundled traces, opened by a relative path: the page shows it."""
    copy = folder / tracebraid.demo_path().name
    shutil.copytree(tracebraid.demo_path(), copy)
    before = Path.cwd()
    os.chdir(folder)
    try:
        return tracebraid.report(tracebraid.open(copy.name))
    finally:
        os.chdir(before)


def take(browser: Browser, page: Path, target: Path) -> int:
    """Take a picture; returns its size in bytes."""
    window, section = PICTURES[target.name]
    with opened(browser, page.as_uri(), window) as (shown, _):
        draw_all(shown, unfold=False)
        if section is not None:
            shown.locator(section).evaluate("(element) => element.scrollIntoView({ behavior: 'instant' })")
            shown.wait_for_timeout(300)
        return len(shown.screenshot(path=target))


if __name__ == "__main__":
    sys.exit(main())
