"""axe-core finds no serious fault, in light and in dark, at a desk and on a phone; pages print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser.chromium import PHONE, Window
from tests.browser.conftest import PageOf
from tests.browser.pages import draw_all

SERIOUS = ("serious", "critical")
ALL: dict[str, Any] = {"resultTypes": ["violations"]}
CONTRAST: dict[str, Any] = {**ALL, "runOnly": ["color-contrast"]}
"""The only rule that a theme changes."""
FEW_ROWS = """() => {
  for (const row of document.querySelectorAll('tbody tr:nth-child(n + 4)')) row.remove();
}"""
"""Rows of a table are alike: axe needs seconds for thousands of cells."""


def serious_faults(page: Page, options: dict[str, Any] = ALL) -> dict[str, list[Any]]:
    """Where axe finds serious faults, by its rules."""
    violations = Axe().run(page, options=options).response["violations"]
    return {
        found["id"]: [node["target"] for node in found["nodes"]][:5]
        for found in violations
        if found["impact"] in SERIOUS
    }


@pytest.mark.full
def test_axe_finds_no_serious_fault_at_a_desk_in_light_and_dark(page_of: PageOf, planted_page: Path) -> None:
    page = page_of(planted_page)
    draw_all(page)
    page.evaluate(FEW_ROWS)
    assert serious_faults(page) == {}
    page.emulate_media(color_scheme="dark")
    assert serious_faults(page, CONTRAST) == {}


@pytest.mark.full
def test_axe_finds_no_serious_fault_on_a_phone(page_of: PageOf, planted_page: Path) -> None:
    page = page_of(planted_page, Window(PHONE))
    draw_all(page)
    page.evaluate(FEW_ROWS)
    assert serious_faults(page) == {}


@pytest.mark.full
def test_axe_finds_what_is_planted(page_of: PageOf, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    text = '<p style="color: #777; background: #888">planted</p><button></button>'
    page.write_text(f"<!doctype html><html lang='en'><title>planted</title>{text}")
    opened = page_of(page)
    assert {"button-name", "color-contrast"} <= set(serious_faults(opened))
    assert set(serious_faults(opened, CONTRAST)) == {"color-contrast"}


@pytest.mark.full
def test_the_page_prints(page_of: PageOf, planted_page: Path) -> None:
    page = page_of(planted_page)
    draw_all(page)
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") > 1
