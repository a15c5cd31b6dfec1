"""The command of Nsight Systems around another command, and the export of its reports."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tracebraid.errors import CaptureError
from tracebraid.files import refuse_existing


def nsys_command(command: Sequence[str], out_dir: Path, overwrite: bool) -> list[str]:
    """`nsys profile` around a command: it records CUDA and NVTX while a window is open.

    The report is `nsys_<rank>.nsys-rep`, with the rank from RANK, else 0: a launcher inside the command leaves one
    report for all processes.
    """
    rank = os.environ.get("RANK", "0")
    report = out_dir / f"nsys_{rank if rank.isdecimal() else 0}.nsys-rep"
    if not overwrite:
        refuse_existing((report, report.with_suffix(".sqlite")))
    return [
        _nsys(),
        "profile",
        "--output",
        str(report),
        "--trace",
        "cuda,nvtx",
        "--capture-range",
        "cudaProfilerApi",
        "--capture-range-end",
        "stop",
        *(["--force-overwrite", "true"] if overwrite else []),
        *command,
    ]


def export_reports(out_dir: Path) -> None:
    """Export each report of a folder to the SQLite file that readers take."""
    for report in sorted(out_dir.glob("nsys_*.nsys-rep")):
        database = report.with_suffix(".sqlite")
        whole = [
            _nsys(), "export", "--type", "sqlite", "--force-overwrite", "true",
            "--output", str(database), str(report),
        ]  # fmt: skip
        done = subprocess.run(whole, capture_output=True, text=True)
        if done.returncode:
            raise CaptureError(f"nsys cannot export {report}: {done.stderr.strip()[-300:]}")


def _nsys() -> str:
    found = shutil.which("nsys")
    if found is None:
        raise CaptureError(
            "nsys is not installed here, or not on the path. Install NVIDIA Nsight Systems, or leave --nsys out: "
            "Kineto records kernels too"
        )
    return found
