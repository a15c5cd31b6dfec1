"""Files beside an Execution Trace that a replay needs: the code that inductor generated, and inputs of integers."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

_SAVED_OPS = "ENABLE_PYTORCH_EXECUTION_TRACE_SAVE_INTEGRAL_TENSOR_DATA"


def saved_ops() -> bytes:
    """The operators whose inputs of integers are saved, with a comma between them: as PyTorch's variable has it."""
    return os.fsencode(os.environ.get(_SAVED_OPS, ""))


def collect_tensors(prefix: Path, folder: str | None) -> None:
    """Move the tensors that a recorder has saved into the folder of resources; without one they are removed.

    A file is `nid_<node>_tid_<number among the tensors of its inputs>.dat`, and has the numbers alone.
    """
    if not saved_ops() or not prefix.parent.is_dir():
        return
    for path in sorted(prefix.parent.iterdir()):
        if path.name.startswith(prefix.name):
            if folder is None:
                path.unlink()
            else:
                shutil.move(path, Path(folder) / f"nid_{path.name[len(prefix.name) :]}")


def resources_dir(et_path: str, create: bool) -> str | None:
    """Return `<stem>_resources` beside the trace; None if missing and not requested, or it cannot be created.

    The stem of `et.json.gz` is `et.json`, as PyTorch has it.
    """
    path = Path(et_path)
    folder = path.with_name(path.stem + "_resources")
    if not folder.exists():
        if not create:
            return None
        try:
            folder.mkdir()
        except OSError:
            return None
    return str(folder)


def save_generated_kernels(folder: str) -> list[str]:
    """Copy the modules that inductor generated in this process into the folder; the names of those copied."""
    codecache = sys.modules.get("torch._inductor.codecache")
    if codecache is None:
        return []
    generated = codecache.PyCodeCache
    saved = []
    # torch 2.4 has them by their key alone.
    for module in generated.modules if hasattr(generated, "modules") else generated.cache.values():
        source = getattr(module, "__file__", None)
        if source is not None:
            with suppress(OSError):
                shutil.copyfile(source, Path(folder) / Path(source).name)
                saved.append(Path(source).name)
    return saved
