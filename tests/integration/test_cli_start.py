"""What starting the command line costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def python(code: str, *arguments: object) -> str:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


HEAVY = "print(sorted({'torch', 'pandas', 'jinja2', 'plotly', 'ray', 'matplotlib'} & set(sys.modules)))"


def test_importing_loads_no_heavy_library() -> None:
    assert python(f"import sys, tracebraid; {HEAVY}") == "[]\n"


def test_opening_linking_and_asking_load_no_heavy_library(job: Path) -> None:
    code = (
        "import sys, tracebraid; job = tracebraid.open(sys.argv[1]); job[0]; tracebraid.breakdown(job);"
        f"tracebraid.kernels(job); tracebraid.ops(job); {HEAVY}"
    )
    assert python(code, job) == "[]\n"
