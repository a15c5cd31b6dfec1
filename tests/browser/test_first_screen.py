"""The first screen of a page: the verdict, the accounting and the cards; all else is folded and opens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

import tracebraid
from tests.browser.chromium import DESKTOP, Window
from tests.planted.patterns import PATTERNS
from tests.planted.scene import Scene

PageOf = Callable[..., Page]
_MOST_PX = 5_000
_FOLDED = Window(folded=True)


@pytest.fixture
def page(page_of: PageOf, tmp_path: Path) -> Page:
    (scene,) = PATTERNS["host-work"].scenes
    page = page_of(written(scene, tmp_path), _FOLDED)
    page.locator("#unfold").wait_for()
    return page


def written(scene: Scene, folder: Path) -> Path:
    traces = folder / "traces"
    traces.mkdir()
    scene.write(traces)
    out = folder / "page.html"
    tracebraid.write_report(tracebraid.report(tracebraid.open(traces)), out)
    return out


def test_what_is_slow_and_what_to_do_stand_on_the_first_screen(page: Page) -> None:
    for chosen in (".verdict", "#accounting svg", ".card .figure", ".card .change"):
        box = page.locator(chosen).first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= DESKTOP["height"]
    assert "host" in page.locator(".verdict").inner_text()
    assert page.evaluate("document.documentElement.scrollHeight") <= _MOST_PX


@pytest.mark.full
def test_a_link_opens_its_section(page: Page) -> None:
    fold = page.locator("#tables-ops details.fold")
    assert fold.get_attribute("open") is None
    page.locator("#sections a[href='#tables-ops']").click()
    assert fold.get_attribute("open") is not None
    page.locator("#tables-ops .table[data-state=ready]").first.wait_for()


@pytest.mark.full
def test_all_sections_open_at_once_and_close(page: Page) -> None:
    button = page.locator("#unfold")
    folds = page.locator("details.fold")
    button.click()
    assert page.locator("details.fold[open]").count() == folds.count() > 0
    assert button.inner_text() == "Fold all"
    button.click()
    assert page.locator("details.fold[open]").count() == 0


@pytest.mark.full
def test_all_sections_are_printed(page: Page) -> None:
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details.fold:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details.fold[open]").count() == 0


@pytest.mark.full
def test_what_is_left_out_is_a_line_for_each_reason(page: Page) -> None:
    section = page.locator("#left-out")
    lines = section.locator(".missing strong").all_text_contents()
    assert lines
    assert len(lines) == len(set(lines))
    assert page.locator(".missing").count() == len(lines)
    last = page.locator("main > section").last
    assert last.get_attribute("id") == "left-out"


@pytest.mark.full
def test_no_section_is_of_notes_alone(page: Page) -> None:
    sections = page.locator("main > section:not(#left-out):not(#verdict)")
    with_something = page.locator("main > section:not(#left-out):not(#verdict):has(figure, .table, .facts)")
    assert sections.count() == with_something.count()


@pytest.mark.full
def test_a_card_leads_to_its_slice_whose_details_are_a_drawer(page: Page) -> None:
    page.locator("#timeline-chart[data-state=ready]").wait_for()
    details = page.locator(".timeline-details")
    assert details.is_hidden()
    stage = page.locator(".timeline-scroller").bounding_box()
    section = page.locator("#timeline").bounding_box()
    assert stage is not None
    assert section is not None
    assert stage["width"] >= section["width"] - 2
    page.locator(".card a[data-slice]").first.click()
    assert details.is_visible()
    assert page.locator(".timeline").get_attribute("data-selected") == page.locator(
        ".card a[data-slice]"
    ).first.get_attribute("data-slice")
    details.get_by_role("button", name="Close the details").click()
    assert details.is_hidden()
