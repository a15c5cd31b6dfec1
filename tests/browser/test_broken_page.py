"""A page whose data are damaged says so where the figure would be, and shows all the others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import Window, opened

DAMAGES = {
    "not base64": "<b>\u202e%%%",
    "not gzip": "AAAA",
    "empty": "",
}


@pytest.mark.full
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_block_is_said_in_words(
    damage: str, browser: Browser, planted_page: Path, tmp_path: Path
) -> None:
    text = planted_page.read_text()
    block = re.compile(r'(<script[^>]*id="data-timeline-chart-slices"[^>]*>)[^<]*')
    broken, changed = block.subn(lambda found: found[1] + DAMAGES[damage], text)
    assert changed == 1
    path = tmp_path / "page.html"
    path.write_text(broken)
    with opened(browser, path.as_uri(), Window()) as (page, faults):
        timeline = page.locator("[data-chart=timeline]")
        timeline.scroll_into_view_if_needed()
        expect(timeline).to_have_attribute("data-state", "failed")
        expect(timeline.locator(".failed")).not_to_be_empty()
        flame = page.locator("[data-chart=flame]")
        flame.scroll_into_view_if_needed()
        expect(flame).to_have_attribute("data-state", "ready")
        assert faults.errors == []
