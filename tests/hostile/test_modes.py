"""What is written has the rights that the user's umask leaves, no more and no less."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.hostile.plain_inputs import write_job
from tests.integration.command import run


@pytest.mark.parametrize("mask", [0o002])
def test_modes_are_those_of_the_umask(tmp_path: Path, mask: int) -> None:
    job, out = write_job(tmp_path / "job"), tmp_path / "out"
    out.mkdir()
    before = os.umask(mask)
    try:
        for line in (
            ("link", job, "-o", out / "linked"),
            ("pack", job, "-o", out / "job.tbstore"),
            ("export", job, "--to", "sqlite", "-o", out / "job.sqlite"),
            ("export", job, "--to", "chakra", "-o", out / "nodes"),
            ("analyze", "kernels", job, "-o", out / "kernels.csv"),
        ):
            assert run(*line).returncode == 0, line
    finally:
        os.umask(before)
    for path in out.rglob("*"):
        assert path.lstat().st_mode & 0o777 == (0o777 if path.is_dir() else 0o666) & ~mask, path
