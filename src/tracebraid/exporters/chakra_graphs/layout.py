"""Where the nodes of a part stand in a picture: time flows down, and each stream or thread has a lane.

A node stands below all that it waits for, and as close above what waits for it as it can: its layer is the longest
path to it, or the one above the first that waits for it. Nodes of one layer and lane stand side by side, and in
further rows when there are many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracebraid.exporters.chakra_graphs.colours import colours_of
from tracebraid.model.chakra.part import ChakraPart

__all__ = ["Box", "Layout", "layout_of"]

_ABREAST = 3
"""Nodes of a layer and lane in a row."""

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
    layers = _layers(part)
    lane_of = {row["node_id"]: _lane(row) for row in part.nodes.iter_rows(named=True)}
    lane_of |= dict.fromkeys(part.missing, (3, 0, "not in the file"))
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
        return (0, row["thread"], f"thread {row['thread']}")
    if row["stream"] is not None:
        return (1, row["stream"], f"stream {row['stream']}")
    return (2, 0, colours_of(row["type"]).text)


def _layers(part: ChakraPart) -> dict[int, int]:
    """The layer of each node, from the top."""
    ids = [*part.missing, *part.nodes.get_column("node_id").to_list()]
    before: dict[int, set[int]] = {node_id: set() for node_id in ids}
    after: dict[int, list[int]] = {node_id: [] for node_id in ids}
    for source, target in part.edges.select("source", "target").iter_rows():
        if source != target and source not in before[target]:
            before[target].add(source)
            after[source].append(target)
    layers: dict[int, int] = {}
    for node_id in _cut_order(before, after):
        layers[node_id] = max((layers[dep] + 1 for dep in before[node_id] if dep in layers), default=0)
    for node_id in reversed(layers):
        below = [layers[target] for target in after[node_id] if layers[target] > layers[node_id]]
        layers[node_id] = min(below, default=layers[node_id] + 1) - 1
    return {node_id: layers[node_id] for node_id in ids}


def _cut_order(before: Mapping[int, set[int]], after: Mapping[int, list[int]]) -> Iterator[int]:
    """All nodes, each behind what it waits for; a circle is cut where it comes back to its first node."""
    ready = [node_id for node_id in before if not before[node_id]]
    waiting = {node_id: len(deps) for node_id, deps in before.items() if deps}
    while ready or waiting:
        if not ready:
            # Only circles, and what comes behind them, are left: begin at the first of them.
            first = next(iter(waiting))
            del waiting[first]
            ready = [first]
        node_id = ready.pop(0)
        yield node_id
        for target in after[node_id]:
            if target in waiting:
                waiting[target] -= 1
                if not waiting[target]:
                    del waiting[target]
                    ready.append(target)
