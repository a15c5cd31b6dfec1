"""Decode a file chunk by chunk: with the native scanner, and with the Python reader what that gives back."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from tracebraid.filesystem.interface import read_ahead
from tracebraid.importers.execution_trace.decode import decode_nodes
from tracebraid.importers.json_stream.chunks import ArrayFile, Chunk
from tracebraid.importers.kineto.decode import SeenKeys, decode_events
from tracebraid.model.rank_files import Progress
from tracebraid.native.library import native_library

if TYPE_CHECKING:
    from tracebraid.importers.execution_trace.scan import NodeScan
    from tracebraid.importers.kineto.scan import KinetoScan

CHUNK_BYTES = 1 << 21
"""Chunks of this size keep the decoded objects below a few hundred MB and the cost per chunk small."""

_WORTH_BUILDING_BYTES = 1 << 30
"""JSON that the Python readers take 10 to 18 s for; building the native library takes some 10 s, and it then 2 s."""
_UNPACKED_RATIO = 12
"""Uncompressed over compressed size, slightly below the 13 to 27 that gzip has with our test traces."""


class ChunkKind(Enum):
    """Kind of a chunk's objects, which selects the decoder."""

    EVENTS = "traceEvents"
    NODES = "nodes"


def decode_file(
    file: ArrayFile,
    progress: Progress | None = None,
    kind: ChunkKind = ChunkKind.EVENTS,
    chunk_bytes: int | None = None,
    label: str = "",
) -> list[Any]:
    """The columns of all chunks, in the order of the file: `EventColumns` or `NodeColumns`.

    With a label, those of the rank whose pids begin with it, in a Kineto trace of several ranks. With the native
    library one element may be of several chunks. `progress` is called now and then with the share of the file that is
    read, 0 to 1.
    """
    seen = SeenKeys()

    def decode(chunk: Chunk) -> Any:
        if kind is ChunkKind.NODES:
            return decode_nodes(chunk.data, chunk.start, file.first_key)
        return decode_events(chunk.data, chunk.start, file.first_key, seen, label)

    # Of a file of several ranks the Python reader takes one.
    library = None if label else native_library(_json_bytes_of(file) >= _WORTH_BUILDING_BYTES)
    scan_of = None if library is None else partial(_scan_of(kind), library)
    scan: KinetoScan | NodeScan | None = None
    results: list[Any] = []
    for chunk in read_ahead(file.chunks(chunk_bytes or CHUNK_BYTES)):
        if progress is not None:
            progress(file.fraction_done(chunk))
        if scan_of is not None:
            scan = scan or scan_of()
            if scan.add(chunk.data):
                continue
            if scan.chunks:
                results.append(scan.columns())
            scan = None
        results.append(decode(chunk))
    if scan is not None:
        results.append(scan.columns())
    return results


def _json_bytes_of(file: ArrayFile) -> int:
    """The size of a file without compression, as estimated from its size."""
    return file.source.size_bytes * (_UNPACKED_RATIO if file.source.compression is not None else 1)


def _scan_of(kind: ChunkKind) -> Callable[[ctypes.CDLL], KinetoScan | NodeScan]:
    if kind is ChunkKind.NODES:
        from tracebraid.importers.execution_trace.scan import NodeScan

        return NodeScan
    from tracebraid.importers.kineto.scan import KinetoScan

    return KinetoScan
