"""Build a rank's program: nodes in ordered lanes, and dependencies between lanes without redundant ones."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any, TypedDict

import numpy as np
import polars as pl
from msgspec import Struct, field

from tracebraid.chakra.codes import CollectiveCommType, NodeType
from tracebraid.chakra.schema import CHAKRA_NODES, ChakraRank, NodeDeps
from tracebraid.errors import ArgumentError
from tracebraid.model.graph import ActivityKind
from tracebraid.model.quantities import NS_PER_US

MOST_NODES = 1_000_000
"""Nodes of a rank: several times as many as the largest traces have; they take some 1 GB while a rank is made."""

_MOST_RANKS = 1_000_000
"""Ranks of a job, a file each: several times as many as the largest clusters have accelerators."""

LARGEST = 2**63 - 1
"""Range of an integer in the files."""


def check_ranks(ranks: int) -> None:
    """Reject a job of too many ranks."""
    if ranks > _MOST_RANKS:
        raise ArgumentError(f"{ranks:,} ranks exceed the limit: give {_MOST_RANKS:,} or fewer")


def check_nodes(nodes: int) -> None:
    """Reject a rank with too many nodes."""
    if nodes > MOST_NODES:
        raise ArgumentError(f"a rank has more than {MOST_NODES:,} nodes: give fewer steps, repeats or layers")


class Lane(IntEnum):
    """Nodes of a lane run in the order of the program: each depends on the one before it."""

    COMPUTE = 0
    COMMUNICATION = 1
    """Collectives and sends: the one order that all members keep is why no rank waits in a circle."""
    FROM_PREVIOUS = 2
    """Receives from the rank or stage before; they wait for nothing else, as a buffer that is posted early."""
    FROM_NEXT = 3
    """Receives from the next rank or stage."""


class Work(Struct, frozen=True):
    """Computation.

    Args:
        duration_ns: its duration.
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


class Program(Struct):
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
    """Last row of each lane that precedes each node, itself included; -1: none."""
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
        """Set the duration of a row's node."""
        self._rows[row]["duration_ns"] = duration_ns

    def send(self, name: str, message: tuple[int, int, int], after: Sequence[int]) -> int:
        """A send, after the send or collective before it and the nodes of these rows."""
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
        """A receive, after the one of its lane before it."""
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
        """Dependencies of each node, without transitive ones."""
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
            raise ArgumentError(f"{row['name']} exceeds 64 bits: give smaller sizes")
        self._busy_ns += row.get("duration_ns") or 0
        if self._busy_ns > LARGEST:
            raise ArgumentError("the compute time of a rank exceeds 64 bits in ns: give less")

    def _follows(self, row: int, wanted: set[int]) -> bool:
        """Return whether another of the wanted rows comes after this one anyway."""
        lane = self._rows[row]["stream"]
        return any(self._seen[other][lane] >= row for other in wanted if other != row)


_VERSION = "1.0.0"
"""The schema's version that Chakra's generator writes."""
_COLLECTIVES = (
    CollectiveCommType.ALL_REDUCE,
    CollectiveCommType.ALL_TO_ALL,
    CollectiveCommType.ALL_GATHER,
    CollectiveCommType.REDUCE_SCATTER,
    CollectiveCommType.BROADCAST,
    CollectiveCommType.BARRIER,
)
_INTEGERS = {32: (12345, 23456), 64: (9876543210, 1234567890)}
_NEGATIVE = ("sint", "sfixed")
_WITHOUT_DOC = ("fixed", "sfixed")


class PeerSizes(Struct, frozen=True):
    """Description of the cases.

    Args:
        ranks: how many files each case has.
        runtime_micros: of computation.
        tensor_bytes: of memory, sends and receives.
        comm_bytes: of collectives.
    """

    ranks: int = 64
    runtime_micros: int = 5
    tensor_bytes: int = 1024
    comm_bytes: int = 65536


