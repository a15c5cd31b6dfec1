"""Is what a command prints, or a function writes, what it says it is?"""

from __future__ import annotations

import json
import unicodedata
from typing import Any, NoReturn

from tools.fuzz.model import FailureError, FailureKind

__all__ = ["strict_json", "unsteering"]


def unsteering(text: str) -> str:
    """The text, where nothing in it steers a terminal or hides a part: no control or formatting character.

    Raises:
        FailureError: there is one, other than a line end.
    """
    printed = text.replace("\n", "")
    for at, character in enumerate("" if printed.isprintable() else text):
        if character != "\n" and unicodedata.category(character).startswith("C"):
            around = text[max(0, at - 40) : at + 40]
            raise FailureError(FailureKind.INVALID_OUTPUT, f"{character!r} is printed raw in {around!r}")
    return text


def strict_json(text: str | bytes) -> Any:
    """What a JSON document says.

    Raises:
        FailureError: it is none by RFC 8259, as `NaN` is, or an object has a key twice.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        cut = text[:200]
        raise FailureError(FailureKind.INVALID_OUTPUT, f"no strict JSON: {error}, in {cut!r}") from error


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a key stands twice among {[key for key, _ in pairs][:20]}")
    return found
