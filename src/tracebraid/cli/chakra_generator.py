"""`tracebraid chakra-generator`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

from tracebraid.chakra.generating.generate import generate_peer_files
from tracebraid.chakra.generating.program import PeerSizes
from tracebraid.cli.commands import Extra, Group, command
from tracebraid.cli.output import note
from tracebraid.cli.parameters import Option

Npus: TypeAlias = Annotated[int, Option("--num_npus", metavar="N", min=1, help="Number of NPUs.")]
Runtime: TypeAlias = Annotated[
    int, Option("--default_runtime", metavar="US", min=0, help="Runtime of compute nodes in us.")
]
TensorSize: TypeAlias = Annotated[
    int, Option("--default_tensor_size", metavar="BYTES", min=0, help="Tensor size of memory nodes.")
]
CommSize: TypeAlias = Annotated[
    int, Option("--default_comm_size", metavar="BYTES", min=0, help="Size of communication nodes.")
]


@command(Group.REPLACEMENT, 5, Extra.CHAKRA)
def chakra_generator(
    num_npus: Npus = 64,
    default_runtime: Runtime = 5,
    default_tensor_size: TensorSize = 1024,
    default_comm_size: CommSize = 65536,
) -> None:
    """Write the .et files of Chakra's chakra_generator to the working folder, with its options.

    One file for each of 14 cases and each NPU: nodes of every type, and collectives. Existing files are replaced.
    """
    sizes = PeerSizes(num_npus, default_runtime, default_tensor_size, default_comm_size)
    note(f"{generate_peer_files(sizes, Path()):,} files")
