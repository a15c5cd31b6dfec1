"""Python runs this at its start in every process that `tracebraid capture` starts.

It only waits: once a process has imported torch, the capture is set up in it. A `sitecustomize` of the system or
of the environment, which this one hides, runs first.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))


def _run_the_one_we_hide() -> None:
    """Run the `sitecustomize` that would have been found without us."""
    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


class _AfterTorch:
    """Sets the capture up when `import torch` has ended; a program may ask for torch before it imports it."""

    asking = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find torch as Python would, with a loader that calls us after it."""
        if name != "torch" or self.asking:
            return None
        self.asking = True
        spec = importlib.util.find_spec("torch")
        self.asking = False
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        finder: Any = self
        execute = loader.exec_module

        def execute_and_set_up(module: ModuleType) -> None:
            sys.meta_path.remove(finder)
            del loader.exec_module
            execute(module)
            _set_up()

        loader.exec_module = execute_and_set_up
        return spec


def _set_up() -> None:
    try:
        from tracebraid.recorders.launcher.bootstrap import set_up
    except ImportError as error:
        sys.stderr.write(
            f"tracebraid: this process is not captured: {error}. Install it for {sys.executable}\n"
        )
        return
    set_up(os.environ["TRACEBRAID_CAPTURE"])


if "TRACEBRAID_CAPTURE" in os.environ:
    sys.meta_path.insert(0, _AfterTorch())
_run_the_one_we_hide()
