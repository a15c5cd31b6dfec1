"""What is measured of a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.page_frames import page_rows
from tests.browser.chromium import chromium_path
from tests.planted.scenes import clean

pytestmark = pytest.mark.full


@pytest.mark.slow
def test_the_page_and_its_timeline_have_a_row_each(tmp_path: Path) -> None:
    if chromium_path() is None:
        pytest.skip("needs Chromium of the system's packages: make chromium, or apt-get install chromium")
    opens, zooms = page_rows(clean(steps=2).write(tmp_path), tmp_path / "page.html", seconds=0.2)
    assert opens.seconds is not None
    assert opens.seconds > 0
    assert zooms.figures["slices"] > 0
    assert zooms.figures["frames/s"] > 0
