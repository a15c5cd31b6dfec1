"""The demo's page in a browser, from a file, with the network off."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import ViewportSize

from tests.browser.chromium import DESKTOP, PHONE, Window
from tests.browser.conftest import PageOf
from tests.browser.pages import draw_all, figures_of, is_wider_than_window, marks_of, tables_of

LEAST_COLOURS = 3
"""Colours on a canvas that is not blank: its ground, a mark, and an axis or letter."""


@pytest.mark.full
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_all_figures_are_drawn_and_fit_into_the_window(
    page_of: PageOf, demo_page: Path, size: ViewportSize
) -> None:
    page = page_of(demo_page, Window(size=size))
    draw_all(page)
    assert tables_of(page) != []
    blank = {
        id: marks
        for id in figures_of(page)
        if (marks := marks_of(page, id))["colours"] < LEAST_COLOURS and not marks["shapes"]
    }
    assert blank == {}
    assert not is_wider_than_window(page)
