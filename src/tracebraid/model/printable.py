"""Text of a trace as it may be shown."""

from __future__ import annotations

import unicodedata

__all__ = ["printable"]


def printable(text: str) -> str:
    """The text with control and invisible formatting characters written out: a name must not steer what shows it."""
    if text.isprintable():
        return text
    return "".join(c if not unicodedata.category(c).startswith("C") else repr(c)[1:-1] for c in text)
