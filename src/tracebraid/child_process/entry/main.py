"""The script that a child process starts with: `main.py MODULE:FUNCTION COUNT PATH... ARGUMENT...`.

Started as a file, Python puts this script's folder first on the module path, not the working folder as with `-c` and
`-m`. The folder holds nothing else, so that nothing in it hides another module; it is off the path before anything
but the standard library is imported.
"""

from __future__ import annotations

import importlib
import os
import sys


def main(function: str, count: str, *words: str) -> None:
    """Take over the parent's module path, and call a function."""
    here = os.path.realpath(os.path.dirname(__file__))  # noqa: PTH120
    path, arguments = words[: int(count)], words[int(count) :]
    own = [entry for entry in sys.path if os.path.realpath(entry) != here and entry not in path]
    sys.path[:] = [*path, *own]
    module, name = function.split(":")
    getattr(importlib.import_module(module), name)(*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
