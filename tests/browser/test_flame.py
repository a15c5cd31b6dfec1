"""The flame graph in a browser: trees, zoom, search, keys, names as text."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

import tracebraid
from tests.browser.conftest import PageOf
from tests.browser.pages import marks_of
from tests.planted import Scene, write_ranks
from tracebraid.api.reporting import ReportOptions, run_results
from tracebraid.model.report import Report
from tracebraid.reports.sections.run_report import flame

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\x1b[31m🙂"


@pytest.fixture
def page(page_of: PageOf, tmp_path: Path) -> Page:
    scene = Scene()
    host, stream = scene.thread(), scene.stream()
    with host.frame("train.py(3): step"):
        host.spend(100_000)
        with host.op("aten::mm", 100_000):
            host.launch(stream, HOSTILE, 300_000)
        host.run("aten::add", 50_000)
        host.spend(10_000)
    job = tracebraid.open(write_ranks(tmp_path, [scene]))
    section = flame(run_results(job, ReportOptions(with_graph=False)))
    found = page_of(Report("Flames", [section]))
    found.wait_for_selector("#flame-graph[data-state=ready]")
    return found


def details(page: Page) -> Locator:
    return page.locator(".flame-details")


@pytest.mark.full
def test_the_graph_is_drawn_and_zooms_by_click_and_key(page: Page) -> None:
    assert marks_of(page, "flame-graph")["colours"] >= 3
    canvas = page.locator("#flame-graph canvas")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_disabled()
    canvas.click(position={"x": 5, "y": 28})
    expect(details(page)).to_contain_text("train.py(3): step")
    canvas.press("ArrowDown")
    expect(details(page)).to_contain_text("aten::mm")
    canvas.press("ArrowRight")
    expect(details(page)).to_contain_text("aten::add")
    canvas.press("Enter")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    canvas.press("Escape")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_disabled()
    expect(details(page)).to_contain_text("100.0 %")


@pytest.mark.full
def test_search_says_the_share_of_what_it_finds(page: Page) -> None:
    page.get_by_role("button", name="device time").click()
    page.get_by_label("Search names").fill("aten::mm")
    expect(page.locator("#flame-graph output")).to_contain_text("100.0 %")
    page.get_by_label("Search names").fill("no such name")
    expect(page.locator("#flame-graph output")).to_contain_text("0.0 %")


@pytest.mark.full
def test_any_name_is_shown_as_text(page: Page) -> None:
    page.get_by_role("button", name="device time").click()
    canvas = page.locator("#flame-graph canvas")
    for _ in range(3):
        canvas.press("ArrowDown")
    expect(details(page)).to_contain_text("</script><img src=x onerror=alert(1)>\\u202e\\x1b[31m🙂")
    page.get_by_label("Python functions").uncheck()
    canvas.press("ArrowDown")
    expect(details(page)).to_contain_text("aten::mm")
