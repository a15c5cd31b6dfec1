"""Which arguments an operator writes, by its schema: `aten::add_.Tensor(Tensor(a!) self, ...) -> Tensor(a!)`."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["written_positions"]

_CHANGED = re.compile(r"\(\w+!(?:\s*->\s*[\w*|]+)?\)")


@lru_cache(maxsize=4096)
def written_positions(schema: str) -> tuple[frozenset[int], frozenset[int]]:
    """(inputs, outputs) that the operator changes, by position. A schema that does not parse changes nothing."""
    arguments, arrow, returns = schema.partition("->") if " -> " not in schema else schema.partition(" -> ")
    begin, end = arguments.find("("), arguments.rfind(")")
    if not arrow or begin < 0 or end < begin:
        return frozenset(), frozenset()
    inputs = [text for text in _split(arguments[begin + 1 : end]) if text != "*"]
    text = returns.strip()
    outputs = _split(text[1:-1]) if text.startswith("(") and text.endswith(")") else [text]
    return _changed(inputs), _changed(outputs)


def _changed(texts: list[str]) -> frozenset[int]:
    return frozenset(i for i, text in enumerate(texts) if _CHANGED.search(text))


def _split(text: str) -> list[str]:
    """At the commas outside of all brackets."""
    parts, depth, begin = [], 0, 0
    for place, letter in enumerate(text):
        if letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[begin:place].strip())
            begin = place + 1
    last = text[begin:].strip()
    return [*parts, last] if last else parts
