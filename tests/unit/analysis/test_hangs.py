"""Hangs: communication that never ended, who waits for it and who is missing; and what is no hang."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tracebraid
from tests.builders import Json, call, kernel, kineto_text, op, write
from tests.cases import cases
from tracebraid import analyses
from tracebraid.model.answers.job import HangState
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.gaps import Gap

S = 1_000_000
"""A second in the µs of a trace."""
WAITS, NOT_ISSUED, ENDED, NOT_IN_TRACES = (state.value for state in HangState)


def comms(number: int | None, ranks: int) -> Json:
    """The arguments of an all-reduce."""
    found: Json = {
        "Collective name": "allreduce",
        "In msg nelems": 1024,
        "Out msg nelems": 1024,
        "dtype": "Float",
        "Group size": ranks,
        "Process Group Name": "0",
        "Process Group Ranks": str(list(range(ranks))),
    }
    return found if number is None else {**found, "Seq": number}


def on_device(
    ended: int, issued: int, *, ranks: int = 4, until: float = 0, numbered: bool = True
) -> list[Json]:
    """All-reduces of NCCL, one each ms, of which the first ended; the host waits for the device until the end."""
    events: list[Json] = []
    for i in range(issued):
        args = comms(i if numbered else None, ranks)
        events.append(op("record_param_comms", 1000 * i, 20, **args))
        events.append(call("cudaLaunchKernelExC", 1000 * i + 5, 5, i + 1))
        if i < ended:
            events.append(
                kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1000 * i + 100, 200, i + 1, **args)
            )
    if until:
        begin = 1000 * issued
        events.append(call("cudaDeviceSynchronize", begin, until - begin, 1000))
    return events


def on_host(lengths: Sequence[float]) -> list[Json]:
    """All-reduces of gloo, each of so many µs."""
    events: list[Json] = []
    at = 0.0
    for length in lengths:
        events += [op("c10d::allreduce_", at, 20), op("gloo:all_reduce", at + 30, length, tid=2)]
        at += length + 100
    return events


def written(folder: Path, ranks: dict[int, list[Json]], world: int = 4) -> Path:
    """A folder of traces of a job."""
    groups = [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": world, "ranks": list(range(world))}]
    for rank, events in ranks.items():
        info = {"rank": rank, "world_size": world, "backend": "nccl", "pg_config": groups}
        write(folder / f"kineto_trace_{rank}.json", kineto_text(events, {"distributedInfo": info}))
    return folder


HANGS = {
    "a rank never issues it": (
        {rank: on_device(10, 11, until=600 * S) for rank in range(3)} | {3: on_device(10, 10)},
        [(0, WAITS), (1, WAITS), (2, WAITS), (3, NOT_ISSUED)],
        (10, 9),
    ),
    "without numbers": (
        {rank: on_device(10, 11, until=600 * S, numbered=False) for rank in range(3)}
        | {3: on_device(10, 10, numbered=False)},
        [(0, WAITS), (1, WAITS), (2, WAITS), (3, NOT_ISSUED)],
        (None, None),
    ),
    "what was launched behind it waits too": (
        {rank: on_device(10, 13, until=600 * S) for rank in range(3)} | {3: on_device(10, 10, until=599 * S)},
        [(0, WAITS), (1, WAITS), (2, WAITS), (3, NOT_ISSUED)],
        (10, 9),
    ),
    "all issued it": (
        {rank: on_device(10, 11, until=600 * S) for rank in range(4)},
        [(0, WAITS), (1, WAITS), (2, WAITS), (3, WAITS)],
        (10, 9),
    ),
    "a rank whose trace is not here": (
        {rank: on_device(10, 11, until=600 * S) for rank in range(2)} | {2: on_device(10, 10)},
        [(0, WAITS), (1, WAITS), (2, NOT_ISSUED), (3, NOT_IN_TRACES)],
        (10, 9),
    ),
    "gloo, until its timeout": (
        {rank: on_host([500] * 5 + [1800 * S]) for rank in range(3)} | {3: on_host([500] * 5)},
        [(0, WAITS), (1, WAITS), (2, WAITS), (3, NOT_ISSUED)],
        (None, None),
    ),
}


@cases("ranks, states, numbers", HANGS)
def test_a_hang_names_who_waits_and_who_is_missing(
    ranks: dict[int, list[Json]],
    states: list[tuple[int, str]],
    numbers: tuple[int | None, int | None],
    tmp_path: Path,
) -> None:
    folder = written(tmp_path, ranks)
    found = analyses.hangs(tracebraid.open(folder))
    assert found.select("rank", "state").rows() == states
    assert found.row(0, named=True)["type"] == "all_reduce"
    assert (found.item(0, "sequence"), found.item(0, "last_sequence")) == numbers
    waiting = found.filter(found["state"] == WAITS)
    assert min(waiting["waited_ns"].to_list()) > 500 * S * 1000
    assert waiting["event_id"].null_count() == 0
    others = found.filter(found["state"] != WAITS)
    assert others["waited_ns"].null_count() == others.height
    [said] = [
        d.finding for d in tracebraid.check(folder).diagnoses if d.finding.code is FindingCode.NEVER_ENDED
    ]
    missing = [rank for rank, state in states if state == NOT_ISSUED]
    assert ("did not issue" in said.message) == bool(missing)
    assert all(f"which rank {rank} did not" in said.message for rank in missing)


NO_HANGS = {
    "all ended": {rank: on_device(10, 10, until=600 * S) for rank in range(4)},
    "in flight when the recording stops": {
        rank: on_device(10, 11 if rank < 3 else 10, until=14_000) for rank in range(4)
    },
    "a late rank, for which all waited": {
        rank: on_host([500] * 5 + [20 * S if rank < 3 else 400]) for rank in range(4)
    },
    "long ones, as all of them are": {rank: on_host([6 * S] * 3) for rank in range(3)}
    | {3: on_host([6 * S] * 2)},
}


@cases("ranks", NO_HANGS)
def test_what_ended_or_was_in_flight_is_no_hang(ranks: dict[int, list[Json]], tmp_path: Path) -> None:
    folder = written(tmp_path, ranks)
    job = tracebraid.open(folder)
    assert analyses.hangs(job).is_empty()
    assert not any(
        found.gap is Gap.NEVER_ENDED for gaps in job.each(lambda linked: linked.gaps) for found in gaps
    )


def test_a_rank_alone_says_that_its_communication_never_ended(tmp_path: Path) -> None:
    path = write(tmp_path / "trace.json", kineto_text(on_device(10, 11, until=600 * S)))
    [gaps] = tracebraid.open(path).each(lambda linked: linked.gaps)
    [found] = [gap for gap in gaps if gap.gap is Gap.NEVER_ENDED]
    assert found.count == 1
    assert "a hang" in found.finding.message
