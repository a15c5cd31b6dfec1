"""Files beside an Execution Trace that a replay needs: the code that inductor generated."""

from __future__ import annotations

import shutil
import sys
from contextlib import suppress
from pathlib import Path


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
    saved = []
    for module in codecache.PyCodeCache.modules:
        source = getattr(module, "__file__", None)
        if source is not None:
            with suppress(OSError):
                shutil.copyfile(source, Path(folder) / Path(source).name)
                saved.append(Path(source).name)
    return saved
