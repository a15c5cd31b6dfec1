"""The command line of Chakra's chakra_generator."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

__all__ = ["CommSize", "Npus", "Runtime", "TensorSize"]

Npus: TypeAlias = Annotated[int, typer.Option("--num_npus", metavar="N", min=1, help="Number of NPUs.")]
Runtime: TypeAlias = Annotated[
    int, typer.Option("--default_runtime", metavar="US", min=0, help="Runtime of compute nodes in us.")
]
TensorSize: TypeAlias = Annotated[
    int, typer.Option("--default_tensor_size", metavar="BYTES", min=0, help="Tensor size of memory nodes.")
]
CommSize: TypeAlias = Annotated[
    int, typer.Option("--default_comm_size", metavar="BYTES", min=0, help="Size of communication nodes.")
]
