"""The timeline in a browser: zoom, search, clicks, keys and touch do what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page

import tracebraid
from tests.browser.chromium import Window
from tests.browser.conftest import PageOf
from tests.planted import PlannedJob
from tracebraid.api.reporting import ReportOptions, run_results
from tracebraid.model.printable import printable
from tracebraid.model.report import Report
from tracebraid.reports.sections.timeline import timeline

_HOSTILE = "</script><img src=x onerror=alert(1)>\u202e" + "k" * 2_000


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Two ranks that compute and reduce; a kernel has a hostile name."""
    job = PlannedJob(2)
    for number in range(1, 4):
        with job.step(number):
            job.compute(100_000)
            job.compute(60_000, name=_HOSTILE)
            job.collective("allreduce", transfer=50_000)
    folder: Path = tmp_path_factory.mktemp("timeline")
    job.write(folder)
    results = run_results(tracebraid.open(folder), ReportOptions(steps="2", with_graph=False))
    return Report("Timeline", [timeline(results)])


def _opened(page_of: PageOf, report: Report, window: Window | None = None) -> Page:
    page = page_of(report, window)
    page.locator("[data-chart=timeline]").scroll_into_view_if_needed()
    page.wait_for_selector("[data-chart=timeline][data-state=ready]")
    return page


