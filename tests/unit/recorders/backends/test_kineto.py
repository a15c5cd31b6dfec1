"""A window imports no compiler into the program: another thread may be importing it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.integration.running import run_command

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

PROGRAM = """
import sys
import torch
import tracebraid

mode = sys.argv[2]
if mode == "under way":
    # As Python has it while another thread executes the module.
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    module = ModuleType("torch._inductor.config")
    module.__spec__ = ModuleSpec(module.__name__, None)
    module.__spec__._initializing = True
    sys.modules[module.__name__] = module
elif mode == "there":
    import torch._inductor.config
with tracebraid.capture(sys.argv[1], skip_first=0, wait=0, warmup=1, active=1, check=False) as capture:
    for _ in range(3):
        torch.ones(2)
        capture.step()
print(capture.is_complete, "torch._inductor" in sys.modules)
"""


@pytest.mark.parametrize(("mode", "is_there"), [("absent", False), ("under way", False), ("there", True)])
def test_a_window_imports_no_compiler(tmp_path: Path, mode: str, is_there: bool) -> None:
    done = run_command(sys.executable, "-c", PROGRAM, tmp_path / "traces", mode)
    assert (done.returncode, done.stdout) == (0, f"True {is_there}\n"), done.stderr[-2000:]
