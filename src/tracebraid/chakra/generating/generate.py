"""Synthetic jobs, rank by rank."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import polars as pl
from msgspec import Struct

from tracebraid.chakra.codes import CollectiveCommType
from tracebraid.chakra.generating.program import (
    Lane,
    PeerSizes,
    Program,
    Work,
    check_nodes,
    check_ranks,
    peer_files,
)
from tracebraid.chakra.generating.transformer import check_transformer, numbered_groups, transformer_ranks
from tracebraid.chakra.generating.workloads import (
    Accelerator,
    ChainJob,
    CollectiveLink,
    ComputeLink,
    MessageJob,
    MessagePattern,
    TransformerJob,
    Workload,
)
from tracebraid.chakra.job_files import COMM_GROUPS, check_prefix
from tracebraid.chakra.schema import SCHEMA_VERSION, ChakraRank, NodeDeps
from tracebraid.chakra.wire.writing import write
from tracebraid.errors import ArgumentError
from tracebraid.files import refuse_target, whole_folder
from tracebraid.model.amounts import bytes_of_text, ns_of_text
from tracebraid.model.device_peaks import Precision, peaks_named
from tracebraid.model.rank_files import Progress
from tracebraid.version import __version__


class GeneratedChakra(Struct, frozen=True):
    """Summary of the written files.

    Args:
        path: the new folder.
        ranks: the number of node files.
        nodes: the number of nodes of all ranks.
        groups: the number of process groups that are not all ranks.
        size_bytes: the size of all files.
    """

    path: Path
    ranks: int
    nodes: int
    groups: int
    size_bytes: int


def generate(
    workload: Workload, folder: str | Path, *, prefix: str = "job", progress: Progress | None = None
) -> GeneratedChakra:
    """Write a synthetic job: `<prefix>.<rank>.et` for each rank and `comm_groups.json`, in a new folder.

    Only one rank is in memory at a time, and the same workload gives the same bytes.

    Args:
        workload: the workload of the ranks.
        folder: the new folder.
        prefix: prefix of the file names.
        progress: called with the share of written ranks, 0 to 1.

    Raises:
        ArgumentError: the workload is invalid, or the prefix is not a valid file name.
        OutputError: the folder exists, or cannot be written.
        MissingLibraryError: protobuf is not installed.

    Example:
        >>> from tracebraid.chakra import ChainJob, CollectiveCommType, CollectiveLink, ComputeLink
        >>> links = (ComputeLink(100_000), CollectiveLink(CollectiveCommType.ALL_REDUCE, 2**20))
        >>> tracebraid.chakra.generate(ChainJob(4, links), "four_ranks").nodes
        8
    """
    check_prefix(prefix)
    target = Path(folder)
    refuse_target(target)
    groups = comm_groups(workload)
    nodes = size_bytes = 0
    with whole_folder(target) as part:
        for rank in generated_ranks(workload):
            size_bytes += write(part / f"{prefix}.{rank.rank}.et", rank)
            nodes += rank.nodes.height
            if progress is not None:
                progress((rank.rank + 1) / workload.ranks)
        size_bytes += (part / COMM_GROUPS).write_bytes(msgspec.json.encode(groups) + b"\n")
    return GeneratedChakra(target, workload.ranks, nodes, len(groups), size_bytes)


def accelerator(
    device: str,
    precision: Precision = Precision.BF16,
    efficiency: float = 1.0,
    tflops: float | None = None,
    gb_per_s: float | None = None,
) -> Accelerator:
    """Look up an accelerator in the table of peaks.

    Args:
        device: its name, such as `H100 SXM`.
        precision: the precision in which it computes.
        efficiency: the achieved share of its peaks, above 0 up to 1.
        tflops: the dense peak in TFLOP/s; None: as in the table.
        gb_per_s: memory bandwidth in GB/s; None: as in the table.

    Raises:
        ArgumentError: the table has no entry for it in this precision.
    """
    peaks = peaks_named(device)
    flops_per_s = peaks.flops_per_s.get(precision) if tflops is None else tflops * 1e12
    if flops_per_s is None:
        raise ArgumentError(
            f"{peaks.device} does not compute in {precision.value}: give its peak, or another precision"
        )
    bytes_per_s = peaks.bytes_per_s if gb_per_s is None else gb_per_s * 1e9
    return Accelerator(flops_per_s, bytes_per_s, efficiency, precision)


def generate_peer_files(sizes: PeerSizes, folder: Path) -> int:
    """Write the files of Chakra's own generator; existing files are replaced, as it does."""
    return sum(write(folder / name, rank, overwrite=True) > 0 for name, rank in peer_files(sizes))


