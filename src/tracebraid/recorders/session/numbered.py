"""`run_1`, `run_2` and so on: a new folder for each run, the same one for all of its ranks."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

from tracebraid.files import writing

_RUN = "run_"
_MARK = ".tracebraid-run"
_JOB = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID", "SLURM_STEP_ID")
"""Variables that are equal on all ranks of a run, and together differ between most runs."""


def numbered_folder(parent: Path, files: Callable[[], Iterable[Path]] = tuple) -> Path:
    """Return this run's folder inside a parent: the newest, if another rank of this run created it."""
    job = _job()
    names = [path.relative_to(parent) for path in files()]
    with writing(parent):
        parent.mkdir(parents=True, exist_ok=True)
        made = parent / f"{_MARK}-{uuid.uuid4().hex}"
        made.mkdir()
        (made / _MARK).write_bytes(job.encode())
        try:
            while True:
                number = max(_numbers(parent), default=0)
                newest = parent / f"{_RUN}{number}"
                if number and _job_of(newest) == job and not any((newest / name).exists() for name in names):
                    return newest
                folder = parent / f"{_RUN}{number + 1}"
                try:
                    made.rename(folder)
                except OSError:
                    # Another rank was faster: its folder is the newest.
                    if not folder.exists():
                        raise
                else:
                    return folder
        finally:
            shutil.rmtree(made, ignore_errors=True)


def _job() -> str:
    values = [os.environ.get(name, "") for name in _JOB]
    return "\n".join(values) if any(values) else uuid.uuid4().hex


def _numbers(parent: Path) -> list[int]:
    names = [entry.name.removeprefix(_RUN) for entry in parent.glob(f"{_RUN}*")]
    return [int(name) for name in names if name.isdecimal()]


def _job_of(folder: Path) -> str | None:
    try:
        return (folder / _MARK).read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return None
