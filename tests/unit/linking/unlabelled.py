"""Pairs of traces without ids, made of the ops of each thread."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tests.builders import Json, et_text, kineto_text, node, op, process_node, thread_node, write
from tracebraid import link
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.matching import Matching

Ops = Sequence[Any]
"""Names, or (name, what else the op tells), one after the other; threads by their number, from 1."""


def told(one: Any) -> tuple[str, Json]:
    return (one, {}) if isinstance(one, str) else one


def nodes_of(threads: dict[int, Ops]) -> list[Json]:
    """Nodes of which the ids are the order over all threads, which start one after the other."""
    nodes = [process_node(), *(thread_node(100_000 + tid, tid) for tid in threads)]
    number = 1000
    for tid, ops in threads.items():
        for one in ops:
            name, attrs = told(one)
            nodes.append(node(number, name, 100_000 + tid, tid=tid, rf_id=number, **attrs))
            number += 1
    return nodes


def events_of(threads: dict[int, Ops]) -> list[Json]:
    events = []
    moment = 0.0
    for tid, ops in threads.items():
        for one in ops:
            name, args = told(one)
            args = {{"seq_id": "Sequence_number"}.get(key, key): value for key, value in args.items()}
            events.append(op(name, moment, args.pop("dur", 5), tid=tid, **args))
            moment += 10
    return events


def linked(nodes: dict[int, Ops], events: dict[int, Ops], how: Matching | str = "auto") -> LinkedTrace:
    with tempfile.TemporaryDirectory() as folder:
        kineto = write(Path(folder) / "kineto_trace_0.json", kineto_text(events_of(events)))
        et = write(Path(folder) / "torch_et_0.json", et_text(nodes_of(nodes), "1.1.1-chakra.0.0.4"))
        return link(et, kineto, matching=how)


def pairs(found: LinkedTrace) -> dict[int, int]:
    """The event of each linked node, both counted from 0."""
    links = found.host_links.drop_nulls("node_id").select(pl.col("node_id") - 1000, "event_id")
    return dict(links.iter_rows())


def methods(found: LinkedTrace) -> set[str]:
    return set(found.host_links.get_column("method").cast(pl.String).drop_nulls())
