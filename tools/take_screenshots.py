"""Take the pictures of the documents: `python tools/take_screenshots.py [FOLDER]`; needs Chromium.

They show the report of a job of two ranks of which one sleeps: its first screen, in light and on a phone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, ViewportSize, sync_playwright

import tracebraid
from tracebraid.model.report import Report

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.browser.chromium import PHONE, Window, chromium_path, launched, opened  # noqa: E402

IMAGES = ROOT / "docs" / "images"
MOST_BYTES = 200_000
"""Names of pictures: they are in the repository."""
DESK = ViewportSize(width=1440, height=810)
PICTURES = {
    "report.png": Window(DESK, folded=True),
    "report_phone.png": Window(PHONE, folded=True),
}
"""The window of each."""
PROGRAM = "sleeping_rank"
"""Of `benchmarks.examination`."""


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
        tracebraid.write_report(report_of_program(Path(made)), page)
        sizes = {name: take(browser, page, folder / name) for name in PICTURES}
    too_large = {name: size for name, size in sizes.items() if size > MOST_BYTES}
    for name, size in sizes.items():
        print(f"{folder / name}: {size:,} bytes{' TOO LARGE' if name in too_large else ''}")
    return int(bool(too_large))


def report_of_program(folder: Path) -> Report:
    """The report of the program's traces, opened by a relative path: the page shows it."""
    words = [sys.executable, "-m", "benchmarks.examination.run_program", PROGRAM, "faulty", "-"]
    subprocess.run([*words, str(folder / "traces")], cwd=ROOT, check=True)
    before = Path.cwd()
    os.chdir(folder)
    try:
        return tracebraid.report(tracebraid.open("traces"))
    finally:
        os.chdir(before)


def take(browser: Browser, page: Path, target: Path) -> int:
    """Take a picture; returns its size in bytes."""
    with opened(browser, page.as_uri(), PICTURES[target.name]) as (shown, _):
        shown.locator("#accounting[data-state=ready]").wait_for()
        return len(shown.screenshot(path=target))


if __name__ == "__main__":
    sys.exit(main())
