"""Runs the command line for tests, and makes the small traces that they run it on."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from tests.builders import call, et_text, kernel, kineto_text, node, op, write
from tests.unit.linking.made import et_of
from tracebraid.cli import main

EVENTS = [
    op("ProfilerStep#1", 0, 100, cat="user_annotation", Record_function_id=4),
    op("aten::mm", 10, 50, Record_function_id=5, Input_Dims=[[2, 3], [3, 4]]),
    op("aten::unseen", 70, 5, Record_function_id=6),
    call("cudaLaunchKernel", 20, 5, 7),
    kernel("gemm", 40, 10, 7),
    kernel("lost", 60, 30, 99),
]


NODES = et_of(node(19, "ProfilerStep#1", 1001, rf_id=4), node(20, "aten::mm", 19, rf_id=5))


LEDGER_KEYS = {"rank", "host_ops", "gpu_events", "gpu_time_ns", "orphans"}


class Done(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments: object, stdin: bytes = b"", **env: str) -> Done:
    """Run the command in this process, as `python -m tracebraid` would in one of its own; no terminal anywhere."""
    out, err, code = printed(), printed(), 0
    with (
        mock.patch.object(sys, "argv", ["tracebraid", *map(str, arguments)]),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))),
        mock.patch.dict(os.environ, env),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        if "COLUMNS" not in env:
            os.environ.pop("COLUMNS", None)
        try:
            main.run()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    out.flush()
    err.flush()
    return Done(code, *(stream.buffer.getvalue().decode(errors="replace") for stream in (out, err)))


def printed() -> io.TextIOWrapper[io.BytesIO]:
    """A stream like standard output, that goes nowhere."""
    return io.TextIOWrapper(io.BytesIO(), "utf-8")


def run_process(*arguments: object, stdin: bytes = b"") -> Done:
    """Run `python -m tracebraid`."""
    command = [sys.executable, "-m", "tracebraid", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, check=False)
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def succeed(*arguments: object, by: Callable[..., Done] = run, **options: Any) -> str:
    """Run it, and hand back what it printed; it must end well and warn of nothing."""
    done = by(*arguments, **options)
    assert (done.returncode, done.stderr.strip()) == (0, "")
    return done.stdout


def fail(*arguments: object, by: Callable[..., Done] = run, **options: Any) -> str:
    """Run it, and hand back what it said; it must print no results and end with exit code 1 and one error."""
    done = by(*arguments, **options)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    assert done.stderr.strip().startswith("error: ")
    return done.stderr


def write_pair(folder: Path, rank: int = 0, suffix: str = ".json") -> tuple[Path, Path]:
    header = {"distributedInfo": {"rank": rank, "world_size": 2}}
    folder.mkdir(exist_ok=True)
    et = write(folder / f"torch_et_{rank}{suffix}", et_text(NODES))
    return et, write(folder / f"kineto_trace_{rank}{suffix}", kineto_text(EVENTS, header))


def truncated(text: str, share: float) -> bytes:
    return text.encode()[: int(share * len(text))]
