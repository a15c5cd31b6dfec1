"""The commands that are struck, and the small files that they read."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import tracebraid
from tests.integration.command import write_pair
from tests.misled import misled_copy
from tools.interrupts.model import Stroke, Subject

__all__ = ["SUBJECTS", "lay_out_inputs", "prepare_forks"]

_DEMO = Path(tracebraid.__file__).parent / "demo_traces" / "ddp_cpu_2rank"
_RANKS = 2
_STEPS = 14
_NEEDED = ("tracebraid.api.capturing", "polars", "duckdb", "numba", "tracebraid.cli.commands")
"""What commands import when they are run."""
_PLAIN = """
import sys, time
try:
    time.sleep(0.15)
except KeyboardInterrupt:
    sys.exit(130)
"""
_TRAINS = f"""
import sys
try:
    import torch
    torch.set_num_threads(1)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range({_STEPS}):
        optimizer.zero_grad()
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()
except KeyboardInterrupt:
    sys.exit(130)
"""


def lay_out_inputs(folder: Path) -> None:
    """Write traces of two ranks, and the programs to capture."""
    folder.mkdir()
    for rank in range(_RANKS):
        write_pair(folder / "traces", rank)
    misled_copy(_DEMO, folder / "misled")
    (folder / "plain.py").write_text(_PLAIN)
    (folder / "trains.py").write_text(_TRAINS)


def prepare_forks() -> None:
    """Import what forked captures need, once."""
    import torch

    torch.set_num_threads(1)
    # The first optimizer imports torch's compiler.
    torch.optim.SGD(torch.nn.Linear(4, 2).parameters(), lr=0.1)
    for name in _NEEDED:
        importlib.import_module(name)


def _train(out: Path, recorder: str = "auto", repeat: int = 1) -> None:
    """A loop with a capture around it, as a program has it that ends with 130 at Ctrl-C."""
    with suppress(KeyboardInterrupt):
        _captured_loop(out, recorder, repeat)
        return
    os._exit(130)


def _captured_loop(out: Path, recorder: str, repeat: int) -> None:
    import torch

    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tracebraid.capture(out / "traces", recorder=recorder, repeat=repeat, overwrite=True) as cap:
        for _ in range(_STEPS * repeat):
            optimizer.zero_grad()
            model(torch.ones(3, 4)).sum().backward()
            optimizer.step()
            cap.step()


_CAPTURE = ("capture", "--overwrite", "-o", "{out}/traces")
_GROUP = tuple(stroke for stroke in Stroke if stroke not in (Stroke.INTERRUPT_ONE, Stroke.KILL_ONE))
"""A launcher leaves Ctrl-C to its command, which has it from the terminal; a kill of it leaves the command running."""

_PLAIN_CAPTURE = (*_CAPTURE, "--", sys.executable, "{inputs}/plain.py")
_PACK = ("pack", "{inputs}/traces", "-o", "{out}/job.tbstore")
_REPORT = ("report", "{inputs}/traces", "-o", "{out}/report.html")
_POOL_REPORT = (
    "report",
    "{inputs}/traces",
    "-o",
    "{out}/report.json",
    "--no-critical-path",
    "--engine",
    "pool",
)

SUBJECTS = (
    # In forked processes, which have imported all: where the moments are dense.
    Subject("capture() in a loop", "capture", call=_train, weight=22),
    Subject(
        "capture() in a loop, PyTorch's recorder", "capture", call=partial(_train, recorder="torch"), weight=8
    ),
    Subject("capture() in a loop, two windows", "capture", call=partial(_train, repeat=2), weight=8),
    Subject("pack", "pack", _PACK, is_forked=True, weight=22),
    Subject("report", "report", _REPORT, is_forked=True, weight=14),
    Subject(
        "export --to parquet",
        "other",
        ("export", "{inputs}/traces", "--to", "parquet", "-o", "{out}/tables"),
        is_forked=True,
        weight=2,
    ),
    Subject(
        "export --to chakra",
        "other",
        ("export", "{inputs}/traces", "--to", "chakra", "-o", "{out}/chakra"),
        is_forked=True,
        weight=2,
    ),
    Subject("link", "other", ("link", "{inputs}/traces", "-o", "{out}/linked"), is_forked=True, weight=2),
    Subject(
        "sql",
        "other",
        ("sql", "{inputs}/traces", "select count(*) from ops", "--csv", "-o", "{out}/answer.csv"),
        is_forked=True,
        weight=2,
    ),
    Subject(
        "check --repair",
        "other",
        ("check", "{out}/traces", "--repair"),
        repairs=True,
        is_forked=True,
        weight=2,
    ),
    # In processes of their own, from the start of Python on.
    Subject("capture, from the start, without torch", "capture", _PLAIN_CAPTURE, strokes=_GROUP, weight=4),
    Subject(
        "capture, from the start",
        "capture",
        (*_CAPTURE, "--", sys.executable, "{inputs}/trains.py"),
        strokes=_GROUP,
        weight=4,
    ),
    Subject("pack, from the start", "pack", _PACK, weight=4),
    Subject("pack --engine pool, from the start", "pack", (*_PACK, "--engine", "pool"), weight=3),
    Subject("report, from the start", "report", _REPORT, weight=2),
    Subject("report --engine pool, from the start", "report", _POOL_REPORT, weight=2),
)
