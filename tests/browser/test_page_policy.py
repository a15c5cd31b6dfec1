"""What is planted into a page does not run, whether it is opened as a file or served: the page's policy refuses it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import Window, opened
from tests.unit.viewer.serving import serving

RUN = "globalThis.planted=1"
PLANTED = {
    f"<script>{RUN}</script>": "script-src-elem",
    f"<script src='data:text/javascript,{RUN}'></script>": "script-src-elem",
    "<script src='https://example.com/planted.js'></script>": "script-src-elem",
    f"<script type=module>{RUN}</script>": "script-src-elem",
    f"<script type=module src='data:text/javascript,{RUN}'></script>": "script-src-elem",
    '<script type=importmap>{"imports":{"tracebraid/main.js":"data:text/javascript,1"}}</script>': "script-src-elem",
    f"<details open ontoggle='{RUN}'></details>": "script-src-attr",
    "<style>body { display: none }</style>": "style-src-elem",
    "<p style='position: fixed'></p>": "style-src-attr",
    "<link rel=stylesheet href='https://example.com/planted.css'>": "style-src-elem",
    "<img src='https://example.com/planted.png'>": "img-src",
    f"<iframe src='data:text/html,<script>parent.{RUN}</script>'></iframe>": "frame-src",
    "<object data='https://example.com/planted'></object>": "object-src",
    "<base href='https://example.com/'>": "base-uri",
}
"""Markup in a page, and the rule that refuses it."""
WATCH = """globalThis.refused = [];
addEventListener('securitypolicyviolation', (event) => refused.push(event.effectiveDirective));"""


@contextmanager
def address_of(text: str, folder: Path, served: bool) -> Iterator[str]:
    if served:
        with serving(folder, text.encode()) as server:
            yield server.address
    else:
        path = folder / "page.html"
        path.write_text(text)
        yield path.as_uri()


@pytest.mark.full
@pytest.mark.parametrize("served", [False, True], ids=["file", "served"])
def test_what_is_planted_does_not_run(
    served: bool, browser: Browser, demo_page: Path, tmp_path: Path
) -> None:
    source = demo_page.with_name("served.html") if served else demo_page
    text, count = re.subn(
        r"(<main [^>]*>)", lambda tag: tag[0] + "".join(PLANTED), source.read_text(), count=1
    )
    assert count == 1
    with (
        address_of(text, tmp_path, served) as address,
        opened(browser, "about:blank", Window(served=served)) as (page, faults),
    ):
        page.add_init_script(WATCH)
        page.goto(address)
        expect(page.locator("#run [data-block]").first).to_have_attribute("data-state", "ready")
        times = 2 if served else 1  # the header's policy and the page's own
        expected = Counter(PLANTED.values())
        assert Counter(page.evaluate("refused")) == Counter({rule: n * times for rule, n in expected.items()})
        page.evaluate("() => fetch('https://example.com/planted').catch(() => null)")
        assert page.evaluate("globalThis.planted ?? null") is None
        assert faults.requests == []
