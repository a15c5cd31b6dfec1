"""Inputs that several hostile tests name, made once for each file of tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.plain_inputs import plain_inputs


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small job as all that commands read."""
    return plain_inputs(tmp_path_factory.mktemp("inputs"))
