"""Are clocks that differ said so by a check, with what they differ by, and only those?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.builders import Json, kernel, op
from tests.planted import Host, PlannedJob
from tests.unit.validation.made import codes, lay, step
from tracebraid.api import check
from tracebraid.model.finding_code import FindingCase
from tracebraid.model.schema.ranks import CLOCKS
from tracebraid.reports.check import check_data
from tracebraid.validation.clocks import clock_findings

MS = 1_000_000


def nccl(name: str, ts: float, dur: float, group: str | None = "0", correlation: int = 1) -> Json:
    args: Json = {"Collective name": name, **({} if group is None else {"Process Group Name": group})}
    return kernel(f"ncclDevKernel_{name}", ts, dur, correlation, **args)


def gloo(name: str, ts: float, dur: float, **more: Any) -> Json:
    return op(f"gloo:{name}", ts, dur, tid=9, cat="user_annotation", **more)


def clocks(*rows: tuple[str | None, int | None, int | None, int | None]) -> pl.DataFrame:
    """Clocks, each as its host, offset, and the interval of that."""
    names = ("host", "offset_ns", "offset_low_ns", "offset_high_ns")
    found = [
        {"rank": rank, "reference": 0, **dict(zip(names, row, strict=True))} for rank, row in enumerate(rows)
    ]
    return CLOCKS.conform(pl.DataFrame(found, infer_schema_length=None), fill_missing=True)


REFERENCE = ("a", 0, 0, 0)


# --- which clocks differ ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (100_000, 9 * MS, False),
        (100_001, 9 * MS, True),
        (-9 * MS, -100_000, False),
        (-9 * MS, -100_001, True),
        (None, 9 * MS, False),
        (None, -9 * MS, True),
        (None, None, False),
    ],
)
def test_a_clock_differs_where_it_certainly_does(low: int | None, high: int | None, said: bool) -> None:
    found = clock_findings(clocks(REFERENCE, ("b", 5 * MS, low, high)), "job")
    assert [finding.code.value for finding in found] == ["clocks-differ"] * said


def test_each_clock_counts_once_and_the_furthest_is_first() -> None:
    far, near = ("b", 5 * MS, 4 * MS, 6 * MS), ("c", -MS, -2 * MS, -MS)
    (found,) = clock_findings(clocks(REFERENCE, near, far, far), "job")
    assert found.details["count"] == 2
    assert found.details["most_ms"] == 5
    shown = str(found.details["clocks"])
    assert shown.index("b (ranks 2, 3)") < shown.index("c (rank 1)")


def test_of_many_clocks_the_first_are_named() -> None:
    rows = [(None, (n + 1) * MS, n * MS + MS, n * MS + MS) for n in range(40)]
    (found,) = clock_findings(clocks(REFERENCE, *rows), "job")
    assert found.details["count"] == 40
    assert str(found.details["clocks"]).count("rank") == 4


def test_one_host_of_several_clocks_is_named() -> None:
    found = clock_findings(clocks(REFERENCE, REFERENCE, ("a", MS, MS, MS), ("b", 0, 0, 0)), "job")
    assert [finding.details.get("case") for finding in found] == [None, FindingCase.HOST_OF_SEVERAL_CLOCKS]
    assert found[1].details["host"] == "a"


@pytest.mark.parametrize("rows", [[], [REFERENCE], [REFERENCE, ("b", None, None, None)]], ids=len)
def test_clocks_that_are_not_known_differ_from_none(rows: Sequence[Any]) -> None:
    assert clock_findings(clocks(*rows) if rows else CLOCKS.empty(), "job") == []


# --- in a whole capture -----------------------------------------------------------------------------

WORLD = {"world_size": 4, "pg_count": 3, "backend": "gloo"}
GROUPS = [
    {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 4, "ranks": [0, 1, 2, 3]},
    {"pg_name": "1", "pg_desc": "stage 0", "pg_size": 2, "ranks": [0, 1]},
    {"pg_name": "2", "pg_desc": "stage 1", "pg_size": 2, "ranks": [2, 3]},
]


def planned(*hosts: Host) -> PlannedJob:
    job = PlannedJob(4, hosts)
    for number in range(1, 9):
        with job.step(number):
            job.compute(100_000)
            job.collective(skew={rank: 1_000 * ((rank + number) % 4) for rank in range(4)})
    return job


def test_a_check_has_the_clock_of_each_rank(tmp_path: Path) -> None:
    checked = check(planned(Host("a"), Host("b", 5 * MS)).write(tmp_path))
    assert codes(checked) == ["clocks-differ"]
    rows = [rank["clock"] for rank in json.loads(json.dumps(check_data(checked)))["ranks"]]
    assert [row["method"] for row in rows] == ["reference", "same host", "collectives", "collectives"]
    assert rows[2]["offset_ns"] == pytest.approx(-5 * MS, abs=1_000)
    assert rows[2]["offset_low_ns"] < rows[2]["offset_ns"] < rows[2]["offset_high_ns"]


def test_ranks_of_one_clock_have_nothing_to_say(tmp_path: Path) -> None:
    assert codes(check(planned(Host("a"), Host("b")).write(tmp_path))) == []


def test_a_rank_alone_has_no_clock_to_compare(tmp_path: Path) -> None:
    checked = check(planned(Host("a")).write(tmp_path, missing=[1, 2, 3]), only_rank=0)
    assert [rank.clock for rank in checked.ranks] == [None]


def test_a_rank_whose_clock_is_off_is_found_by_its_collectives(tmp_path: Path) -> None:
    for rank, begins in enumerate((100, 900)):
        events = [step(1), op("aten::mm", 0, 1), gloo("all_reduce", begins, 50)]
        lay(tmp_path, rank, events, None, {"world_size": 2})
    assert codes(check(tmp_path)) == ["clocks-differ"]


def test_steps_are_compared_on_aligned_clocks(tmp_path: Path) -> None:
    for rank in (0, 1):
        events = [step(1, 9000 * rank), gloo("all_reduce", 9000 * rank, 50)]
        lay(tmp_path, rank, events, None, {"world_size": 2})
    (found,) = check(tmp_path).diagnoses
    assert "case" not in found.finding.details
    assert found.finding.details["most_ms"] == 9


def test_steps_that_are_apart_without_a_collective_are_said(tmp_path: Path) -> None:
    for rank in (0, 1):
        lay(tmp_path, rank, [step(1, 9000 * rank)], None, {"world_size": 2})
    (found,) = check(tmp_path).diagnoses
    assert found.finding.details["case"] is FindingCase.STEPS_APART


def test_groups_that_wait_for_their_own_ranks_alone_are_not_compared_by_one_name(tmp_path: Path) -> None:
    """Two stages of a pipeline: the second one's all-reduce begins when the first one's is long over.

    Gloo's operators carry no group, so that those of several groups cannot be told apart.
    """
    for rank in range(4):
        begins = 100 if rank < 2 else 900
        events = [step(1), op("aten::mm", 0, 1), gloo("all_reduce", begins, 50)]
        lay(tmp_path, rank, events, None, {**WORLD, "rank": rank, "pg_config": GROUPS})
    assert codes(check(tmp_path)) == []


def test_kernels_that_tell_no_group_are_not_taken_for_one_group(tmp_path: Path) -> None:
    for rank in range(4):
        begins = 100 if rank < 2 else 900
        events = [step(1), op("aten::mm", 0, 2000), nccl("allreduce", begins, 50, None)]
        lay(tmp_path, rank, events, None, {**WORLD, "backend": "nccl", "pg_config": GROUPS})
    assert "clocks-differ" not in codes(check(tmp_path))
