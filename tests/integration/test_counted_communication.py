"""Communication of captured jobs, against what the programs count of their own dispatcher's calls."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tracebraid
from tests.integration.calm import shared_capture
from tests.integration.command import run
from tests.integration.running import run_script
from tracebraid.analysis.collectives.members import members
from tracebraid.chakra import Detail
from tracebraid.model.collectives import ranks_in_text

pytest.importorskip("torch")
pytestmark = [pytest.mark.full, pytest.mark.torch, pytest.mark.slow]

KINDS = {
    2: ("ddp", "fsdp", "tensor", "pipeline", "collectives"),
    3: ("ddp", "all_to_all"),
    4: ("tensor_fsdp", "pipeline", "groups"),
}
"""By the number of ranks, which run one after the other in the same processes."""
BETWEEN_TWO = ("send", "recv")


def capture(world: int, folder: Path) -> None:
    done = run_script("parallel.py", folder, ",".join(KINDS[world]), world, "--count")
    assert done.returncode == 0, done.stderr


@pytest.fixture(
    scope="module",
    params=[(world, kind) for world, kinds in KINDS.items() for kind in kinds],
    ids=lambda job: f"{job[1]}{job[0]}",
)
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    world, kind = request.param
    return shared_capture(tmp_path_factory, f"counted_{world}", partial(capture, world)) / kind


def calls(folder: Path) -> list[tuple[int, dict[str, Any]]]:
    """What each rank counts itself: all calls of its step."""
    files = sorted(folder.glob("communication_*.json"))
    return [(rank, call) for rank, file in enumerate(files) for call in json.loads(file.read_text())]


def own(rank: int, call: dict[str, Any]) -> tuple[object, ...]:
    if call["type"] in BETWEEN_TWO:
        ends = (rank, call["peer"]) if call["type"] == "send" else (call["peer"], rank)
        return call["type"], rank, ends, call["bytes"]
    return call["type"], rank, tuple(call["ranks"]), call["bytes"]


def test_members_are_those_that_the_program_counts(job: Path) -> None:
    found: list[tuple[object, ...]] = []
    for linked in tracebraid.open(job):
        for row in members(linked).iter_rows(named=True):
            is_pair = row["type"] in BETWEEN_TWO
            ends = (row["source"], row["destination"]) if is_pair else ranks_in_text(row["group_ranks"])
            size = row["out_bytes"] if row["type"] == "recv" else row["in_bytes"]
            found.append((row["type"], linked.rank, ends, size or 0))
    assert Counter(found) == Counter(own(rank, call) for rank, call in calls(job))


def test_collectives_have_the_members_that_the_program_counts(job: Path) -> None:
    found: Counter[tuple[object, ...]] = Counter()
    for kind, ranks in (
        tracebraid.analyses.collectives(tracebraid.open(job)).select("type", "ranks").iter_rows()
    ):
        found[kind, tuple(ranks)] += 1
    wanted = Counter((call["type"], rank, tuple(call["ranks"])) for rank, call in calls(job))
    pairs = sum(count for (kind, *_), count in wanted.items() if kind == "send")
    of_groups = Counter(
        {
            (kind, ranks): n
            for (kind, rank, ranks), n in wanted.items()
            if kind not in BETWEEN_TWO and rank == ranks[0]
        }
    )
    assert Counter({key: n for key, n in found.items() if key[0] != "send_recv"}) == of_groups
    assert sum(n for key, n in found.items() if key[0] == "send_recv") == pairs


def test_exported_communication_has_these_members(job: Path, tmp_path: Path) -> None:
    """Each job in one of the details."""
    details = [detail.value for detail in Detail]
    number = [kind for kinds in KINDS.values() for kind in kinds].index(job.name)
    words = ("--to", "chakra", "--detail", details[number % len(details)], "-o", tmp_path / "out")
    done = run("export", job, *words)
    assert done.returncode == 0, done.stderr
    facts = json.loads((tmp_path / "out" / "export.json").read_text())
    assert {step["error_ns"] for step in facts["replay"]["steps"]} == {0}
    counted = {
        key: n for key, n in facts["communication"].items() if key.startswith("alone.") or " as " in key
    }
    wanted = Counter(call["type"] for _, call in calls(job))
    assert not [key for key in counted if key.startswith("alone.")]
    assert Counter({key.partition(" as ")[0]: n for key, n in counted.items()}) == wanted
    groups = {tuple(group["ranks"]) for group in facts["groups"]}
    assert groups == {tuple(call["ranks"]) for _, call in calls(job) if call["type"] not in BETWEEN_TWO}
