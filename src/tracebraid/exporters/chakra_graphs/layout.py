"""Where the nodes of a part stand in a picture: time flows down, and each stream or thread has a lane.

A node stands below all that it waits for, and below what its stream or thread did before it; then as close above what
waits for it as it can. What is on no stream or thread stands side by side where nothing orders it, and in further rows
when that is much.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from tracebraid.exporters.chakra_graphs.colours import colours_of
from tracebraid.model.chakra.part import ChakraPart

__all__ = ["Box", "Layout", "layout_of"]

_ABREAST = 3
"""Nodes of a layer and lane in a row."""

_THREAD, _STREAM, _TYPE, _MISSING = range(4)
"""Kinds of lanes, from the left."""

_LaneKey = tuple[int, int, str]


@dataclass(frozen=True)
class Box:
    """Where a node stands.

    Args:
        node_id: which node.
        column: from the left, over all lanes.
        row: from the top.
        lane: the number of its lane.
    """

    node_id: int
    column: int
    row: int
    lane: int


@dataclass(frozen=True)
class Layout:
    """Where all stands.

    Args:
        boxes: by the id of the node; those that are missing stand in the first row.
        lanes: the title and the first column of each.
        columns: how many.
        rows: how many.
    """

    boxes: Mapping[int, Box]
    lanes: Sequence[tuple[str, int]]
    columns: int
    rows: int


def layout_of(part: ChakraPart) -> Layout:
    """The layout of a part."""
    lane_of = {row["node_id"]: _lane(row) for row in part.nodes.iter_rows(named=True)}
    lane_of |= dict.fromkeys(part.missing, (_MISSING, 0, "not in the file"))
    layers = _layers(part, lane_of)
    keys = sorted(set(lane_of.values()))
    cells: dict[tuple[int, _LaneKey], list[int]] = defaultdict(list)
    for node_id, layer in layers.items():
        cells[layer, lane_of[node_id]].append(node_id)
    widths = dict.fromkeys(keys, 0)
    heights: dict[int, int] = defaultdict(int)
    for (layer, key), members in cells.items():
        widths[key] = max(widths[key], min(len(members), _ABREAST))
        heights[layer] = max(heights[layer], -(-len(members) // _ABREAST))
    first_column, first_row = (
        _starts([widths[key] for key in keys]),
        _starts([heights[n] for n in sorted(heights)]),
    )
    row_of_layer = dict(zip(sorted(heights), first_row, strict=False))
    boxes = {}
    for (layer, key), members in cells.items():
        lane = keys.index(key)
        for position, node_id in enumerate(members):
            down, right = divmod(position, _ABREAST)
            boxes[node_id] = Box(node_id, first_column[lane] + right, row_of_layer[layer] + down, lane)
    lanes = [(key[2], column) for key, column in zip(keys, first_column, strict=False)]
    return Layout(boxes, lanes, first_column[-1], first_row[-1])


def _starts(sizes: Sequence[int]) -> list[int]:
    """Where each begins, and where the last ends."""
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + size)
    return starts


def _lane(row: Mapping[str, Any]) -> _LaneKey:
    """Threads of the host come first, then streams, then what is on neither by its type."""
    if row["thread"] is not None:
        return (_THREAD, row["thread"], f"thread {row['thread']}")
    if row["stream"] is not None:
        return (_STREAM, row["stream"], f"stream {row['stream']}")
    return (_TYPE, 0, colours_of(row["type"]).text)


def _layers(part: ChakraPart, lane_of: Mapping[int, _LaneKey]) -> dict[int, int]:
    """The layer of each node, from the top."""
    before: dict[int, set[int]] = {node_id: set() for node_id in lane_of}
    after: dict[int, set[int]] = {node_id: set() for node_id in lane_of}
    for source, target in part.edges.select("source", "target").iter_rows():
        if source != target:
            before[target].add(source)
            after[source].add(target)
    order = list(_cut_order(before, after))
    last: dict[_LaneKey, int] = {}
    for node_id in order:
        lane = lane_of[node_id]
        if lane[0] in (_THREAD, _STREAM):
            if lane in last:
                before[node_id].add(last[lane])
                after[last[lane]].add(node_id)
            last[lane] = node_id
    layers: dict[int, int] = {}
    for node_id in order:
        layers[node_id] = max((layers[dep] + 1 for dep in before[node_id] if dep in layers), default=0)
    for node_id in reversed(order):
        below = [layers[target] for target in after[node_id] if layers[target] > layers[node_id]]
        layers[node_id] = min(below, default=layers[node_id] + 1) - 1
    return {node_id: layers[node_id] for node_id in lane_of}


def _cut_order(before: Mapping[int, set[int]], after: Mapping[int, set[int]]) -> Iterator[int]:
    """All nodes, each behind what it waits for, else in the order of the file; a circle is cut at its first node."""
    ids = list(before)
    position = {node_id: number for number, node_id in enumerate(ids)}
    waiting = {node_id: len(deps) for node_id, deps in before.items() if deps}
    ready = [position[node_id] for node_id in ids if node_id not in waiting]
    while ready or waiting:
        if not ready:
            # Only circles, and what comes behind them, are left: begin at the first of them.
            first = next(iter(waiting))
            del waiting[first]
            ready = [position[first]]
        node_id = ids[heappop(ready)]
        yield node_id
        for target in after[node_id]:
            if target in waiting:
                waiting[target] -= 1
                if not waiting[target]:
                    del waiting[target]
                    heappush(ready, position[target])
