"""Text without the characters that XML 1.0 and many readers refuse."""

from __future__ import annotations

import re

__all__ = ["legible"]

_CONTROL = re.compile("[\x00-\x1f\x7f]")
_REFUSED = re.compile("[\x80-\x9f\ud800-\udfff\ufffe\uffff]")
_PICTURES = 0x2400
"""Unicode's pictures of control characters begin here, in their order."""
_DELETE = 0x7F


def legible(text: str) -> str:
    """Control characters as their pictures, `␊` for a line break; the others as the replacement character."""
    pictured = _CONTROL.sub(lambda match: _picture(ord(match[0])), text)
    return _REFUSED.sub("\ufffd", pictured)


def _picture(code: int) -> str:
    return "\u2421" if code == _DELETE else chr(_PICTURES + code)
