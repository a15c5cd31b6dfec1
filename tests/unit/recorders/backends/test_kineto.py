"""No window opens while another thread imports what PyTorch's profiler imports, too."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch")

import tracebraid
from tests.integration.captured import manifest_of
from tracebraid.errors import CaptureWarning
from tracebraid.recorders.backends.kineto import import_is_under_way

pytestmark = pytest.mark.torch


def begin_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python has it while it executes a module."""
    module = ModuleType("torch._inductor")
    module.__spec__ = ModuleSpec("torch._inductor", None)
    module.__spec__._initializing = True  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch._inductor", module)


def run_loop(folder: Path) -> None:
    with tracebraid.capture(folder, skip_first=0, wait=0, warmup=1, active=1, check=False) as capture:
        for _ in range(4):
            capture.step()


def test_an_import_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not import_is_under_way()
    begin_import(monkeypatch)
    assert import_is_under_way()
    monkeypatch.undo()
    assert not import_is_under_way()


def test_a_window_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tracebraid.capture(tmp_path, skip_first=0, wait=0, warmup=1, active=1, check=False) as capture:
        begin_import(monkeypatch)
        capture.step()
        with monkeypatch.context() as inner:
            begin_import(inner)
            capture.step()
        monkeypatch.undo()
        for _ in range(4):
            capture.step()
    assert manifest_of(tmp_path)["windows"][0]["failure"] is None


def test_a_window_that_never_opens_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin_import(monkeypatch)
    with pytest.warns(CaptureWarning, match=r"importing torch\.compile"):
        run_loop(tmp_path)
    monkeypatch.undo()
    assert "importing torch.compile" in manifest_of(tmp_path)["windows"][0]["failure"]
