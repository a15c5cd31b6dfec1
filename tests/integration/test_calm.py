"""What is captured again on a busy machine, and what is captured once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.calm import ATTEMPTS, calmest, shared_capture


@pytest.mark.parametrize(
    ("disturbances", "kept", "made"),
    [([0.1], 0, 1), ([0.5, 0.2], 1, 2), ([0.5, 0.3], 1, ATTEMPTS), ([0.3, 0.5], 0, ATTEMPTS)],
)
def test_the_first_calm_capture_is_kept_or_else_the_calmest(
    tmp_path: Path, disturbances: list[float], kept: int, made: int
) -> None:
    folder = calmest(tmp_path, Path.mkdir, lambda path: disturbances[int(path.name[-1])], limit=0.2)
    assert folder == tmp_path / f"attempt_{kept}"
    assert len(list(tmp_path.iterdir())) == made


def test_what_is_shared_is_captured_once(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    name = tmp_path.name  # a name of its own in the folder that all processes of a run share
    first = shared_capture(tmp_path_factory, name, Path.mkdir)
    assert first.is_dir()
    assert shared_capture(tmp_path_factory, name, Path.rmdir) == first
