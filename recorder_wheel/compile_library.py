"""Compile the native recorder for the installed torch into this package; `make recorder-wheel` does it for each."""

from __future__ import annotations

import shutil
from pathlib import Path

from tracebraid.recorders.native import library

_FOLDER = Path(__file__).resolve().parent / "tracebraid_recorder"


def main() -> None:
    """Compile it, and copy it under the name by which it is found."""
    name = library.ready_name()
    if name is None:
        raise SystemExit("this torch is no release with torch.distributed")
    shutil.copyfile(library.build(anew=True), _FOLDER / name)


if __name__ == "__main__":
    main()
