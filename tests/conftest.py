"""Fixtures that all tests share."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

import tracebraid

ROOT = Path(__file__).resolve().parents[1]

# No limit of time for an example: a machine that is busy is no fault of the code.
settings.register_profile("without_deadline", deadline=None)
settings.load_profile("without_deadline")

# Threads of PyTorch that wait for work leave the processor to the other tests.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def pytest_collection_finish() -> None:
    """Spare the garbage collector all tests and modules, which stay to the end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def find_real_traces() -> Path | None:
    """The folder of real traces of other people's jobs, which is not part of this project; None without it."""
    named = os.environ.get("TRACEBRAID_TRACES")
    folder = Path(named) if named else ROOT.parent / "shared" / "traces"
    return folder if folder.is_dir() else None


@pytest.fixture(scope="session")
def demo() -> Path:
    """The bundled two-rank DDP traces."""
    return tracebraid.demo_path()


@pytest.fixture(scope="session")
def real_traces() -> Path:
    """The folder of real traces; the test is skipped where it is absent."""
    folder = find_real_traces()
    if folder is None:
        pytest.skip("needs the real traces: set TRACEBRAID_TRACES to their folder")
    return folder
