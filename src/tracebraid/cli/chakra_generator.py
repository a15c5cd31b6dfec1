"""`tracebraid chakra-generator`."""

from __future__ import annotations

from pathlib import Path

from tracebraid.api.chakra.generating import PeerSizes, generate_peer_files
from tracebraid.cli.output import note
from tracebraid.compat.chakra_generator import CommSize, Npus, Runtime, TensorSize

__all__ = ["chakra_generator"]


def chakra_generator(
    num_npus: Npus = 64,
    default_runtime: Runtime = 5,
    default_tensor_size: TensorSize = 1024,
    default_comm_size: CommSize = 65536,
) -> None:
    """Write the .et files of Chakra's chakra_generator into the working folder, with its options.

    A file for each of 14 cases and each NPU: nodes of every type, and collectives. Files of these names are replaced.
    """
    sizes = PeerSizes(num_npus, default_runtime, default_tensor_size, default_comm_size)
    note(f"{generate_peer_files(sizes, Path()):,} files")