_RINGS = (MessagePattern.RING_ALL_REDUCE, MessagePattern.RING_ALL_GATHER)
_TO_ROOT = (MessagePattern.TREE_REDUCE, MessagePattern.TREE_ALL_REDUCE)
_FROM_ROOT = (MessagePattern.TREE_BROADCAST, MessagePattern.TREE_ALL_REDUCE)


def messages_program(messages: MessageJob, rank: int) -> Program:
    """Program of a rank."""
    _check(messages)
    program = Program()
    for repeat in range(messages.repeats):
        program.step = str(repeat)
        if messages.pattern in _RINGS:
            _ring(program, messages, rank, repeat)
        if messages.pattern in _TO_ROOT:
            _to_root(program, messages, rank, 2 * repeat)
        if messages.pattern in _FROM_ROOT:
            _from_root(program, messages, rank, 2 * repeat + 1)
    return program


def _check(messages: MessageJob) -> None:
    if messages.ranks < 2:
        raise ArgumentError(f"{messages.ranks} ranks have nobody to send to: give two or more")
    if messages.repeats < 1:
        raise ArgumentError(f"{messages.repeats} is not a valid number of repeats: give one or more")
    check_ranks(messages.ranks)
    check_nodes(messages.repeats)
    least = messages.ranks if messages.pattern in _RINGS else 1
    if messages.size_bytes < least:
        raise ArgumentError(
            f"{messages.size_bytes:,} bytes are too few for {messages.pattern.value} on {messages.ranks:,} ranks: "
            f"each message has a byte at least, so give {least:,} bytes or more"
        )


def _ring(program: Program, messages: MessageJob, rank: int, repeat: int) -> None:
    """Each message is sent when the one before it has come in: its data are made of that."""
    ranks = messages.ranks
    rounds = 2 * (ranks - 1) if messages.pattern is MessagePattern.RING_ALL_REDUCE else ranks - 1
    behind, ahead = (rank - 1) % ranks, (rank + 1) % ranks
    # Of an earlier repeat: it is over when all of it has come in.
    after = program.last(Lane.FROM_PREVIOUS)
    for number in range(rounds):
        name, tag = f"step {program.step}/round {number}", repeat * rounds + number
        sent = _part(messages, rank - number)
        program.send(f"{name}/send to {ahead}", (ahead, tag, sent), after)
        came = _part(messages, rank - 1 - number)
        after = (program.receive(f"{name}/receive from {behind}", (behind, tag, came), Lane.FROM_PREVIOUS),)


def _part(messages: MessageJob, number: int) -> int:
    """Bytes of one of as many parts as there are ranks; they differ by one byte at most."""
    whole, rest = divmod(messages.size_bytes, messages.ranks)
    return whole + (number % messages.ranks < rest)


def _from_root(program: Program, messages: MessageJob, rank: int, tag: int) -> None:
    after = (*program.last(Lane.COMMUNICATION), *_received(program))
    name = f"step {program.step}/broadcast"
    if rank > 0:
        parent = _parent(rank)
        message = (parent, tag, messages.size_bytes)
        after = (program.receive(f"{name}/receive from {parent}", message, Lane.FROM_PREVIOUS),)
    # The child with the most below it comes first.
    for child in reversed(list(_children(rank, messages.ranks))):
        program.send(f"{name}/send to {child}", (child, tag, messages.size_bytes), after)


def _to_root(program: Program, messages: MessageJob, rank: int, tag: int) -> None:
    name = f"step {program.step}/reduce"
    after = (*program.last(Lane.COMMUNICATION), *_received(program))
    for child in _children(rank, messages.ranks):
        message = (child, tag, messages.size_bytes)
        after = (program.receive(f"{name}/receive from {child}", message, Lane.FROM_NEXT),)
    if rank > 0:
        parent = _parent(rank)
        program.send(f"{name}/send to {parent}", (parent, tag, messages.size_bytes), after)


def _received(program: Program) -> tuple[int, ...]:
    return (*program.last(Lane.FROM_PREVIOUS), *program.last(Lane.FROM_NEXT))


def _parent(rank: int) -> int:
    """Return the parent in the binomial tree: clear the lowest set bit."""
    return rank & (rank - 1)


def _children(rank: int, ranks: int) -> Iterator[int]:
    """Return the children in the binomial tree, smallest subtrees first."""
    bit = 1
    while bit < ranks and not rank & bit:
        if rank + bit < ranks:
            yield rank + bit
        bit <<= 1


