"""The rank in a file's name."""

from __future__ import annotations

import re

from tracebraid.filesystem.paths import name_of, parent_of

__all__ = ["as_rank", "rank_from_name"]

_RANK = re.compile(r"(?:^|[^a-z])rank[-_.]?(\d{1,6})(?!\d)", re.I)
_OTHER_NAMES = (
    re.compile(r"(?:^|[^a-z])(?:kineto_trace|nsys|kineto|et|trace)[-_](\d{1,5})(?=[._]|$)", re.I),
    re.compile(r"(?:^|[^a-z])worker[-_]?(\d{1,6})(?!\d)", re.I),
    re.compile(r"(?:^|[^a-z])r(\d{1,6})(?=[._-]|$)", re.I),
)


def rank_from_name(path: str) -> int | None:
    """The rank in a file's name (`torch_et_3.json`, `rank-3.pt.trace.json.gz`) or its folder's (`rank_3/`), or None."""
    name, folder = name_of(path), name_of(parent_of(path))
    for pattern, text in ((_RANK, name), *((p, name) for p in _OTHER_NAMES), (_RANK, folder)):
        match = pattern.search(text)
        if match:
            return int(match.group(1))
    return None


def as_rank(value: object) -> int | None:
    """A rank as a file's header has it, as number or text; None where it is neither."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
        value = int(value)
    return value if isinstance(value, int) and 0 <= value < 2**31 else None
