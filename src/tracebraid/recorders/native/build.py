"""Compiles the native recorder, in a process of its own.

torch's builder changes the environment, loads the library and prints; none of that may happen in a
process that is recorded.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from tracebraid.child_process.session import end_with

NAME = "tracebraid_recorder"
SOURCES = Path(__file__).parent
# torch is built with NDEBUG; without it RecordFunction has one more member and another layout.
FLAGS = ["-std=c++20", "-O3", "-DNDEBUG", "-fvisibility=hidden"]
DEBUG_FLAGS = ["-O1", "-g", "-DTRACEBRAID_NATIVE_DEBUG"]
"""Flags added with `TRACEBRAID_NATIVE_DEBUG=1`: bounds and invariants are asserted."""


def all_sources() -> str:
    """The recorder as one translation unit, as most of the time goes into PyTorch's headers: they are read once."""
    return "".join(f'#include "{source.name}"\n' for source in sorted(SOURCES.glob("*.cpp")))


def main(folder: str, parent: str, *flags: str) -> None:
    """Leave `tracebraid_recorder.so` in the folder."""
    end_with(int(parent))
    from tracebraid.recorders.needs_torch import torch

    importlib.import_module("torch.utils.cpp_extension")
    unit = Path(folder) / f"{NAME}.cpp"
    unit.write_text(all_sources(), encoding="utf-8")
    torch.utils.cpp_extension.load(
        NAME,
        [str(unit)],
        extra_cflags=[*flags, *(["-DTRACEBRAID_DISTRIBUTED"] if torch.distributed.is_available() else [])],
        extra_include_paths=[str(SOURCES)],
        build_directory=folder,
        is_python_module=False,
    )
