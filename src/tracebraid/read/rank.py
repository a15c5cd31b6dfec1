"""The rank that a file's name tells."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["rank_from_name"]

_PATTERNS = (
    re.compile(r"(?:^|[^a-z])rank[-_.]?(\d+)", re.I),
    re.compile(r"(?:torch_et|kineto_trace|nsys|kineto|et|trace)[-_](\d+)(?=[._]|$)", re.I),
    re.compile(r"(?:^|[^a-z])worker[-_]?(\d+)", re.I),
    re.compile(r"(?:^|[^a-z])r(\d+)(?=[._-]|$)", re.I),
)


def rank_from_name(path: str) -> int | None:
    """The rank in a file's name (`torch_et_3.json`, `rank-3.pt.trace.json.gz`), else in its folder's; or None."""
    parts = Path(path)
    for text in (parts.name, parts.parent.name):
        for pattern in _PATTERNS:
            match = pattern.search(text)
            if match:
                return int(match.group(1))
    return None
