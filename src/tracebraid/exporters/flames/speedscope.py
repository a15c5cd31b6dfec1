"""Flame graphs in the file format of speedscope, https://www.speedscope.app/file-format-schema.json.

Profiles are `evented`: their size grows with the number of frames, not with the depth of stacks. The moments of their
events are no times of the run: each frame begins with its self time, and what is in it follows in the order of totals.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import polars as pl

from tracebraid.exporters.flames.walk import walk_of

__all__ = ["FrameNames", "speedscope_end", "speedscope_profile", "speedscope_start"]

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
    """The file up to the first profile.

    Args:
        title: the name of all profiles together.
    """
    head = {"$schema": _SCHEMA, "exporter": "tracebraid", "name": title, "activeProfileIndex": 0}
    return msgspec.json.encode(head)[:-1] + b',"profiles":[\n'


def speedscope_profile(frames: pl.DataFrame, name: str, shared: FrameNames) -> Iterator[bytes]:
    """A profile.

    Args:
        frames: `FLAME_FRAMES` of a single tree and rank.
        name: its name.
        shared: gets its names.
    """
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
