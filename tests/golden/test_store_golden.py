"""A store holds what the traces do: every table and stage, finding and error, of the bundled and of real traces."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.conftest import find_real_traces
from tests.integration.command import run
from tests.stores import differences
from tracebraid.errors import ArgumentError, InputError
from tracebraid.model.finding_code import FindingCode

_TRACES = find_real_traces()
_ALONE = sorted(path.name for path in (_TRACES / "kineto").glob("*.json.gz")) if _TRACES else ["absent"]
_PAIRS = sorted(path.name for path in (_TRACES / "pairs").iterdir()) if _TRACES else ["absent"]


def check_store(path: Path, folder: Path, **options: object) -> None:
    packed = tracebraid.pack(path, folder / "job.tbstore", **options)  # type: ignore[arg-type]
    traces, store = tracebraid.open(path, **options), tracebraid.open(folder / "job.tbstore")  # type: ignore[arg-type]
    assert packed.failed == ()
    assert (store.path, store.files, store.findings) == (traces.path, traces.files, traces.findings)
    assert {rank: differences(traces[rank], store[rank]) for rank in traces.ranks} == {
        rank: [] for rank in traces.ranks
    }


@pytest.mark.full
def test_the_store_of_the_demo_holds_what_its_traces_do(demo: Path, tmp_path: Path) -> None:
    check_store(demo, tmp_path)


@pytest.mark.full
def test_a_store_holds_what_was_matched_without_ids(demo: Path, tmp_path: Path) -> None:
    check_store(demo, tmp_path, matching="approximate")


@pytest.mark.full
@pytest.mark.traces
@pytest.mark.parametrize("name", _PAIRS)
def test_the_stores_of_real_pairs_hold_what_their_traces_do(
    real_traces: Path, tmp_path: Path, name: str
) -> None:
    check_store(real_traces / "pairs" / name, tmp_path)


@pytest.mark.full(keep=1)
@pytest.mark.traces
@pytest.mark.parametrize("name", _ALONE)
def test_the_stores_of_real_kineto_traces_hold_what_they_do(
    real_traces: Path, tmp_path: Path, name: str
) -> None:
    check_store(real_traces / "kineto" / name, tmp_path)


# --- A store of some steps answers about these as the traces do, and says that it is a part ----------


@pytest.mark.full
def test_answers_about_packed_steps_are_those_of_the_traces(demo: Path, tmp_path: Path) -> None:
    names = [str(name) for name in tracebraid.analyses.steps(tracebraid.open(demo)[0]).get_column("step")]
    number = int(names[1].partition("#")[2])
    # A step lasts from the end of the one before, so that is packed, too.
    tracebraid.pack(demo, tmp_path / "job.tbstore", steps=f"{number - 1}-{number}")
    whole, part = tracebraid.open(demo)[0], tracebraid.open(tmp_path / "job.tbstore")[0]
    assert part.timeline.events.height < whole.timeline.events.height
    assert [str(name) for name in tracebraid.analyses.steps(part).get_column("step")] == names[:2]
    for ask in (tracebraid.analyses.breakdown, lambda linked: tracebraid.analyses.ops(linked, per_step=True)):
        asked = [ask(linked).filter(pl.col("step").cast(pl.String) == names[1]) for linked in (whole, part)]
        assert asked[0].height > 0
        assert asked[1].drop("rank").equals(asked[0].drop("rank"))
    said = [finding for finding in part.timeline.findings if finding.code is FindingCode.STEPS_CHOSEN]
    assert [finding.details["steps"] for finding in said] == [f"{number - 1}, {number}"]
    assert part.timeline.events.get_column("event_id").to_list() == list(range(part.timeline.events.height))


@pytest.mark.full
@pytest.mark.traces
def test_launches_of_packed_steps_are_whole(real_traces: Path, tmp_path: Path) -> None:
    """Device work runs behind the step that launched it: it is packed with it, and with the call that did."""
    trace = real_traces / "kineto/a100_ddp_nccl_rank0of2.json.gz"
    whole = tracebraid.open(trace)[0]
    steps = tracebraid.analyses.steps(whole)
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


@pytest.mark.full
def test_all_steps_are_all_there_is_but_for_what_is_outside_of_them(demo: Path, tmp_path: Path) -> None:
    tracebraid.pack(demo, tmp_path / "job.tbstore", steps="0-1000000")
    whole, part = tracebraid.open(demo)[0], tracebraid.open(tmp_path / "job.tbstore")[0]
    assert tracebraid.analyses.breakdown(part).equals(tracebraid.analyses.breakdown(whole))
