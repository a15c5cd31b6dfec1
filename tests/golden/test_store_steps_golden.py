"""A store of some steps answers about these as the traces do, and says that it is a part."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.integration.command import run
from tests.stores import differences
from tracebraid.errors import ArgumentError, InputError
from tracebraid.model.finding_code import FindingCode


def test_answers_about_packed_steps_are_those_of_the_traces(demo: Path, tmp_path: Path) -> None:
    names = [str(name) for name in tracebraid.steps(tracebraid.open(demo)[0]).get_column("step")]
    number = int(names[1].partition("#")[2])
    tracebraid.pack(demo, tmp_path / "job.tbstore", steps=str(number))
    whole, part = tracebraid.open(demo)[0], tracebraid.open(tmp_path / "job.tbstore")[0]
    assert part.timeline.events.height < whole.timeline.events.height
    assert [str(name) for name in tracebraid.steps(part).get_column("step")] == [names[1]]
    for ask in (tracebraid.breakdown, lambda linked: tracebraid.ops(linked, per_step=True)):
        asked = [ask(linked).filter(pl.col("step").cast(pl.String) == names[1]) for linked in (whole, part)]
        assert asked[0].height > 0
        assert asked[1].drop("rank").equals(asked[0].drop("rank"))
    said = [finding for finding in part.timeline.findings if finding.code is FindingCode.STEPS_CHOSEN]
    assert [finding.details["steps"] for finding in said] == [str(number)]
    assert part.timeline.events.get_column("event_id").to_list() == list(range(part.timeline.events.height))


@pytest.mark.traces
def test_launches_of_packed_steps_are_whole(real_traces: Path, tmp_path: Path) -> None:
    """Device work runs behind the step that launched it: it is packed with it, and with the call that did."""
    trace = real_traces / "kineto/a100_ddp_nccl_rank0of2.json.gz"
    whole = tracebraid.open(trace)[0]
    steps = tracebraid.steps(whole)
    name, start, end = steps.select(pl.col("step").cast(pl.String), "start_ns", "end_ns").row(0)
    tracebraid.pack(trace, tmp_path / "job.tbstore", steps=name.partition("#")[2])
    part = tracebraid.open(tmp_path / "job.tbstore")[0]
    during = whole.timeline.events.filter(pl.col("ts_ns").is_between(start, end, closed="left"))
    launched = whole.launches.filter(pl.col("call_event").is_in(during.get_column("event_id").implode()))
    assert launched.height > 10
    assert part.launches.filter(pl.col("call_event").is_not_null()).height >= launched.height
    times = part.timeline.events.filter(
        pl.col("event_id").is_in(part.launches.get_column("event_id").implode())
    )
    of_launched = whole.timeline.events.filter(
        pl.col("event_id").is_in(launched.get_column("event_id").implode())
    )
    assert set(of_launched.get_column("ts_ns")) <= set(times.get_column("ts_ns"))
    assert differences(part, tracebraid.open(tmp_path / "job.tbstore")[0]) == []


def test_steps_that_are_not_there_are_an_error_that_names_those_that_are(demo: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none of the steps.*it has"):
        tracebraid.pack(demo, tmp_path / "job.tbstore", steps="900-999")
    with pytest.raises(ArgumentError, match="no list of steps"):
        tracebraid.pack(demo, tmp_path / "other.tbstore", steps="first")
    assert run("pack", demo, "-o", tmp_path / "other.tbstore", "--steps", "x").returncode == 2


def test_all_steps_are_all_there_is_but_for_what_is_outside_of_them(demo: Path, tmp_path: Path) -> None:
    tracebraid.pack(demo, tmp_path / "job.tbstore", steps="0-1000000")
    whole, part = tracebraid.open(demo)[0], tracebraid.open(tmp_path / "job.tbstore")[0]
    assert tracebraid.breakdown(part).equals(tracebraid.breakdown(whole))
