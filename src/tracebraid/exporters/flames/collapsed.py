"""Flame graphs as collapsed stacks: a line for each, `a;b;c 1234`, as flamegraph.pl and others read them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from tracebraid.exporters.flames.walk import walk_of

__all__ = ["collapsed_lines", "escaped"]

_UNSAFE = re.compile("[%;\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""What separates frames and lines somewhere, and what starts an escape."""
_CHUNK_CHARS = 1 << 20


def escaped(name: str) -> str:
    """A name without `;`, line breaks and control characters: each is written as in a URL, `%3B`, and so is `%`.

    `urllib.parse.unquote` gives back the name.
    """
    return _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), name)


def collapsed_lines(frames: pl.DataFrame, outermost: tuple[str, ...]) -> Iterator[bytes]:
    """The lines of a tree, each with the self time of its innermost frame in ns; frames without self time have none.

    Args:
        frames: `FLAME_FRAMES` of a single tree and rank.
        outermost: frames to put around all.
    """
    names = frames.get_column("name")
    distinct = names.unique().to_list()
    safe = dict(zip(distinct, map(escaped, distinct), strict=True))
    ordered = frames[walk_of(frames).order]
    rows = zip(*(ordered.get_column(name).to_list() for name in ("name", "depth", "self_ns")), strict=True)
    stack = [escaped(name) for name in outermost]
    lines: list[str] = []
    chars = 0
    for name, depth, self_ns in rows:
        del stack[len(outermost) + depth :]
        stack.append(safe[name])
        if self_ns > 0:
            lines.append(f"{';'.join(stack)} {self_ns}\n")
            chars += len(lines[-1])
        if chars > _CHUNK_CHARS:
            yield "".join(lines).encode()
            lines, chars = [], 0
    yield "".join(lines).encode()
