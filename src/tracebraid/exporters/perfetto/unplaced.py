"""What a file holds beside events that have a time and a known form: moments on a lane of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from tracebraid.exporters.perfetto.content import Arg, ArgKind, Lane, Slices, Texts
from tracebraid.exporters.perfetto.numbering import numbered

__all__ = ["with_unplaced"]

_LANE = "other events"


def with_unplaced(slices: Slices, lanes: Sequence[Lane], other: pl.DataFrame) -> tuple[Slices, list[Lane]]:
    """Slices and lanes with the other events of a trace, at the last start: their own times are not known.

    Args:
        slices: those of a rank.
        lanes: its lanes.
        other: `OTHER_EVENTS`.
    """
    count = other.height
    if count == 0:
        return slices, list(lanes)
    json = numbered(other.get_column("json"))
    there = np.flatnonzero(json.numbers >= 0)
    arg = Arg("event", ArgKind.JSON, len(slices) + there, json.numbers[there], json.distinct)
    last_ns = slices.ts_ns[-1:] if len(slices) else np.zeros(1, dtype=np.int64)
    moments = replace(
        slices,
        lane=np.concatenate([slices.lane, np.full(count, len(lanes), dtype=np.int64)]),
        ts_ns=np.concatenate([slices.ts_ns, np.repeat(last_ns, count)]),
        dur_ns=np.concatenate([slices.dur_ns, np.zeros(count, dtype=np.int64)]),
        is_instant=np.concatenate([slices.is_instant, np.ones(count, dtype=np.bool_)]),
        names=_appended(slices.names, numbered(other.get_column("phase"))),
        categories=_appended(slices.categories, Texts(np.zeros(count, dtype=np.int64), [_LANE])),
        args=[*slices.args, arg],
    )
    return moments, [*lanes, Lane(_LANE)]


def _appended(texts: Texts, more: Texts) -> Texts:
    shifted = np.where(more.numbers < 0, -1, more.numbers + len(texts.distinct))
    return Texts(np.concatenate([texts.numbers, shifted]), [*texts.distinct, *more.distinct])
