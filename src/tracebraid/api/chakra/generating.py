"""`generate_chakra`: synthetic jobs as `.et` files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from tracebraid.chakra.generating.chain import links_of_text
from tracebraid.chakra.generating.generate import comm_groups, generated_ranks
from tracebraid.chakra.generating.peer_cases import PeerSizes, peer_files
from tracebraid.chakra.wire.writing import write_rank
from tracebraid.errors import ArgumentError
from tracebraid.files import refuse_target, whole_folder
from tracebraid.model.chakra.workloads import Accelerator, Workload
from tracebraid.model.device_peaks import DEVICE_PEAKS, Precision
from tracebraid.model.rank_files import Progress

__all__ = [
    "COMM_GROUPS",
    "GeneratedChakra",
    "PeerSizes",
    "accelerator",
    "generate_chakra",
    "generate_peer_files",
    "links_of_text",
]

COMM_GROUPS = "comm_groups.json"
"""The file of the process groups, beside those of the ranks."""


@dataclass(frozen=True)
class GeneratedChakra:
    """What was written.

    Args:
        path: the new folder.
        ranks: how many files of nodes.
        nodes: of all ranks.
        groups: process groups that are not all ranks.
        size_bytes: of all files.
    """

    path: Path
    ranks: int
    nodes: int
    groups: int
    size_bytes: int


def generate_chakra(
    workload: Workload, folder: str | Path, *, prefix: str = "job", progress: Progress | None = None
) -> GeneratedChakra:
    """Write a synthetic job: `<prefix>.<rank>.et` for each rank and `comm_groups.json`, in a new folder.

    One rank at a time is held in memory, and the same workload gives the same bytes.

    Args:
        workload: what the ranks do.
        folder: the new folder.
        prefix: how the names of the files begin.
        progress: is called with the share of the ranks that is written, 0 to 1.

    Raises:
        ArgumentError: the workload makes no sense, or the prefix is no name of a file.
        OutputError: the folder is there already, or cannot be written.
        MissingLibraryError: protobuf is not installed.

    Example:
        >>> from tracebraid import generate_chakra
        >>> from tracebraid.workloads import ChainJob, CollectiveCommType, CollectiveLink, ComputeLink
        >>> links = (ComputeLink(100_000), CollectiveLink(CollectiveCommType.ALL_REDUCE, 2**20))
        >>> generate_chakra(ChainJob(4, links), "four_ranks").nodes
        8
    """
    if not prefix or Path(prefix).name != prefix:
        raise ArgumentError(f"{prefix!r} is no prefix of a file's name: give one without a folder")
    target = Path(folder)
    refuse_target(target)
    groups = comm_groups(workload)
    nodes = size_bytes = 0
    with whole_folder(target) as part:
        for rank in generated_ranks(workload):
            size_bytes += write_rank(part / f"{prefix}.{rank.rank}.et", rank)
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
    """An accelerator by the name that it has in the table of peaks.

    Args:
        device: such as `H100 SXM`.
        precision: in which it computes.
        efficiency: the share of its peaks that is reached, above 0 up to 1.
        tflops: the dense peak in TFLOP/s; None: as in the table.
        gb_per_s: memory bandwidth in GB/s; None: as in the table.

    Raises:
        ArgumentError: the table does not have it, or not in this precision.
    """
    peaks = next((row for row in DEVICE_PEAKS if row.device.lower() == device.lower()), None)
    if peaks is None:
        known = ", ".join(row.device for row in DEVICE_PEAKS)
        raise ArgumentError(f"there is no device {device!r} in the table of peaks; there are {known}")
    flops_per_s = peaks.flops_per_s.get(precision) if tflops is None else tflops * 1e12
    if flops_per_s is None:
        raise ArgumentError(
            f"{peaks.device} does not compute in {precision.value}: give its peak, or another precision"
        )
    bytes_per_s = peaks.bytes_per_s if gb_per_s is None else gb_per_s * 1e9
    return Accelerator(flops_per_s, bytes_per_s, efficiency, precision)


def generate_peer_files(sizes: PeerSizes, folder: Path) -> int:
    """Write the files of Chakra's own generator; files of their names are replaced, as it does.

    Args:
        sizes: how many ranks, and how large all is.
        folder: where to; it is there.

    Returns:
        How many files.

    Raises:
        ArgumentError: a size makes no sense.
        OutputError: a file cannot be written.
        MissingLibraryError: protobuf is not installed.
    """
    return sum(write_rank(folder / name, rank, overwrite=True) > 0 for name, rank in peer_files(sizes))
