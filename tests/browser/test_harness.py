"""The harness itself: what it must notice."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import Faults, Window, opened

SCRIPTS = {
    "console": "console.error('planted')",
    "errors": "null.planted",
    "requests": "fetch('https://example.com/planted').catch(() => null)",
}


def faults_of(browser: Browser, folder: Path, script: str) -> Faults:
    page = folder / "page.html"
    page.write_text(f"<!doctype html><script>{script}</script>")
    with opened(browser, page.as_uri(), Window()) as (opened_page, faults):
        opened_page.wait_for_timeout(50)
    return faults


@pytest.mark.full
@pytest.mark.parametrize("kind", SCRIPTS)
def test_a_fault_of_a_page_is_noticed(kind: str, browser: Browser, tmp_path: Path) -> None:
    assert getattr(faults_of(browser, tmp_path, SCRIPTS[kind]), kind) != []


@pytest.mark.full
def test_a_page_without_faults_has_none(browser: Browser, tmp_path: Path) -> None:
    assert faults_of(browser, tmp_path, "let planted = 1").all() == []
