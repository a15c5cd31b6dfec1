"""Chromium of the system's packages, its pages without a network, and what goes wrong in them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, Playwright, Route, ViewportSize

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_LOCAL = frozenset({"file", "data", "blob"})
"""Schemes of addresses that need no network."""
_LIMIT_MS = 30_000.0
"""After this time without what a test waits for, it fails; generous, since the machine may be busy."""

DESKTOP = ViewportSize(width=1280, height=900)
PHONE = ViewportSize(width=360, height=740)


@dataclass(frozen=True)
class Window:
    """How a page is opened.

    Args:
        size: of the window, in CSS pixels.
        dark: whether the reader prefers dark pages.
        served: whether the page comes from a server of this machine; by default from a file, with the network off.
        still: whether the reader prefers reduced motion.
        touch: whether the window is touched instead of clicked.
        folded: whether sections stay folded, as they are for a reader.
    """

    size: ViewportSize = field(default_factory=lambda: DESKTOP)
    dark: bool = False
    served: bool = False
    still: bool = False
    touch: bool = False
    folded: bool = False


@dataclass
class Faults:
    """What went wrong in a page: errors and warnings of the console, errors of scripts, requests to a network."""

    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def all(self) -> list[str]:
        """All of them."""
        return [*self.console, *self.errors, *self.requests]


def chromium_path() -> str | None:
    """Chromium's path; None where none is installed that starts: some distributions have only a stub that asks."""
    found = filter(None, map(shutil.which, _NAMES))
    return next((path for path in found if _starts(path)), None)


def _starts(path: str) -> bool:
    return subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0


def launched(playwright: Playwright, path: str) -> Browser:
    """A headless Chromium; only root's runs without its sandbox, which refuses root."""
    return playwright.chromium.launch(
        executable_path=path, args=["--no-sandbox"] if os.geteuid() == 0 else []
    )


@contextmanager
def opened(browser: Browser, address: str, window: Window) -> Iterator[tuple[Page, Faults]]:
    """A page, and what goes wrong in it until it is closed."""
    faults = Faults()
    with browser.new_context(
        viewport=window.size,
        color_scheme="dark" if window.dark else "light",
        reduced_motion="reduce" if window.still else "no-preference",
        offline=not window.served,
        has_touch=window.touch,
        accept_downloads=True,
    ) as context:
        context.set_default_timeout(_LIMIT_MS)
        context.grant_permissions(["clipboard-read", "clipboard-write"])

        def only_local(route: Route) -> None:
            if is_local(route.request.url, window.served):
                route.continue_()
                return
            faults.requests.append(route.request.url)
            route.abort()

        context.route("**/*", only_local)
        page = context.new_page()
        page.on("console", lambda message: note_console(faults, message.type, message.text))
        page.on("pageerror", lambda error: faults.errors.append(str(error)))
        page.goto(address)
        if not window.folded:
            page.evaluate("for (const fold of document.querySelectorAll('details.fold')) fold.open = true")
        yield page, faults


def note_console(faults: Faults, kind: str, text: str) -> None:
    """Note what the console shows, where it is an error or a warning."""
    if kind in ("error", "warning"):
        faults.console.append(f"{kind}: {text}")


def is_local(address: str, served: bool) -> bool:
    """Whether an address needs no network, or, of a served page, only this machine."""
    parts = urlsplit(address)
    return parts.scheme in _LOCAL or (served and parts.hostname == "127.0.0.1")
