"""Hostile names are text in a page: nothing of them runs, and nothing of them steers the reader's eye."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.chromium import DESKTOP, PHONE, Window
from tests.browser.conftest import PageOf
from tests.browser.pages import cells_of, draw_all, is_wider_than_window
from tests.hostile.hostile_names import LONG, NAMES, RAN, steering

KERNELS = "rows-kernels"
BETWEEN_CELLS = {"\t"}
"""Of the text of a table."""


@pytest.mark.full
@pytest.mark.parametrize("window", [Window(DESKTOP), Window(PHONE)], ids=["desktop", "phone"])
def test_nothing_of_them_runs(page_of: PageOf, hostile_page: Path, window: Window) -> None:
    page = page_of(hostile_page, window)
    draw_all(page)
    assert page.evaluate(f"typeof {RAN}") == "undefined"
    assert page.locator("img, main script, iframe, object, embed, [onerror], [onmouseover]").count() == 0
    assert page.locator("a[href^='javascript']").count() == 0
    assert steering(page.locator("body").inner_text()) - BETWEEN_CELLS == set()
    assert not is_wider_than_window(page)


@pytest.mark.full
def test_they_are_the_text_of_the_tables_and_the_longest_can_be_read_whole(
    page_of: PageOf, hostile_page: Path
) -> None:
    page = page_of(hostile_page)
    page.locator(f"#{KERNELS}").scroll_into_view_if_needed()
    page.locator(f"#{KERNELS} .more").click()
    texts = {row["name"] for row in cells_of(page, KERNELS)}
    plain = {name for name in NAMES.values() if name and name.isprintable() and len(name) < 60}
    assert len(plain) > 10
    assert plain <= texts
    cell = page.locator(f"#{KERNELS} td button", has_text="kkkk").first
    assert len(cell.text_content() or "") < LONG / 10
    cell.click()
    expect(page.get_by_text(NAMES["long"], exact=True).first).to_be_visible()
