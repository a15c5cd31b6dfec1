"""What a store's JSON files say: the manifest of the store, and the description of each rank."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tracebraid.model.coverage import Coverage
from tracebraid.model.source_file import SourceFile

__all__ = [
    "CaptureFacts",
    "ExecutionTraceFacts",
    "Manifest",
    "MatchedFacts",
    "PackOptions",
    "RankContent",
    "RankEntry",
    "StoredError",
    "StoredFinding",
    "TableFile",
    "TimelineFacts",
]


class PackOptions(Struct, frozen=True):
    """With what a store was packed: ranks that were packed with others are packed again.

    Args:
        writer: the version of Tracebraid.
        match: see `model.matching.Matching`, as the next two.
        annotation: see there.
        iteration: see there.
        window: which window of a capture; None for the last one.
        steps: which steps; None for all that there is.
    """

    writer: str
    match: str = "auto"
    annotation: str | None = None
    iteration: str | int = "best"
    window: int | None = None
    steps: str | None = None


class StoredError(Struct, frozen=True):
    """An error that reading or linking a rank raised, and raises again: see `store.errors_of`.

    Args:
        kind: the name of its class.
        values: what it was made of.
    """

    kind: str
    values: tuple[str, ...]


class StoredFinding(Struct, frozen=True):
    """A `Finding`: see there, and `store.findings` for the details."""

    code: str
    path: str
    where: str
    count: int
    loss: tuple[int, int | None, int] | None
    details: dict[str, Any]


class TableFile(Struct, frozen=True):
    """The file of a table.

    Args:
        rows: its rows.
        size_bytes: its size.
        sha256: of its content.
    """

    rows: int
    size_bytes: int
    sha256: str


class TimelineFacts(Struct, frozen=True):
    """What a `Timeline` has beside its tables; times are the first start and last end in ns, None without events."""

    path: str
    rank: int
    world_size: int | None
    base_time_ns: int
    min_ns: int | None
    max_ns: int | None
    header: dict[str, Any]
    findings: tuple[StoredFinding, ...]


class ExecutionTraceFacts(Struct, frozen=True):
    """What an `ExecutionTrace` has beside its tables."""

    path: str
    schema: str
    rank: int | None
    recorder: str
    header: dict[str, Any]
    findings: tuple[StoredFinding, ...]


class MatchedFacts(Struct, frozen=True):
    """What a `Matched` has beside its tables."""

    agreement: float
    programs: tuple[str, str]
    ambiguous: float
    choice: Any


class RankContent(Struct, frozen=True):
    """What describes a rank.

    Args:
        format: the version of the store's format.
        rank: the rank.
        options: with what it was packed.
        kineto: the file of the Kineto trace.
        et: that of the Execution Trace; None where there is none.
        timeline: the Kineto trace.
        execution_trace: the Execution Trace; None where there is none, or it could not be read.
        et_error: why it could not be read.
        link_error: why the two could not be linked.
        matched: see `LinkedTrace.matched`.
        coverage: see `LinkedTrace.coverage`; None where the two could not be linked.
        findings: of the stages that notice something, in their order.
        same: tables that are equal to another one, which stands for them.
        tables: the file of each table that has rows.
    """

    format: int
    rank: int
    options: PackOptions
    kineto: SourceFile
    et: SourceFile | None
    timeline: TimelineFacts
    execution_trace: ExecutionTraceFacts | None
    et_error: StoredError | None
    link_error: StoredError | None
    matched: MatchedFacts | None
    coverage: Coverage | None
    findings: tuple[tuple[StoredFinding, ...], ...]
    same: dict[str, str]
    tables: dict[str, TableFile]


class RankEntry(Struct, frozen=True):
    """A rank in the manifest.

    Args:
        rank: the rank.
        kineto: the file of the Kineto trace; None where there is none, and nothing to pack.
        et: that of the Execution Trace; None where there is none.
        sha256: of its description; None where it is not packed.
        size_bytes: of all its files; None where it is not packed.
        min_ns: see `TimelineFacts`.
        max_ns: see `TimelineFacts`.
        world_size: number of ranks; None where the trace does not say.
        coverage: how much of it was linked; None where it is not packed, or could not be linked.
        link_error: why its two traces could not be linked, or one of them not be read.
        error: why it could not be read; it is tried again.
    """

    rank: int
    kineto: SourceFile | None
    et: SourceFile | None
    sha256: str | None = None
    size_bytes: int | None = None
    min_ns: int | None = None
    max_ns: int | None = None
    world_size: int | None = None
    coverage: Coverage | None = None
    link_error: StoredError | None = None
    error: StoredError | None = None


class CaptureFacts(Struct, frozen=True):
    """What lay beside the traces in the folder of a capture: `check` asks it.

    Args:
        format: the version of the store's format.
        folder: the folder of the traces.
        window: its name, where it is that of a window; else "".
        manifests: path and content of each manifest of the capture.
        findings: what was noticed about these, when they were packed.
        leftovers: what was noticed about other files.
    """

    format: int
    folder: str
    window: str
    manifests: tuple[tuple[str, dict[str, Any]], ...]
    findings: tuple[StoredFinding, ...]
    leftovers: tuple[StoredFinding, ...]


class Manifest(Struct, frozen=True):
    """The manifest of a store.

    Args:
        format: the version of the store's format.
        options: with what it is packed.
        path: of what was packed, as it was named.
        complete: whether all ranks were packed or failed; else what is in `ranks/` is packed.
        findings: what was noticed about the files.
        ranks: those that were found, in order.
    """

    format: int
    options: PackOptions
    path: str
    complete: bool
    findings: tuple[StoredFinding, ...]
    ranks: tuple[RankEntry, ...]
