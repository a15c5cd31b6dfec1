"""The inputs and outputs of nodes, as the table `values`.

Most nodes of a trace share the shapes, types and strides of many others: each distinct text of a chunk is decoded once,
and spread over the rows of the nodes that have it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tracebraid.importers.columns import ColumnData, Interned, Interner, TableData, interned_column

__all__ = ["ArgumentLists", "arguments_of", "values_table"]

_Ints = NDArray[np.int64]
_Raw = msgspec.Raw

_VALUES = b'{"values": '
_SHAPES = b'], "shapes": '


class _Arguments(msgspec.Struct, gc=False):
    values: list[_Raw] = []
    shapes: _Raw = _Raw(b"[]")
    types: _Raw = _Raw(b"[]")
    strides: _Raw = _Raw(b"[]")


class _Layout(msgspec.Struct, gc=False):
    shapes: list[_Raw] = []
    types: list[str] = []
    strides: list[_Raw] = []
    values: _Raw | None = None


_ARGUMENTS = msgspec.json.Decoder(list[_Arguments])
_LAYOUT = msgspec.json.Decoder(_Layout)
_LISTS = msgspec.json.Decoder(list[list[_Raw]])


@dataclass(frozen=True)
class ArgumentLists:
    """The arguments of the nodes of a chunk: two lists for each node, of its inputs and of its outputs.

    Args:
        values: the values of each list.
        layouts: the members `shapes`, `types` and `strides` of each list, as JSON without the opening brace.
    """

    values: list[list[_Raw]]
    layouts: list[bytes]


def arguments_of(texts: list[bytes]) -> ArgumentLists:
    """The arguments in `inputs` and `outputs` of nodes since schema 1.0.2.

    PyTorch writes the values first, so that a cut behind them splits what differs from what repeats. A text that is
    written in another way is decoded in full.

    Raises:
        MsgspecError: one of these is no such object.
    """
    try:
        return _split(texts)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        found = _ARGUMENTS.decode(b"[" + b",".join(texts) + b"]")
    return ArgumentLists(
        [arguments.values for arguments in found],
        [
            b'"shapes":%b,"types":%b,"strides":%b}'
            % (bytes(arguments.shapes), bytes(arguments.types), bytes(arguments.strides))
            for arguments in found
        ],
    )


def _split(texts: list[bytes]) -> ArgumentLists:
    """The arguments of texts as PyTorch writes them; a MsgspecError or ValueError where one is not."""
    if not all(text.startswith(_VALUES) for text in texts):
        raise ValueError("values do not come first")
    begin = len(_VALUES)
    cuts = [text.index(_SHAPES, begin) for text in texts]
    values = [text[begin : cut + 1] for text, cut in zip(texts, cuts, strict=True)]
    lists = _LISTS.decode(b"[" + b",".join(values) + b"]")
    layouts = [text[cut + 3 :] for text, cut in zip(texts, cuts, strict=True)]
    if len(lists) != len(texts) or any(
        _LAYOUT.decode(b"{" + text).values is not None for text in set(layouts)
    ):
        raise ValueError("values come twice")
    return ArgumentLists(lists, layouts)


def values_table(node_ids: _Ints, lists: ArgumentLists) -> tuple[TableData, _Ints]:
    """The table `values`, and for each of its rows the number of its node in the chunk.

    Shapes, types and strides follow the values: Triton's stream has no stride, old schemas have none at all.

    Raises:
        MsgspecError: shapes, types or strides are no such lists.
    """
    counts = np.fromiter(map(len, lists.values), dtype=np.int64, count=len(lists.values))
    total = int(counts.sum())
    position = np.arange(total, dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    node = np.repeat(np.arange(len(counts)) // 2, counts)
    is_output = np.repeat(np.arange(len(counts), dtype=np.int32) % 2, counts)
    distinct = interned_column(lists.layouts)
    layouts = [_LAYOUT.decode(b"{" + text) for text in distinct.values]  # type: ignore[operator]
    rows = _Rows(np.repeat(distinct.codes, counts), position)
    columns: dict[str, ColumnData] = {
        "node_id": node_ids[node],
        "is_output": Interned(is_output, [False, True]),
        "position": position,
        "type": rows.spread([layout.types for layout in layouts], str, ""),
        "value": interned_column(map(bytes, chain.from_iterable(lists.values))),
        "shape": rows.spread([layout.shapes for layout in layouts], bytes, None),
        "strides": rows.spread([layout.strides for layout in layouts], bytes, None),
    }
    return TableData(total, columns), node


@dataclass(frozen=True)
class _Rows:
    """For each row the code of its list's layout, and its position in the list."""

    code: NDArray[np.int32]
    position: _Ints

    def spread(
        self, lists: list[list[_Raw]] | list[list[str]], key: Callable[[Any], object], absent: object
    ) -> Interned:
        """The elements of the lists by code, row by row; `absent` (None: missing) where a list is too short."""
        elements = Interner()
        codes = [[elements[key(item)] for item in items] for items in lists]
        filler = -1 if absent is None else elements[absent]
        lengths = np.array([len(items) for items in codes], dtype=np.int64)
        first = np.cumsum(lengths) - lengths
        flat = np.array([*chain.from_iterable(codes), filler], dtype=np.int32)
        index = np.where(self.position < lengths[self.code], first[self.code] + self.position, len(flat) - 1)
        return Interned(flat[index], list(elements))
