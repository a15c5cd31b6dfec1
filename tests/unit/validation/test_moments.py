"""Are clocks that differ said so by a check, with what they differ by, and only those?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.builders import Json, complete, et_text, kernel, kineto_text, op, write
from tests.planted import Host, PlannedJob
from tests.unit.linking.made import linked_of
from tests.unit.validation.made import EVENTS, NODES, codes, lay, step
from tracebraid import check
from tracebraid.model.finding import Finding, FindingCase
from tracebraid.model.schema.links import CLOCKS
from tracebraid.model.timeline import Timeline
from tracebraid.reports.check import check_data
from tracebraid.validation.clocks import clock_findings
from tracebraid.validation.identity import rank_findings
from tracebraid.validation.window import Step, rank_step_findings, steps_of, window_findings

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


@pytest.mark.slow
def test_a_check_has_the_clock_of_each_rank(tmp_path: Path) -> None:
    checked = check(planned(Host("a"), Host("b", 5 * MS)).write(tmp_path))
    assert codes(checked) == ["clocks-differ"]
    rows = [rank["clock"] for rank in json.loads(json.dumps(check_data(checked)))["ranks"]]
    assert [row["method"] for row in rows] == ["reference", "same host", "collectives", "collectives"]
    assert rows[2]["offset_ns"] == pytest.approx(-5 * MS, abs=1_000)
    assert rows[2]["offset_low_ns"] < rows[2]["offset_ns"] < rows[2]["offset_high_ns"]


@pytest.mark.slow
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


# --- Are a window's steps found, and is it said where they are not steady or not the same on al ------


def timeline_of(*events: Any) -> Timeline:
    return linked_of(list(events)).timeline


def in_a_row(*durations: int) -> list[Step]:
    """Steps of these durations in ns, one behind the other."""
    steps, now = [], 0
    for number, duration in enumerate(durations):
        steps.append(Step(f"ProfilerStep#{number}", now, now + duration))
        now += duration
    return steps


def said_of(*durations: int) -> list[Finding]:
    return window_findings(timeline_of(op("aten::mm", 0, 1)), in_a_row(*durations))


# --- which events are steps -------------------------------------------------------------------------


def test_steps_are_in_the_order_of_their_starts_with_times_in_ns() -> None:
    found = steps_of(timeline_of(step(4, 3000, 1.5), step(3, 1000, 2000)))
    assert found == (
        Step("ProfilerStep#3", 1_000_000, 3_000_000),
        Step("ProfilerStep#4", 3_000_000, 3_001_500),
    )


def test_the_times_of_steps_are_those_of_the_unix_clock() -> None:
    base_ns = 1_700_000_000_000_000_000
    (found,) = steps_of(linked_of([step(1, 5, 10)], header={"baseTimeNanoseconds": base_ns}).timeline)
    assert (found.start_ns, found.end_ns) == (base_ns + 5_000, base_ns + 15_000)


def test_old_traces_have_steps_as_ops() -> None:
    assert [one.name for one in steps_of(timeline_of(op("ProfilerStep#7", 0, 5)))] == ["ProfilerStep#7"]


@pytest.mark.parametrize("name", ["ProfilerStep", "ProfilerStep#", "ProfilerStep#1x", "my ProfilerStep#1"])
def test_only_the_profilers_own_names_are_steps(name: str) -> None:
    assert steps_of(timeline_of(op(name, 0, 5, cat="user_annotation"))) == ()


def test_the_devices_side_of_a_step_is_no_second_step() -> None:
    there = complete("ProfilerStep#1", "gpu_user_annotation", 3, 5, pid=0, tid=7)
    assert len(steps_of(timeline_of(step(1), there))) == 1


# --- one rank ---------------------------------------------------------------------------------------


def test_no_step_is_said() -> None:
    assert codes(said_of()) == ["no-steps"]


def test_steady_steps_have_nothing_to_say() -> None:
    assert said_of(100, 100, 101) == []


@pytest.mark.parametrize(
    ("durations", "times"),
    [
        ((300, 100, 100), None),
        ((301, 100, 100), "3.0"),
        ((950, 100, 100), "9.5"),
        ((300, 100), None),
        ((400, 100), "4.0"),
        ((500, 100, 200), "3.3"),
        ((450, 100, 200), None),
        ((100, 1000, 100), None),
        ((301, 100, 9999, 100), "3.0"),
        ((9999,), None),
        ((50, 0, 0), "inf"),
        ((0, 0, 0), None),
    ],
)
def test_a_first_step_of_over_three_times_the_median_of_the_others_is_a_warm_up(
    durations: tuple[int, ...], times: str | None
) -> None:
    found = said_of(*(100_000 * duration for duration in durations))
    assert codes(found) == ([] if times is None else ["warmup-caught"])
    if times is not None:
        assert f"ProfilerStep#0 took {times} times as long" in found[0].message


def test_what_recorders_add_to_the_first_short_step_is_no_warm_up() -> None:
    """A loop of 60 us a step: the first recorded one takes 0.8 ms, however many steps were skipped before."""
    assert said_of(860_000, 60_000, 60_000) == []


@pytest.mark.parametrize(
    "name",
    [
        "_compile.compile_inner (dynamo_timed)",
        "compile_fx.<locals>.fw_compiler_base (dynamo_timed)",
        "compile_fx_inner",
        "CompileTime:inductor",
    ],
)
def test_a_compilation_inside_the_window_is_a_warm_up(name: str) -> None:
    timeline = timeline_of(step(1), op(name, 5, 50), op(name, 60, 5))
    (found,) = window_findings(timeline, steps_of(timeline))
    assert (found.code, found.count) == ("warmup-caught", 2)


@pytest.mark.parametrize(
    "name",
    ["Torch-Compiled Region: 0/0", "## Call CompiledFxGraph abc ##", "CompiledFunction", "recompile me"],
)
def test_running_what_was_compiled_is_no_compilation(name: str) -> None:
    timeline = timeline_of(step(1), op(name, 5, 50))
    assert window_findings(timeline, steps_of(timeline)) == []


# --- several ranks ----------------------------------------------------------------------------------


def shifted(by_ns: int, *durations: int) -> tuple[Step, ...]:
    return tuple(Step(s.name, s.start_ns + by_ns, s.end_ns + by_ns) for s in in_a_row(*durations))


def test_ranks_with_the_same_steps_at_the_same_time_have_nothing_to_say() -> None:
    assert rank_step_findings({0: shifted(0, 9, 9), 1: shifted(3, 9, 9)}, "job") == []


@pytest.mark.parametrize("ranks", [{}, {0: shifted(0, 9)}, {0: shifted(0, 9), 1: ()}, {0: (), 1: ()}])
def test_fewer_than_two_ranks_with_steps_cannot_differ(ranks: dict[int, tuple[Step, ...]]) -> None:
    assert rank_step_findings(ranks, "job") == []


def test_ranks_whose_steps_differ_are_counted_and_two_are_shown() -> None:
    longer = shifted(0, 9, 9, 9)
    found = rank_step_findings({0: longer, 1: longer[1:], 2: longer[:1], 3: longer, 4: longer[:2]}, "job")
    assert [(one.code, one.path, one.count) for one in found] == [("steps-differ", "job", 3)]
    spans = "rank 0: ProfilerStep#0 to ProfilerStep#2, rank 1: ProfilerStep#1 to ProfilerStep#2, rank 2: ProfilerStep#0"
    assert f"({spans})" in found[0].message


@pytest.mark.parametrize(("gap_ns", "said"), [(-1, False), (0, False), (1, True)])
def test_a_step_that_begins_after_it_ended_elsewhere_shows_clocks_that_differ(
    gap_ns: int, said: bool
) -> None:
    found = rank_step_findings({0: shifted(0, 1000), 1: shifted(1000 + gap_ns, 1000)}, "job")
    assert codes(found) == ["clocks-differ"] * said


def test_of_steps_that_lie_apart_the_widest_gap_is_told() -> None:
    ranks = {
        0: (Step("ProfilerStep#1", 0, 1_000_000), Step("ProfilerStep#2", 1_000_000, 2_000_000)),
        1: (Step("ProfilerStep#1", 3_500_000, 4_000_000), Step("ProfilerStep#2", 9_000_000, 9_500_000)),
        2: (),
    }
    (found,) = rank_step_findings(ranks, "job")
    assert "ProfilerStep#2 of rank 1 begins 7.000 ms after that of rank 0 has ended" in found.message


def test_steps_that_differ_are_not_compared_in_time() -> None:
    found = rank_step_findings({0: shifted(0, 9), 1: shifted(5_000_000, 9, 9)}, "job")
    assert codes(found) == ["steps-differ"]


# --- Is it said which ranks of the world are missing, and where worlds differ ------------------------


@pytest.mark.parametrize(
    "worlds",
    [{}, {0: None}, {0: None, 7: None}, {0: 1}, {0: 2, 1: 2}, {0: 2, 1: None}],
    ids=str,
)
def test_a_whole_world_has_nothing_to_say(worlds: dict[int, int | None]) -> None:
    assert rank_findings(worlds, "job") == []


def lack(world_size: int, missing: int, ranks: str) -> tuple[str, int, dict[str, object]]:
    return "rank-missing", 1, {"world_size": world_size, "missing": missing, "ranks": ranks}


def beyond(world_size: int, rank: int, count: int = 1) -> tuple[str, int, dict[str, object]]:
    details = {"case": FindingCase.BEYOND_WORLD, "rank": rank, "world_size": world_size}
    return "world-differs", count, details


@pytest.mark.parametrize(
    ("worlds", "expected"),
    [
        pytest.param({0: 4, 2: None}, [lack(4, 2, "1, 3")], id="named"),
        pytest.param({0: 9}, [lack(9, 8, "1, 2, 3, 4, 5, 6, 7, 8")], id="eight"),
        pytest.param({0: 10}, [lack(10, 9, "1, 2, 3, 4, 5, 6, 7, 8, ...")], id="more than eight"),
        pytest.param(
            {0: 2, 1: 4}, [("world-differs", 1, {"sizes": "2, 4"}), lack(4, 2, "2, 3")], id="the larger world"
        ),
        pytest.param({0: 2, 1: 2, 2: 2, 5: None}, [beyond(2, 2, 2)], id="beyond the world"),
        pytest.param({3: 4}, [lack(4, 3, "0, 1, 2")], id="the last rank"),
        pytest.param({4: 4}, [beyond(4, 4), lack(4, 4, "0, 1, 2, 3")], id="behind the last rank"),
    ],
)
def test_ranks_are_held_against_the_world(
    worlds: dict[int, int | None], expected: list[tuple[str, int, dict[str, object]]]
) -> None:
    found = rank_findings(worlds, "job")
    assert [(one.code.value, one.count, dict(one.details)) for one in found] == expected


# --- Files of several runs in one folder, and Execution Traces that changed ranks, are found wi ------


BASE_S = 1_700_000_000


def lay_processes(
    folder: Path, rank: int, kineto_pid: int, et_pid: int, late_s: int = 0, **info: object
) -> None:
    folder.mkdir(exist_ok=True)
    events = [{**one, "pid": kineto_pid, "tid": kineto_pid} for one in EVENTS]
    header: Json = {
        "baseTimeNanoseconds": (BASE_S + late_s) * 10**9,
        "distributedInfo": {"rank": rank, "world_size": 2, **info},
    }
    write(folder / f"kineto_trace_{rank}.json", kineto_text(events, header))
    time = f"2023-11-14 22:{13 + (20 + late_s) // 60:02}:{(20 + late_s) % 60:02}"
    text = et_text(list(NODES)).replace('"pid": 1', f'"pid": {et_pid}')
    write(folder / f"torch_et_{rank}.json", text.replace("2023-11-14 22:13:20", time))


@pytest.mark.parametrize(
    ("ranks", "world", "expected", "links"),
    [
        pytest.param([(100, 100, 0), (101, 101, 1)], 2, [], True, id="one run, with clocks that differ"),
        pytest.param([(7, 7, 0), (7, 7, 0)], 2, [], True, id="containers number their processes alike"),
        pytest.param(
            [(100, 101, 0), (101, 100, 0)], 2, ["another-rank"] * 2, False, id="traces that changed ranks"
        ),
        # The Kineto trace of its process is there, under another rank.
        pytest.param(
            [(100, 100, 0), (101, 100, 0)], None, ["another-rank"], False, id="a world that no file tells"
        ),
        pytest.param([(100, 100, 0), (301, 301, 300)], 2, ["runs-mixed"], False, id="two runs"),
    ],
)
def test_files_are_of_one_run(
    tmp_path: Path, ranks: list[tuple[int, int, int]], world: int | None, expected: list[str], links: bool
) -> None:
    for rank, (kineto_pid, et_pid, late_s) in enumerate(ranks):
        lay_processes(tmp_path, rank, kineto_pid, et_pid, late_s, world_size=world)
    found = check(tmp_path)
    assert [code for code in codes(found) if code.startswith(("another", "runs"))] == expected
    assert found.links is links
    assert expected or ("clocks-differ" in codes(found)) == any(late for *_, late in ranks)


def test_ranks_of_two_runs_whose_groups_differ_are_found(tmp_path: Path) -> None:
    for rank, ranks in ((0, [0, 1]), (1, [0, 1, 2])):
        group = {"pg_name": "5", "pg_desc": "tp", "ranks": ranks, "pg_size": len(ranks)}
        lay_processes(tmp_path, rank, 100 + rank, 100 + rank, pg_config=[group])
    assert "runs-mixed" in codes(check(tmp_path))


@pytest.mark.parametrize(("pid", "expected"), [(100, []), (999, ["another-run", "another-run"])])
def test_a_manifest_of_another_process_is_found(tmp_path: Path, pid: int, expected: list[str]) -> None:
    lay_processes(tmp_path, 0, 100, 100, world_size=1)
    files = [{"path": one.name, "size_bytes": one.stat().st_size} for one in sorted(tmp_path.iterdir())]
    window = {"steps": [1], "complete": True, "failure": None, "files": files}
    told = {"steps_seen": 2, "ended_by": "exit", "pid": pid, "rank": 0, "windows": [window]}
    (tmp_path / "manifest_0.json").write_text(json.dumps(told))
    assert codes(check(tmp_path)) == expected
