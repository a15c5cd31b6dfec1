"""Text of a trace as it may be shown."""

from __future__ import annotations

import re
import unicodedata

_STEERING = ("C", "Zl", "Zp")
"""Categories of Unicode: control, format and unassigned characters; separators of lines and of paragraphs."""
_MAY_STEER = re.compile(r"[^\x00-\x7e]")


def printable(text: str) -> str:
    """The text with control, invisible and line-separating characters written out: a name must not steer a display."""
    if text.isprintable():
        return text
    return "".join(repr(c)[1:-1] if unicodedata.category(c).startswith(_STEERING) else c for c in text)


def printable_lines(text: str) -> str:
    """The same of a text of several lines, whose ends stay."""
    return "\n".join(map(printable, text.split("\n")))


def encodable(text: str) -> str:
    """The text as UTF-8 can say it: the name of a file may hold bytes that it cannot, which are written out."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def printable_json(document: bytes) -> bytes:
    """A JSON document with the same characters written as escapes; it says the same to whoever reads it as JSON.

    JSON has no such character outside its strings. Those below U+0020 are escapes in it already.
    """
    if document.isascii() and b"\x7f" not in document:
        return document
    return _MAY_STEER.sub(_escaped, document.decode()).encode()


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if character.isprintable():
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{int.from_bytes(units[at : at + 2], 'big'):04x}" for at in range(0, len(units), 2))
