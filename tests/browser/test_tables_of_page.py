"""The tables of a page: sorted, filtered, searched, copied, downloaded."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PageOf
from tests.browser.pages import cells_of
from tests.hostile.hostile_names import FORMULAS, NAMES
from tests.integration.command import succeed

KERNELS = "rows-kernels"
"""Has fewer rows than a page shows at first."""


@pytest.fixture
def page(page_of: PageOf, planted_page: Path) -> Page:
    return with_kernels(page_of(planted_page))


def with_kernels(page: Page) -> Page:
    """The page when its table of kernels is there; nothing else of it is drawn."""
    page.locator(f"#{KERNELS}").scroll_into_view_if_needed()
    page.wait_for_selector(f"#{KERNELS}[data-state]")
    return page


def column(page: Page, table: str, name: str) -> list[str]:
    return [row[name] for row in cells_of(page, table)]


def sorts(page: Page, name: str) -> str | None:
    return page.locator(f"#{KERNELS} th[data-column='{name}']").get_attribute("aria-sort")


@pytest.mark.full
def test_a_heading_sorts_by_its_column_both_ways_and_back(page: Page) -> None:
    heading = page.locator(f"#{KERNELS} th[data-column='name'] button")
    before = column(page, KERNELS, "name")
    heading.click()
    assert (column(page, KERNELS, "name"), sorts(page, "name")) == (
        sorted(before, key=str.lower),
        "ascending",
    )
    heading.focus()
    page.keyboard.press("Enter")
    assert column(page, KERNELS, "name") == sorted(before, key=str.lower, reverse=True)
    page.keyboard.press("Space")
    assert (column(page, KERNELS, "name"), sorts(page, "name")) == (before, "none")


@pytest.mark.full
def test_numbers_are_sorted_as_numbers(page: Page, planted_page: Path) -> None:
    page.locator(f"#{KERNELS} th[data-column='count'] button").click()
    counts = [int(text.replace(",", "")) for text in column(page, KERNELS, "count")]
    assert len(set(counts)) > 1
    assert counts == sorted(counts, reverse=True)


@pytest.mark.full
def test_the_filter_leaves_the_rows_that_match(page: Page) -> None:
    all_names = column(page, KERNELS, "name")
    page.locator(f"#{KERNELS} .filter").fill("GEMM_")
    expected = [name for name in all_names if "gemm_" in name]
    assert 0 < len(expected) < len(all_names)
    expect(page.locator(f"#{KERNELS} tbody tr")).to_have_count(len(expected))
    assert column(page, KERNELS, "name") == expected
    page.locator(f"#{KERNELS} .filter").fill("")
    expect(page.locator(f"#{KERNELS} tbody tr")).to_have_count(len(all_names))


@pytest.mark.full
def test_a_key_leads_to_a_filter(page: Page) -> None:
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.className") == "filter"


@pytest.mark.full
def test_what_is_copied_are_the_rows_that_are_shown(page: Page) -> None:
    page.locator(f"#{KERNELS} .filter").fill("gemm")
    page.keyboard.press("Enter")
    page.locator(f"#{KERNELS} .tools button", has_text="Copy").click()
    copied = page.evaluate("navigator.clipboard.readText()").splitlines()
    rows = [dict(zip(copied[0].split("\t"), line.split("\t"), strict=True)) for line in copied[1:]]
    assert [row["name"] for row in rows] == column(page, KERNELS, "name")


def downloaded(page: Page, table: str) -> list[dict[str, str]]:
    with page.expect_download() as download:
        page.locator(f"#{table} .tools button", has_text="CSV").click()
    text = download.value.path().read_bytes().decode()
    return list(csv.DictReader(StringIO(text, newline="")))


@pytest.mark.full
def test_what_is_downloaded_are_the_values_of_analyze(page: Page, planted_page: Path) -> None:
    rows = downloaded(page, KERNELS)
    printed = succeed("analyze", "kernels", planted_page.with_name("traces"), "--csv")
    expected = list(csv.DictReader(StringIO(printed, newline="")))
    shown = list(rows[0])
    assert len(shown) > 3
    for name in shown:
        values = {row[name] for row in rows}
        others = {row[name] for row in expected}
        assert values == others or {float(v) for v in values if v} == {float(v) for v in others if v}


@pytest.mark.full
def test_what_is_downloaded_has_exact_names_and_no_formula(page_of: PageOf, hostile_page: Path) -> None:
    page = with_kernels(page_of(hostile_page))
    names = {row["name"] for row in downloaded(page, KERNELS)}
    guarded = {f"'{name}" for name in FORMULAS.values()}
    assert names == (set(NAMES.values()) - set(FORMULAS.values())) | guarded
