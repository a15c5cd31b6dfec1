"""Runs captures for tests, and holds their manifests against their traces."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl

import tracebraid
from tests.waiting import HANG_S
from tracebraid.model.linked_trace import LinkedTrace

SCRIPTS = Path(__file__).parent / "scripts"
TRAIN = str(SCRIPTS / "train.py")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
QUIET = {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR", "PYTHONWARNINGS": "ignore"}


def capture_command(
    folder: Path, *command: str, options: tuple[str, ...] = (), **env: str
) -> subprocess.CompletedProcess[str]:
    """`tracebraid capture -o FOLDER OPTIONS -- COMMAND`; its output is not looked at here."""
    words = [sys.executable, "-m", "tracebraid", "capture", "-o", str(folder), *options, "--", *command]
    whole = {**os.environ, **QUIET, **env}
    return subprocess.run(words, capture_output=True, text=True, timeout=HANG_S, env=whole, input="")


def manifest_of(folder: Path, rank: int = 0) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / f"manifest_{rank}.json").read_text())
    return manifest


def files_of(folder: Path) -> list[str]:
    """All files of a folder and below it, hidden ones too."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def assert_sound(folder: Path, world: int = 1, windows: int = 1) -> list[LinkedTrace]:
    """All host ops that both traces have are linked, check passes, and each manifest is true: the linked traces."""
    checked = tracebraid.check(folder)
    assert checked.links, [str(one.finding) for one in checked.diagnoses]
    assert len(checked.ranks) == world * windows
    assert [name for name in files_of(folder) if name.endswith((".part", ".broken"))] == []
    linked = []
    for rank in range(world):
        manifest = manifest_of(folder, rank)
        assert (manifest["rank"], manifest["world_size"]) == (rank, world)
        assert len(manifest["windows"]) == windows
        linked += [assert_window_is_true(folder, window) for window in manifest["windows"]]
    return linked


def assert_window_is_true(folder: Path, window: dict[str, Any]) -> LinkedTrace:
    sizes = {file["path"]: file["size_bytes"] for file in window["files"]}
    assert {name: (folder / name).stat().st_size for name in sizes} == sizes
    et, kineto = sorted(sizes, key=lambda name: "kineto" in name)
    linked = tracebraid.link(folder / et, folder / kineto)
    assert_all_in_both_are_linked(linked)
    assert step_numbers(linked) == window["steps"]
    return linked


def assert_all_in_both_are_linked(linked: LinkedTrace) -> None:
    assert linked.et is not None
    ids = linked.timeline.host_ops.filter(pl.col("record_function_id") > 0).get_column("record_function_id")
    in_both = linked.et.op_nodes.filter(pl.col("rf_id").is_in(ids.implode()))
    assert in_both.height > 0
    assert linked.coverage.host_ops.linked == in_both.height


def step_numbers(linked: LinkedTrace) -> list[int]:
    names = tracebraid.analyses.steps(linked).get_column("step")
    return [int(re.sub(r"\D", "", name)) for name in names]
