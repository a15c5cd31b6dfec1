"""Flame graphs for their viewers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.model.op_tree import OpTree

_Ints = NDArray[np.int64]


class Walk(Struct, frozen=True):
    """A walk through a tree.

    Args:
        order: its rows, parents before children.
        first: for each row its number in that order.
        size: for each row the number of frames in it, itself included.
    """

    order: _Ints
    first: _Ints
    size: _Ints


def walk_of(frames: pl.DataFrame) -> Walk:
    """The walk through the frames of a tree, siblings by total time."""
    itself = np.arange(frames.height, dtype=np.int64)
    parent = frames.get_column("parent").fill_null(-1).to_numpy()
    tree = OpTree(itself, np.where(parent < 0, itself, parent))
    first, last = tree.spans
    return Walk(np.argsort(first, kind="stable"), first, last - first)


_UNSAFE = re.compile("[%;\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Characters that separate frames or lines in a format, or start an escape."""
_CHUNK_CHARS = 1 << 20


def escaped(name: str) -> str:
    """A name without `;`, line breaks and control characters: each is written as in a URL, `%3B`, and so is `%`.

    `urllib.parse.unquote` gives back the name.
    """
    return _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), name)


def collapsed_lines(frames: pl.DataFrame, outermost: tuple[str, ...]) -> Iterator[bytes]:
    """The lines of a tree, each with the self time of its innermost frame in ns; frames without self time have none."""
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


_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_EVENTS = 50_000
"""Events that are written at once."""


class FrameNames:
    """The frames that profiles share, each name once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def numbers(self, names: pl.Series) -> pl.Series:
        """The number of each name."""
        distinct = names.unique(maintain_order=True).to_list()
        numbers = [self._numbers.setdefault(name, len(self._numbers)) for name in distinct]
        found: pl.Series = names.replace_strict(distinct, numbers, return_dtype=pl.Int64)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)


def speedscope_start(title: str) -> bytes:
    """The file up to the first profile."""
    head = {"$schema": _SCHEMA, "exporter": "tracebraid", "name": title, "activeProfileIndex": 0}
    return msgspec.json.encode(head)[:-1] + b',"profiles":[\n'


def speedscope_profile(frames: pl.DataFrame, name: str, shared: FrameNames) -> Iterator[bytes]:
    """A profile."""
    events = _events(frames, shared)
    end = int(frames.filter(pl.col("depth") == 0).get_column("total_ns").sum())
    head = {"type": "evented", "name": name, "unit": "nanoseconds", "startValue": 0, "endValue": end}
    yield msgspec.json.encode(head)[:-1] + b',"events":[\n'
    for first in range(0, events.height, _EVENTS):
        some = events[first : first + _EVENTS].select(
            pl.concat_str(
                pl.lit('{"type":"'),
                "type",
                pl.lit('","frame":'),
                pl.col("number").cast(pl.String),
                pl.lit(',"at":'),
                pl.col("at").cast(pl.String),
                pl.lit("}"),
            ).alias("line")
        )
        last = first + _EVENTS >= events.height
        yield (",\n".join(some.get_column("line")) + ("" if last else ",\n")).encode()
    yield b"]}"


def speedscope_end(shared: FrameNames) -> Iterator[bytes]:
    """The rest of the file: the names of all frames."""
    yield b'],\n"shared":{"frames":[\n'
    for number, name in enumerate(shared):
        yield (b",\n" if number else b"") + msgspec.json.encode({"name": name})
    yield b"]}}\n"


def _events(frames: pl.DataFrame, shared: FrameNames) -> pl.DataFrame:
    """`type`, `number`, `at` of the events, in order.

    The numbers of frames in a walk say where in the list each opens and closes: before it opens, all frames before it
    have been opened, and all of them but those around it closed.
    """
    walk = walk_of(frames)
    depth, self_ns, total = (frames.get_column(name).to_numpy() for name in ("depth", "self_ns", "total_ns"))
    start = np.zeros(frames.height, dtype=np.int64)
    own = self_ns[walk.order]
    start[walk.order] = np.cumsum(own) - own
    opens = 2 * walk.first - depth
    closes = 2 * (walk.first + walk.size) - depth - 1
    number = shared.numbers(frames.get_column("name"))
    order = np.empty(2 * frames.height, dtype=np.int64)
    order[np.concatenate([opens, closes])] = np.arange(2 * frames.height)
    kind = pl.Series("type", ["O", "C"]).gather(np.repeat([0, 1], frames.height))
    return pl.DataFrame(
        [
            kind,
            pl.concat([number, number]).alias("number"),
            pl.Series("at", np.concatenate([start, start + total])),
        ]
    )[order]
