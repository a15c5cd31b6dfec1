"""A served page in a browser: its policy lets it draw all it has, and Perfetto gets the timeline's bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import Window, opened
from tests.browser.conftest import PageOf
from tests.browser.pages import draw_all
from tests.unit.viewer.serving import TIMELINE_BYTES, serving
from tracebraid.errors import OutputError
from tracebraid.viewer import ReportServer

PERFETTO = "https://ui.perfetto.dev/**"
STAND_IN = """<!doctype html><script>
let asked = 0;
addEventListener("message", (event) => {
  if (event.data === "PING" && ++asked < 3) return;
  if (event.data === "PING") event.source.postMessage("PONG", event.origin);
  else globalThis.handed = event.data.perfetto;
});
</script>"""
"""Listens as Perfetto's page does; not from the start."""
SERVED = Window(served=True)


@pytest.fixture(scope="module")
def server(demo_page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReportServer]:
    page = demo_page.with_name("served.html").read_bytes()
    with serving(tmp_path_factory.mktemp("served"), page) as server:
        yield server


def is_busy(page: Page) -> bool:
    return page.locator("#open-in-perfetto").get_attribute("aria-disabled") == "true"


@pytest.mark.full
def test_its_policy_lets_it_draw_all_it_has(page_of: PageOf, server: ReportServer) -> None:
    """What the policy refuses is an error of the console."""
    draw_all(page_of(server.address, SERVED))


@pytest.mark.full
def test_a_page_from_a_file_offers_no_hand_over(page_of: PageOf, demo_page: Path) -> None:
    expect(page_of(demo_page).locator("#open-in-perfetto")).to_have_count(0)


@pytest.mark.full
def test_perfetto_gets_the_timeline(page_of: PageOf, server: ReportServer) -> None:
    page = page_of(server.address, SERVED)
    page.context.route(PERFETTO, lambda route: route.fulfill(content_type="text/html", body=STAND_IN))
    with page.expect_popup() as popup:
        page.click("#open-in-perfetto")
    popup.value.wait_for_function("globalThis.handed")
    handed = popup.value.evaluate(
        "({...globalThis.handed, buffer: Array.from(new Uint8Array(handed.buffer))})"
    )
    assert bytes(handed["buffer"]) == TIMELINE_BYTES
    assert handed["title"] == page.title()
    expect(page.locator("#open-in-perfetto:not([aria-disabled])")).to_have_count(1)


@pytest.mark.full
def test_a_perfetto_out_of_reach_is_reported(page_of: PageOf, server: ReportServer) -> None:
    page = page_of(server.address, SERVED)
    page.context.route(PERFETTO, lambda route: route.abort())
    page.clock.install()
    with page.expect_response("**/timeline*"), page.expect_popup():
        page.click("#open-in-perfetto")
    assert is_busy(page)
    waiting = page.text_content("#perfetto-state")
    for _ in range(100):
        page.clock.run_for(10_000)
        if not is_busy(page):
            break
    assert not is_busy(page)
    assert page.text_content("#perfetto-state") not in ("", waiting)


@pytest.mark.full
def test_a_timeline_that_cannot_be_written_is_reported(
    browser: Browser, demo_page: Path, tmp_path: Path
) -> None:
    def write(path: Path) -> None:
        raise OutputError(str(path), "planted problem", "Planted")

    served = demo_page.with_name("served.html").read_bytes()
    with serving(tmp_path, served, write) as server, opened(browser, server.address, SERVED) as (page, _):
        page.context.route(PERFETTO, lambda route: route.fulfill(content_type="text/html", body=STAND_IN))
        with page.expect_popup():
            page.click("#open-in-perfetto")
        expect(page.locator("#perfetto-state")).to_contain_text("planted problem")