def peer_files(sizes: PeerSizes) -> Iterator[tuple[str, ChakraRank]]:
    """The name of each file and what it holds; ids go on from file to file."""
    if sizes.ranks < 1 or min(sizes.runtime_micros, sizes.tensor_bytes, sizes.comm_bytes) < 0:
        raise ArgumentError("the generator needs at least one rank, and no negative sizes")
    check_ranks(sizes.ranks)
    if max(sizes.runtime_micros, sizes.tensor_bytes, sizes.comm_bytes) > LARGEST:
        raise ArgumentError("a size exceeds 64 bits: give smaller sizes")
    node_id = 0
    for case, nodes in _cases(sizes):
        for rank in range(sizes.ranks):
            yield f"{case}.{rank}.et", _rank(rank, node_id, nodes, chained=case.endswith("_dependent"))
            node_id += len(nodes)


_Node = dict[str, Any]


def _rank(rank: int, first_id: int, nodes: list[_Node], chained: bool) -> ChakraRank:
    frame = pl.DataFrame(nodes).with_columns(node_id=pl.int_range(pl.len()) + first_id)
    frame = CHAKRA_NODES.conform(frame, fill_missing=True)
    deps = NodeDeps.none(len(nodes))
    if chained:
        before = np.arange(len(nodes) - 1)
        deps = NodeDeps.of_pairs(before, before + 1, frame.get_column("node_id").to_numpy())
    return ChakraRank(rank, _VERSION, (), frame, deps, NodeDeps.none(len(nodes)))


def _cases(sizes: PeerSizes) -> Iterator[tuple[str, list[_Node]]]:
    yield (
        "one_metadata_node_all_types",
        [{**_node(NodeType.METADATA_NODE), "attributes": json.dumps(_all_types())}],
    )
    memory = {"is_cpu_op": False, "tensor_size": sizes.tensor_bytes}
    yield "one_remote_mem_load_node", [{**_node(NodeType.MEM_LOAD_NODE), **memory}]
    yield "one_remote_mem_store_node", [{**_node(NodeType.MEM_STORE_NODE), **memory}]
    computes = {**_node(NodeType.COMP_NODE), "is_cpu_op": False, "duration_micros": sizes.runtime_micros}
    yield "one_comp_node", [computes]
    yield "two_comp_nodes_independent", [computes] * 2
    yield "two_comp_nodes_dependent", [computes] * 2
    for kind in _COLLECTIVES:
        size = 0 if kind is CollectiveCommType.BARRIER else sizes.comm_bytes
        node = {
            **_node(NodeType.COMM_COLL_NODE),
            "is_cpu_op": False,
            "comm_type": kind.name,
            "comm_size": size,
        }
        yield kind.name, [{**node, "name": kind.name}]
    yield "one_comm_send_node", [{**_node(NodeType.COMM_SEND_NODE), **memory}]
    yield "one_comm_recv_node", [{**_node(NodeType.COMM_RECV_NODE), **memory}]


def _node(type: NodeType) -> _Node:
    return {"name": type.name, "type": type.name, "duration_micros": 0}


def _all_types() -> dict[str, Any]:
    """An attribute of each type, named after it."""
    found: dict[str, Any] = {}
    for name in ("double", "float"):
        found[name] = {f"{name}_val": 1.2345, "doc_string": name}
        found[f"{name}_list"] = {f"{name}_list": [1.2345, 2.3456]}
    for family in ("int", "uint", "sint", "fixed", "sfixed"):
        sign = -1 if family in _NEGATIVE else 1
        for bits, (first, second) in _INTEGERS.items():
            name = f"{family}{bits}"
            found[name] = {f"{name}_val": sign * first}
            if family not in _WITHOUT_DOC:
                found[name]["doc_string"] = name
            found[f"{name}_list"] = {f"{name}_list": [first, sign * second]}
    found["bool"] = {"bool_val": True, "doc_string": "bool"}
    found["bool_list"] = {"bool_list": [number % 2 == 0 for number in range(10)]}
    texts = [str(12345 + number) for number in range(10)]
    found["string"] = {"string_val": texts[0], "doc_string": "string"}
    found["string_list"] = {"string_list": texts}
    coded = [base64.b64encode(text.encode()).decode() for text in texts]
    return {**found, "bytes": {"bytes_val": coded[0]}, "bytes_list": {"bytes_list": coded}}
