"""Fixtures of the tests in a real browser: one Chromium for each process of a run, and its pages.

Playwright's event loop runs while Chromium does. Both end with the last test of this folder that a process runs, so
that no test of another folder meets a running loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

import tracebraid
from tests.browser.chromium import Faults, Window, chromium_path, launched, opened
from tests.browser.pages import page_of_job
from tests.hostile.hostile_names import hostile_job
from tests.planted.scenes import clean
from tracebraid.model.report import Report

PageOf: TypeAlias = Callable[..., Page]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium, headless."""
    path = chromium_path()
    if path is None:
        pytest.skip("needs Chromium of the system's packages: make chromium, or apt-get install chromium")
    with sync_playwright() as playwright, launched(playwright, path) as browser:
        yield browser


@pytest.fixture
def page_of(browser: Browser, tmp_path: Path) -> Iterator[PageOf]:
    """Opens a page with the network off: `page_of(report or path or address, Window(...))`.

    In the end the test fails where any page had an error, or asked for something of a network.
    """
    with ExitStack() as stack:
        faults: list[Faults] = []

        def open_page(what: Report | Path | str, window: Window | None = None) -> Page:
            if isinstance(what, Report):
                target = tmp_path / f"page_{len(faults)}.html"
                tracebraid.write_report(what, target)
                what = target
            address = what.as_uri() if isinstance(what, Path) else what
            page, found = stack.enter_context(opened(browser, address, window or Window()))
            faults.append(found)
            return page

        yield open_page
        assert [fault for found in faults for fault in found.all()] == []


@pytest.fixture(scope="session")
def demo_page(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the demo."""
    return page_of_job(tmp_path_factory, "demo", lambda _: demo)


@pytest.fixture(scope="session")
def planted_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of two ranks with a device each, which train; beside it lie the `traces`."""
    return page_of_job(tmp_path_factory, "planted", write_planted)


def write_planted(folder: Path) -> None:
    for rank in range(2):
        clean(3, rank, 2).write(folder)


@pytest.fixture(scope="session")
def hostile_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a rank whose names attack whatever shows them."""
    return page_of_job(tmp_path_factory, "hostile", hostile_job)