SIMULATED = (
    CollectiveCommType.ALL_REDUCE,
    CollectiveCommType.ALL_GATHER,
    CollectiveCommType.REDUCE_SCATTER,
    CollectiveCommType.ALL_TO_ALL,
    CollectiveCommType.BROADCAST,
)
"""Collectives that ASTRA-sim has; it ends with an exception on any other."""
_COMPUTE = "COMP"
_FORM = "COMP 100us > ALL_REDUCE 1MiB > COMP 50us"


def links_of_text(text: str) -> tuple[ComputeLink | CollectiveLink, ...]:
    """The links of a chain from its text.

    Args:
        text: such as `COMP 100us > ALL_REDUCE 1MiB > BROADCAST 4KiB 10us`.

    Raises:
        ArgumentError: it is not of this form.
    """
    return tuple(_link_of_text(part.strip()) for part in text.split(">"))


def _link_of_text(text: str) -> ComputeLink | CollectiveLink:
    words = text.split()
    if len(words) == 2 and words[0].upper() == _COMPUTE:
        return ComputeLink(ns_of_text(words[1]))
    name = words[0].upper() if words else ""
    if name in CollectiveCommType.__members__ and 2 <= len(words) <= 3:
        took_ns = ns_of_text(words[2]) if len(words) == 3 else 0
        return CollectiveLink(CollectiveCommType[name], bytes_of_text(words[1]), took_ns)
    known = ", ".join(kind.name for kind in SIMULATED)
    raise ArgumentError(
        f"{text!r} is no link of a chain: write COMP and a time, or a collective ({known}), its size and perhaps "
        f"the time that it took, as in {_FORM!r}"
    )


def chain_program(chain: ChainJob) -> Program:
    """Build the program of each rank of a chain."""
    _check_of_chain(chain)
    program = Program()
    after: tuple[int, ...] = ()
    for repeat in range(chain.repeats):
        program.step = str(repeat)
        for position, link in enumerate(chain.links):
            if isinstance(link, ComputeLink):
                name = f"step {repeat}/compute {position}"
                after = (program.compute(name, Work(link.duration_ns), after),)
            else:
                name = f"step {repeat}/{link.type.name.lower()} {position}"
                after = (program.collective(name, link.type, link.size_bytes, None, after),)
                if link.duration_ns:
                    program.measured(after[0], link.duration_ns)
    return program


def _check_of_chain(chain: ChainJob) -> None:
    if chain.ranks < 2:
        raise ArgumentError(
            f"a chain of {chain.ranks} ranks has nobody to communicate with: give two or more"
        )
    if chain.repeats < 1 or not chain.links:
        raise ArgumentError("a chain needs at least one link and one repeat")
    check_ranks(chain.ranks)
    check_nodes(chain.repeats * len(chain.links))
    for link in chain.links:
        if isinstance(link, ComputeLink):
            if link.duration_ns < 0:
                raise ArgumentError(f"computation of {link.duration_ns:,} ns cannot be: give 0 or more")
        elif link.type not in SIMULATED:
            known = ", ".join(kind.name for kind in SIMULATED)
            raise ArgumentError(
                f"no simulator supports {link.type.name} of Chakra's collectives: give one of {known}"
            )
        elif link.size_bytes < 1 or link.duration_ns < 0:
            raise ArgumentError(f"{link.type.name} of {link.size_bytes:,} bytes cannot be: give 1 or more")


def generated_ranks(workload: Workload) -> Iterator[ChakraRank]:
    """The ranks of a job in order, each made on demand."""
    for rank, (nodes, deps) in enumerate(_nodes(workload)):
        attributes = (("generator", f"tracebraid {__version__}"), ("workload", str(workload)))
        no_ctrl = NodeDeps.none(nodes.height)
        yield ChakraRank(rank, SCHEMA_VERSION, attributes, nodes, deps, no_ctrl)


def comm_groups(workload: Workload) -> dict[str, list[int]]:
    """The process groups of a job by their names, as simulators take them."""
    if not isinstance(workload, TransformerJob):
        return {}
    check_transformer(workload)
    return {name: list(members) for name, members in numbered_groups(workload.parallelism).values()}


def _nodes(workload: Workload) -> Iterator[tuple[pl.DataFrame, NodeDeps]]:
    if isinstance(workload, TransformerJob):
        check_transformer(workload)
        yield from transformer_ranks(workload)
    elif isinstance(workload, ChainJob):
        program = chain_program(workload)
        nodes, deps = program.nodes(), program.data_deps()
        for _ in range(workload.ranks):
            yield nodes, deps
    else:
        for rank in range(workload.ranks):
            program = messages_program(workload, rank)
            yield program.nodes(), program.data_deps()
