"""`tracebraid link --align-clocks`: the ET+ of all ranks on one clock."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tests.builders import et_text, write
from tests.integration.command import run, succeed
from tests.planted import Host, PlannedJob
from tests.planted.nodes import nodes_of

AHEAD_NS = 3_600 * 10**9


def planned(folder: Path) -> PlannedJob:
    job = PlannedJob(2, [Host("a"), Host("b", AHEAD_NS)])
    for number in range(1, 5):
        with job.step(number):
            job.compute(50_000)
            job.collective()
    for scene in job.finished():
        text = et_text(nodes_of(scene)).replace('"pid": 1,', f'"pid": {scene.pid},', 1)
        written = datetime.fromtimestamp(scene.base_ns // 10**9, timezone.utc)
        text = text.replace("2023-11-14 22:13:20", f"{written:%Y-%m-%d %H:%M:%S}")
        write(folder / f"torch_et_{scene.rank}.json", text)
    job.write(folder)
    return job


def ends_ns(path: Path) -> list[int]:
    """When the collectives' kernels end, on the unix clock."""
    found = json.loads(path.read_text())
    base = int(found.get("baseTimeNanoseconds", 0))
    return [
        base + round(node["ts"] * 1000) + round(node["inclusive_dur"] * 1000)
        for node in found["nodes"]
        if node["name"].startswith("ncclDevKernel") and "ts" in node
    ]


@pytest.mark.parametrize("aligned", [True, False])
def test_ends_of_collectives_are_one_moment_on_aligned_clocks(tmp_path: Path, aligned: bool) -> None:
    (tmp_path / "in").mkdir()
    planned(tmp_path / "in")
    succeed("link", tmp_path / "in", "-o", tmp_path / "out", *(["--align-clocks"] if aligned else []))
    first, second = (ends_ns(tmp_path / "out" / f"et_plus_{rank}.json") for rank in (0, 1))
    assert len(first) == len(second) == 4
    apart = [late - early for early, late in zip(first, second, strict=True)]
    # A float of JSON holds a time of the unix clock in µs to 1/4 µs.
    assert apart == pytest.approx([0 if aligned else AHEAD_NS] * 4, abs=2_000)


def test_clocks_are_aligned_of_a_folder_that_is_written(tmp_path: Path) -> None:
    planned(tmp_path)
    assert run("link", tmp_path, "--align-clocks").returncode == 2
