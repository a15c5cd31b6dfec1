"""Contrast of the page's colours, in both themes: WCAG 2.2, 1.4.3 and 1.4.11."""

from __future__ import annotations

import re

import pytest

from tracebraid.reports.page.modules import style

GROUNDS = ("ground", "raised")
TEXTS = ("text", "faint", "accent", "warning", "error")
SHAPES = (*(f"series-{n}" for n in range(1, 11)), "idle", "critical", "edge")
PAIRS = dict(re.findall(r"--([\w-]+): light-dark\((#\w{6}, #\w{6})\)", style()))


def contrast(first: str, second: str) -> float:
    """Of two colours, 1 to 21."""
    least, most = sorted((luminance(first), luminance(second)))
    return (most + 0.05) / (least + 0.05)


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb`."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def worst(name: str, theme: int, grounds: tuple[str, ...]) -> float:
    own = PAIRS[name].split(", ")[theme]
    return min(contrast(own, PAIRS[ground].split(", ")[theme]) for ground in grounds)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_can_be_read(theme: int) -> None:
    assert {name for name in TEXTS if worst(name, theme, (*GROUNDS, "marked")) < 4.5} == set()


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_shapes_can_be_seen(theme: int) -> None:
    assert {name for name in SHAPES if worst(name, theme, GROUNDS) < 3} == set()


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
