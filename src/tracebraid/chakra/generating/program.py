"""What a rank does, node by node: an order in lanes, and dependencies between them without redundant ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypedDict

import numpy as np
import polars as pl

from tracebraid.chakra.generating.limits import LARGEST, check_nodes
from tracebraid.errors import ArgumentError
from tracebraid.model.chakra.chakra_rank import NodeDeps
from tracebraid.model.chakra.codes import CollectiveCommType, NodeType
from tracebraid.model.graph.codes import ActivityKind
from tracebraid.model.schema.chakra import CHAKRA_NODES
from tracebraid.model.units import NS_PER_US

__all__ = ["Lane", "Program", "Work"]


class Lane(IntEnum):
    """Nodes of a lane run in the order of the program: each depends on the one before it."""

    COMPUTE = 0
    COMMUNICATION = 1
    """Collectives and sends: the one order that all members keep is why no rank waits in a circle."""
    FROM_PREVIOUS = 2
    """Receives from the rank or stage before; they wait for nothing else, as a buffer that is posted early."""
    FROM_NEXT = 3
    """Receives from the rank or stage behind."""


@dataclass(frozen=True)
class Work:
    """Computation.

    Args:
        duration_ns: what it takes.
        num_ops: floating-point operations; None: unknown.
        tensor_size: bytes that it reads and writes; None: unknown.
    """

    duration_ns: int
    num_ops: int | None = None
    tensor_size: int | None = None


class _Row(TypedDict, total=False):
    name: str
    type: str
    comm_type: str
    comm_size: int
    comm_src: int
    comm_dst: int
    comm_tag: int
    pg_name: str
    duration_ns: int
    num_ops: int | None
    tensor_size: int | None
    kind: str
    module: str | None
    step: str | None
    stream: int


_TYPES = {
    **dict.fromkeys(("name", "type", "comm_type", "pg_name", "kind", "module", "step"), pl.String),
    **dict.fromkeys(("comm_size", "comm_src", "comm_dst", "comm_tag"), pl.Int64),
    **dict.fromkeys(("duration_ns", "num_ops", "tensor_size", "stream"), pl.Int64),
}


@dataclass
class Program:
    """Nodes in the order in which a rank comes to them; each method adds one and returns its row.

    `pg_name`, `comm_src` and `comm_dst` may be written for a rank later: the ranks of a stage share a program.

    Args:
        step: the name of the step that nodes get.
    """

    step: str | None = None
    _rows: list[_Row] = field(default_factory=list)
    _before: list[int] = field(default_factory=list)
    _after: list[int] = field(default_factory=list)
    _seen: list[tuple[int, ...]] = field(default_factory=list)
    """Of each node the last row of each lane that it comes after, itself included; -1: none."""
    _last: list[int] = field(default_factory=lambda: [-1] * len(Lane))
    _busy_ns: int = 0

    def last(self, lane: Lane) -> tuple[int, ...]:
        """The last node of a lane, if there is one."""
        return tuple(row for row in (self._last[lane],) if row >= 0)

    def compute(self, name: str, work: Work, after: Sequence[int] = (), module: str | None = None) -> int:
        """Computation, after the one before it and the nodes of these rows."""
        row: _Row = {
            "name": name,
            "type": NodeType.COMP_NODE.name,
            "duration_ns": work.duration_ns,
            "num_ops": work.num_ops,
            "tensor_size": work.tensor_size,
            "kind": ActivityKind.KERNEL.value,
            "module": module,
        }
        return self._add(Lane.COMPUTE, row, after)

    def collective(
        self, name: str, type: CollectiveCommType, size_bytes: int, group: str | None, after: Sequence[int]
    ) -> int:
        """A collective of a group, after the send or collective before it and the nodes of these rows."""
        row: _Row = {
            "name": name,
            "type": NodeType.COMM_COLL_NODE.name,
            "comm_type": type.name,
            "comm_size": size_bytes,
            "kind": ActivityKind.COMMUNICATION.value,
        }
        if group is not None:
            row["pg_name"] = group
        return self._add(Lane.COMMUNICATION, row, after)

    def measured(self, row: int, duration_ns: int) -> None:
        """State what the node of a row took."""
        self._rows[row]["duration_ns"] = duration_ns

    def send(self, name: str, message: tuple[int, int, int], after: Sequence[int]) -> int:
        """A send, after the send or collective before it and the nodes of these rows.

        Args:
            name: of the node.
            message: the rank that receives, the tag, and the bytes.
            after: rows.
        """
        to_rank, tag, size_bytes = message
        row: _Row = {
            "name": name,
            "type": NodeType.COMM_SEND_NODE.name,
            "comm_dst": to_rank,
            "comm_tag": tag,
            "comm_size": size_bytes,
            "kind": ActivityKind.COMMUNICATION.value,
        }
        return self._add(Lane.COMMUNICATION, row, after)

    def receive(self, name: str, message: tuple[int, int, int], lane: Lane) -> int:
        """A receive, after the one of its lane before it.

        Args:
            name: of the node.
            message: the rank that sends, the tag, and the bytes.
            lane: that of receives from that rank.
        """
        from_rank, tag, size_bytes = message
        row: _Row = {
            "name": name,
            "type": NodeType.COMM_RECV_NODE.name,
            "comm_src": from_rank,
            "comm_tag": tag,
            "comm_size": size_bytes,
            "kind": ActivityKind.COMMUNICATION.value,
        }
        return self._add(lane, row, ())

    def nodes(self) -> pl.DataFrame:
        """`CHAKRA_NODES`; durations in us are rounded so that the lane of computation does not drift."""
        frame = pl.DataFrame(self._rows, schema=_TYPES)
        in_compute = (frame.get_column("type") == NodeType.COMP_NODE.name).to_numpy()
        exact_ns = frame.get_column("duration_ns").fill_null(0).to_numpy()
        micros = np.round(exact_ns / NS_PER_US).astype(np.int64)
        ends = np.round(np.cumsum(exact_ns[in_compute]) / NS_PER_US).astype(np.int64)
        micros[in_compute] = np.diff(ends, prepend=0)
        frame = frame.with_columns(
            node_id=pl.int_range(pl.len()), duration_micros=pl.Series(micros), is_cpu_op=pl.lit(False)
        )
        return CHAKRA_NODES.conform(frame, fill_missing=True)

    def data_deps(self) -> NodeDeps:
        """What each node waits for; what follows from others is left out."""
        before, after = np.array(self._before, dtype=np.int64), np.array(self._after, dtype=np.int64)
        return NodeDeps.of_pairs(before, after, np.arange(len(self._rows)))

    def _add(self, lane: Lane, row: _Row, after: Sequence[int]) -> int:
        number = len(self._rows)
        self._check(row, number)
        row["stream"] = int(lane)
        if self.step is not None:
            row["step"] = self.step
        wanted = {*after, *self.last(lane)}
        needed = [dep for dep in wanted if not self._follows(dep, wanted)]
        self._before += needed
        self._after += [number] * len(needed)
        seen = [max(rows) for rows in zip(*(self._seen[dep] for dep in wanted), strict=True)] or [-1] * len(
            Lane
        )
        seen[lane] = number
        self._seen.append(tuple(seen))
        self._rows.append(row)
        self._last[lane] = number
        return number

    def _check(self, row: _Row, number: int) -> None:
        check_nodes(number + 1)
        values = (row.get("comm_size"), row.get("num_ops"), row.get("tensor_size"), row.get("duration_ns"))
        if any(value is not None and value > LARGEST for value in values):
            raise ArgumentError(f"{row['name']} is larger than 64 bits can say: give smaller sizes")
        self._busy_ns += row.get("duration_ns") or 0
        if self._busy_ns > LARGEST:
            raise ArgumentError("a rank computes for longer than 64 bits can say in ns: give less")

    def _follows(self, row: int, wanted: set[int]) -> bool:
        """Whether another of the wanted rows comes after this one anyway."""
        lane = self._rows[row]["stream"]
        return any(self._seen[other][lane] >= row for other in wanted if other != row)
