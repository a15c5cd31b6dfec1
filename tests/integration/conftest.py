"""Fixtures of the tests that run commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.command import write_pair


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two ranks; tests only read it."""
    folder = tmp_path_factory.mktemp("job")
    write_pair(folder, 0)
    write_pair(folder, 1, ".json.gz")
    return folder


@pytest.fixture(scope="module")
def pair(job: Path) -> tuple[Path, Path]:
    return job / "torch_et_0.json", job / "kineto_trace_0.json"
