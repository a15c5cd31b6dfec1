"""Columns of an Execution Trace from the native scanner: `native/node_scan.cpp`, whose twin and oracle is `decode`."""

from __future__ import annotations

import ctypes
from enum import IntEnum

import msgspec
import numpy as np
from numpy.typing import NDArray

from tracebraid.importers.columns import Interned, numbered
from tracebraid.importers.execution_trace.decode import (
    FIRST_ATTRS,
    ArgumentLists,
    NodeColumns,
    attributes_of,
    node_columns,
    values_table,
)
from tracebraid.importers.native_scan import NativeScan


class _What(IntEnum):
    """Arrays of a scan, in the order of `What` in `node_scan.cpp`."""

    IDS = 0
    NAMES = 1
    PARENTS = 2
    FIRST_VALUES = 3
    ATTRIBUTES = 4
    COUNTS = 5
    LAYOUTS = 6
    VALUES = 7
    NAME_TEXTS = 8
    ATTRIBUTE_TEXTS = 9
    LAYOUT_TEXTS = 10
    VALUE_TEXTS = 11


class NodeScan(NativeScan):
    """A run of chunks with nodes that the scanner reads into one set of columns.

    Args:
        library: as `native.library` loads it.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        super().__init__(library, library.tracebraid_scan_nodes())

    def columns(self) -> NodeColumns:
        """The columns of the chunks that were read; once only."""
        node_ids = self.take(_What.IDS, np.int64)
        first = self.take(_What.FIRST_VALUES, np.int64).reshape(-1, len(FIRST_ATTRS)).T
        lists = ArgumentLists(
            self.take(_What.COUNTS, np.int32).astype(np.int64),
            self._interned(_What.VALUES, _What.VALUE_TEXTS),
            self._interned(_What.LAYOUTS, _What.LAYOUT_TEXTS),
        )
        return node_columns(
            numbered(self._codes(_What.NAMES), self.texts(_What.NAME_TEXTS, str)),
            (node_ids, self.take(_What.PARENTS, np.int64)),
            values_table(node_ids, lists),
            attributes_of(node_ids, list(first), self._interned(_What.ATTRIBUTES, _What.ATTRIBUTE_TEXTS)),
        )

    def _codes(self, what: _What) -> NDArray[np.int32]:
        return self.take(what, np.int32)

    def _interned(self, codes: _What, texts: _What) -> Interned:
        return Interned(self._codes(codes), list(map(bytes, self.texts(texts, msgspec.Raw))))