def _frame(page: Page) -> None:
    """Wait until what was asked for is drawn."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def _pixels(page: Page) -> str:
    _frame(page)
    drawn: str = page.evaluate("document.querySelector('.timeline-scroller canvas').toDataURL()")
    return drawn


def _selected(page: Page) -> int:
    return int(page.locator(".timeline").get_attribute("data-selected") or "-1")


def _button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


@pytest.mark.full
def test_search_selects_and_the_details_lead_to_the_launch(page_of: PageOf, shown: Report) -> None:
    page = _opened(page_of, shown)
    search = page.get_by_label("Search slices by name")
    search.fill("SGEMM")
    assert "2" in page.locator(".timeline-matches").inner_text()
    search.press("Enter")
    first = _selected(page)
    details = page.locator(".timeline-details")
    assert details.locator("h3").inner_text() == "sgemm_128x64_nn"
    _button(page, "Next match").click()
    assert _selected(page) not in (-1, first)
    details.get_by_role("button", name="cudaLaunchKernel").click()
    assert details.locator("h3").inner_text() == "cudaLaunchKernel"
    details.get_by_role("button", name="sgemm_128x64_nn").click()
    assert details.locator("h3").inner_text() == "sgemm_128x64_nn"
    assert "sgemm_128x64_nn" in page.locator(".timeline .spoken").inner_text()


@pytest.mark.full
def test_members_of_a_collective_lead_to_the_other_rank(page_of: PageOf, shown: Report) -> None:
    page = _opened(page_of, shown)
    search = page.get_by_label("Search slices by name")
    search.fill("ncclDevKernel")
    search.press("Enter")
    first, details = _selected(page), page.locator(".timeline-details")
    members = details.locator(".relations").filter(has=page.get_by_text("On other ranks"))
    members.get_by_role("button").click()
    assert _selected(page) != first
    members.get_by_role("button").click()
    assert _selected(page) == first


@pytest.mark.full
def test_keys_select_zoom_and_clear(page_of: PageOf, shown: Report) -> None:
    page = _opened(page_of, shown)
    page.locator(".timeline-scroller").focus()
    blank = _pixels(page)
    page.keyboard.press("Enter")
    first = _selected(page)
    assert first >= 0
    page.keyboard.press("ArrowDown")
    below = _selected(page)
    assert below != first
    page.keyboard.press("ArrowUp")
    assert _selected(page) == first
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert _selected(page) == below + 1
    before = _pixels(page)
    page.keyboard.press("f")
    assert _pixels(page) != before
    page.keyboard.press("0")
    page.keyboard.press("Escape")
    assert _selected(page) == -1
    assert _pixels(page) == blank
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"


@pytest.mark.full
def test_a_click_selects_what_is_there_and_a_drag_moves(page_of: PageOf, shown: Report) -> None:
    page = _opened(page_of, shown)
    page.locator(".timeline-scroller").focus()
    page.keyboard.press("Enter")
    name = page.locator(".timeline-details h3").inner_text()
    page.keyboard.press("Escape")
    canvas = page.locator(".timeline-scroller canvas")
    box = canvas.bounding_box()
    assert box is not None
    # The first line of the first thread, where its step fills the time.
    x, y = box["width"] * 0.6, 22 + 22 + 9
    canvas.click(position={"x": x, "y": y})
    assert page.locator(".timeline-details h3").inner_text() == name
    page.keyboard.press("w")
    page.keyboard.press("w")
    before = _pixels(page)
    page.mouse.move(box["x"] + x, box["y"] + y)
    page.mouse.down()
    page.mouse.move(box["x"] + x - 80, box["y"] + y, steps=4)
    page.mouse.up()
    page.mouse.move(0, 0)
    assert _pixels(page) != before
    assert page.locator(".timeline-details h3").inner_text() == name


@pytest.mark.full
def test_the_wheel_zooms_with_control_and_scrolls_without(page_of: PageOf, shown: Report) -> None:
    page = _opened(page_of, shown)
    before = _pixels(page)
    page.locator(".timeline-scroller canvas").hover(position={"x": 500, "y": 150})
    hovered = _pixels(page)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    assert _pixels(page) not in (before, hovered)
    _button(page, "Show all of the time").click()
    page.mouse.move(0, 0)
    assert _pixels(page) == before


@pytest.mark.full
def test_a_rank_collapses_and_the_path_and_arrows_can_be_hidden(page_of: PageOf, shown: Report) -> None:
    page = _opened(page_of, shown)
    drawn = _pixels(page)
    _button(page, "Collapse or open all ranks").click()
    assert _pixels(page) != drawn
    _button(page, "Collapse or open all ranks").click()
    assert _pixels(page) == drawn
    page.get_by_label("Arrows").uncheck()
    assert _pixels(page) != drawn


@pytest.mark.full
def test_hostile_names_are_text_in_full(page_of: PageOf, shown: Report) -> None:
    page = _opened(page_of, shown)
    search = page.get_by_label("Search slices by name")
    search.fill("onerror")
    search.press("Enter")
    assert page.locator(".timeline-details h3").text_content() == printable(_HOSTILE)
    assert page.locator(".timeline img").count() == 0


@pytest.mark.full
def test_a_tap_on_a_phone_selects_and_the_details_leave_the_slice_in_view(
    page_of: PageOf, shown: Report
) -> None:
    page = _opened(page_of, shown, Window(size={"width": 360, "height": 740}, touch=True))
    canvas = page.locator(".timeline-scroller canvas")
    box = canvas.bounding_box()
    assert box is not None
    canvas.tap(position={"x": box["width"] * 0.6, "y": 22 + 22 + 9})
    assert _selected(page) >= 0
    details = page.locator(".timeline-details").bounding_box()
    assert details is not None
    assert details["y"] >= box["y"] + 22 + 22 + 18
    assert details["y"] + details["height"] <= 740
    assert details["width"] <= 360


@pytest.mark.full
def test_the_tooltip_stays_in_the_window_and_escape_closes_it(page_of: PageOf, shown: Report) -> None:
    page = _opened(page_of, shown)
    canvas = page.locator(".timeline-scroller canvas")
    tooltip = page.locator(".timeline > .tooltip")
    page.get_by_label("Search slices by name").fill("onerror")
    page.keyboard.press("Enter")
    page.locator(".timeline-scroller").press("f")
    page.evaluate("scrollTo(0, document.querySelector('.timeline-scroller').offsetTop - innerHeight + 200)")
    box = canvas.bounding_box()
    assert box is not None
    for y in range(30, int(box["height"]), 12):
        page.mouse.move(box["x"] + box["width"] - 60, box["y"] + y)
        if tooltip.is_visible():
            found = tooltip.bounding_box()
            assert found is not None
            assert found["x"] >= 0
            size = page.viewport_size
            assert size is not None
            assert found["x"] + found["width"] <= size["width"]
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 22 + 22 + 9)
    assert tooltip.is_visible()
    page.keyboard.press("Escape")
    assert tooltip.is_hidden()
