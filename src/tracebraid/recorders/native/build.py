"""Compiles the native recorder, or tries one that is ready, in a process of its own.

torch's builder changes the environment, loads the library and prints; none of that may happen in a
process that is recorded.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

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
    """Leave `tracebraid_recorder.so` in the folder, after it has recorded an operator in this process.

    A library that does not fit to torch's, of another C++ runtime for example, crashes here, and not in a program.

    Raises:
        RuntimeError: it cannot be compiled.
        SystemExit: it does not record what it should.
    """
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
    with suppress(AttributeError):  # It is another library, which `library.load` refuses.
        if problem := _tried(torch, Path(folder)):
            raise SystemExit(f"error: built by this compiler it writes {problem}; name another one in CXX")


def main_of_ready(folder: str, parent: str) -> None:
    """Record an operator in this process with the `tracebraid_recorder.so` that lies in the folder.

    Raises:
        OSError: it cannot be loaded beside this torch, or on this machine.
        AttributeError: it is another library.
        SystemExit: it does not record what it should.
    """
    end_with(int(parent))
    from tracebraid.recorders.needs_torch import torch

    if problem := _tried(torch, Path(folder)):
        raise SystemExit(f"error: it writes {problem}")


def _tried(torch: Any, folder: Path) -> str:
    """Record an operator, and read it; returns what is written instead of its schema, or ""."""
    from tracebraid.recorders.native.library import Counts, declare

    library = ctypes.CDLL(str(folder / f"{NAME}.so"))
    declare(library)
    written = folder / "tried.json"
    recording = library.tracebraid_open(os.fsencode(folder / "tried.spill"), 1 << 20, 0, b"", b"")
    library.tracebraid_switch(recording, 1)
    torch.ones(2).add(1)
    library.tracebraid_switch(recording, 0)
    counts = Counts()
    if not library.tracebraid_close(recording, os.fsencode(written), 0, ctypes.byref(counts)):
        raise SystemExit(
            f"it recorded, and cannot write: {library.tracebraid_error().decode(errors='replace')}"
        )
    nodes = json.loads(written.read_text(encoding="utf-8"))["nodes"]
    known = str(torch.ops.aten.add.Tensor._schema)
    (found,) = (
        attr["value"]
        for node in nodes
        for attr in node["attrs"]
        if node["name"] == "aten::add" and attr["name"] == "op_schema"
    )
    return "" if found == known else f"{found!r} for {known!r}"
