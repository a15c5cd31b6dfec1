"""Is each rank of a file of several ranks read with its own ids, and is no other file taken for one?"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import tracebraid
from tests.builders import Json, complete, flow, kineto_text, write
from tracebraid import analyses
from tracebraid.api.describing import infos
from tracebraid.errors import WrongTraceError
from tracebraid.importers import chunk_decoding, merged
from tracebraid.importers.discovery import find_rank_files
from tracebraid.importers.sampling import rank_origins
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.rank_files import RankOrigin

STEP_US = 1000
QUESTIONS = (analyses.breakdown, analyses.kernels, analyses.ops, analyses.steps)


def of_rank(op: str, kernel_us: float, host: int = 4000, device: int = 0, late_us: float = 0) -> list[Json]:
    """Two steps of three ops with a kernel each; correlations, External ids and flows begin at 1."""
    events = []
    for step in range(2):
        at = step * STEP_US + late_us
        events.append(complete(f"ProfilerStep#{step}", "user_annotation", at, STEP_US, host, 10))
        for i in range(3):
            number, start = step * 3 + i + 1, at + 100 + i * 200
            ids = {"correlation": number, "External id": number}
            of_kernel = {"device": device, "context": 1, "stream": 7, **ids}
            events += [
                complete(op, "cpu_op", start, 30, host, 10, {"External id": number}),
                complete("cudaLaunchKernel", "cuda_runtime", start + 10, 4, host, 10, {"cbid": 211, **ids}),
                complete(f"kernel of {op}", "kernel", start + 20, kernel_us, device, 7, of_kernel),
                flow("s", number, start + 10, host, 10),
                flow("f", number, start + 20, device, 7),
            ]
    events.append({"ph": "M", "name": "process_name", "pid": host, "tid": 0, "args": {"name": op}})
    return events


RANKS = [of_rank("aten::mm", 100), of_rank("aten::bmm", 50, 4001, 1, late_us=3)]


def labelled(events: list[Json], label: str, between: str = " ") -> list[Json]:
    return [{**event, "pid": f"{label}{between}{event['pid']}"} for event in events]


def renumbered(events: list[Json], first: int) -> list[Json]:
    """The events with correlations from another number on."""
    return [
        {**event, "args": {**event["args"], "correlation": event["args"]["correlation"] + first}}
        if "correlation" in event.get("args", {})
        else event
        for event in events
    ]


def file_of(path: Path, ranks: Sequence[list[Json]], labels: Sequence[str], **header: Any) -> Path:
    """A file as mergers write it: the events of one rank after the other, and behind them the header of the first."""
    events = [event for rank, label in zip(ranks, labels, strict=True) for event in labelled(rank, label)]
    return write(path, json.dumps({"traceEvents": events, **header}))


def files_of(folder: Path, ranks: Sequence[list[Json]]) -> Path:
    folder.mkdir()
    for number, events in enumerate(ranks):
        write(
            folder / f"kineto_trace_{number}.json", kineto_text(events, {"distributedInfo": {"rank": number}})
        )
    return folder


def plain_file(path: Path, events: list[Json]) -> Path:
    return write(path, json.dumps({"traceEvents": events}))


@pytest.mark.parametrize(
    ("labels", "stated", "ranks"),
    [
        pytest.param(["[TP00]", "[TP01]"], None, [0, 1], id="one axis"),
        pytest.param(["[TP08]", "[TP09]"], None, [8, 9], id="the second host"),
        pytest.param(["[TP00]", "[TP01]"], 4, [4, 5], id="the header states the rank of the first"),
        pytest.param(["[TP02]", "[TP03]"], 0, [0, 1], id="the header states a lower rank"),
        pytest.param(["[TP1]", "[TP10]"], None, [1, 10], id="a label that begins like another"),
        pytest.param(["[rank 3]", "[rank 1]"], 0, [3, 1], id="ranks, which the header does not move"),
        pytest.param(["[TP0 rank 7]", "[TP1 rank 6]"], None, [7, 6], id="ranks beside an axis"),
        pytest.param(["rank0", "rank1"], None, [0, 1], id="without brackets"),
        pytest.param(["[2]", "[5]"], None, [2, 5], id="bare numbers"),
        pytest.param(
            ["[TP01-DP01-PP00-EP01]", "[TP00-DP00-PP01-EP00]", "[TP00-DP00-PP00-EP00]"],
            None,
            [1, 2, 0],
            id="as SGLang labels them",
        ),
        pytest.param(
            ["[DP0/TP0/PP1]", "[DP1/TP0/PP0]", "[DP0/TP1/PP0]"],
            None,
            [2, 1, 0],
            id="the pipeline's stage first",
        ),
        pytest.param(["[Unknown]", "[Other]"], None, [0, 1], id="no number"),
    ],
)
def test_ranks_have_the_numbers_of_their_labels(
    labels: list[str], stated: int | None, ranks: list[int], tmp_path: Path
) -> None:
    header = {} if stated is None else {"distributedInfo": {"rank": stated, "world_size": 16}}
    path = file_of(tmp_path / "merged.json", RANKS[:1] * len(labels), labels, **header)
    found, findings = find_rank_files(path)
    assert {files.label: files.rank for files in found} == dict(zip(labels, ranks, strict=True))
    assert [files.rank for files in found] == sorted(ranks)
    assert [finding.code for finding in findings] == ["merged-ranks"]


@pytest.mark.parametrize("name", ["merged.json", "merged.trace.json.gz"])
@pytest.mark.parametrize("unreadable", ["raise", "skip"])
@pytest.mark.parametrize(
    "ranks",
    [
        pytest.param(RANKS, id="ids restart, a device each"),
        pytest.param([RANKS[0], of_rank("aten::bmm", 50)], id="ids restart, the same process and device"),
        pytest.param([RANKS[0], renumbered(RANKS[1], 100)], id="ids continue"),
        pytest.param([RANKS[0], RANKS[1], of_rank("aten::add", 7)], id="three ranks"),
    ],
)
def test_a_merged_file_answers_as_the_files_of_its_ranks(
    name: str, unreadable: str, ranks: list[list[Json]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_decoding, "CHUNK_BYTES", 2000)
    monkeypatch.setattr(merged, "_CHUNK_BYTES", 700)
    labels = [f"[TP{number:02d}]" for number in range(len(ranks))]
    header = {"distributedInfo": {"rank": 0, "world_size": len(ranks)}}
    job = tracebraid.open(file_of(tmp_path / name, ranks, labels, **header), unreadable=unreadable)
    apart = tracebraid.open(files_of(tmp_path / "apart", ranks), unreadable=unreadable)
    assert job.ranks == apart.ranks
    for own, expected in zip(job.ask(*QUESTIONS), apart.ask(*QUESTIONS), strict=True):
        assert own.equals(expected)
    for rank in job.ranks:
        for table in ("events", "flows", "lanes"):
            assert job[rank].timeline.tables[table].equals(apart[rank].timeline.tables[table])
        # What the files apart do not say: how many ranks there are.
        assert {finding.code for finding in job[rank].all_findings} <= {FindingCode.COMMUNICATION_UNSEEN}


def test_stores_caches_and_descriptions_keep_the_ranks_apart(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    path = file_of(folder / "merged.json", RANKS, ["[TP00]", "[TP01]"])
    expected = tracebraid.open(path).ask(*QUESTIONS)
    assert tracebraid.pack(folder, tmp_path / "store").packed == (0, 1)
    assert tracebraid.pack(folder, tmp_path / "store").kept == (0, 1)
    opened = [
        tracebraid.open(tmp_path / "store", unreadable="skip"),
        *(tracebraid.open(folder, cache=True) for _ in range(2)),
    ]
    for job in opened:
        assert all(own.equals(table) for own, table in zip(job.ask(*QUESTIONS), expected, strict=True))
    assert [ask(None).rank for ask in infos(path)] == [0, 1]
    for place in (path, folder, tmp_path / "store"):
        checked = tracebraid.check(place)
        assert [(rank.rank, rank.steps) for rank in checked.ranks] == [
            (rank, ("ProfilerStep#0", "ProfilerStep#1")) for rank in (0, 1)
        ]
        assert [diagnosis.finding.code for diagnosis in checked.diagnoses] == ["merged-ranks"]


def test_what_the_header_says_of_its_rank_holds_for_no_other(tmp_path: Path) -> None:
    groups = [
        {"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1], "pg_size": 2},
        {"pg_name": "1", "pg_desc": "tp", "ranks": [0], "pg_size": 1},
    ]
    info = {"rank": 0, "world_size": 2, "pg_config": groups}
    path = file_of(
        tmp_path / "m.json", RANKS, ["[TP00]", "[TP01]"], distributedInfo=info, host_name="a", with_stack=1
    )
    first, second = tracebraid.open(path)
    assert [linked.timeline.process_groups.get_column("pg_name").to_list() for linked in (first, second)] == [
        ["0", "1"],
        ["0"],
    ]
    assert [linked.timeline.header.get("host_name") for linked in (first, second)] == ["a", None]
    assert [linked.timeline.world_size for linked in (first, second)] == [2, 2]
    assert second.timeline.header["with_stack"] == 1
    assert rank_origins(find_rank_files(path)[0]) == [RankOrigin(0), RankOrigin(1)]


def test_a_single_word_in_brackets_is_the_name_of_a_process(tmp_path: Path) -> None:
    path = file_of(tmp_path / "kineto_trace_0.json", RANKS[:1], ["[bold]"])
    (files,), findings = find_rank_files(path)
    assert (files.rank, files.label, findings) == (0, "", ())
    assert tracebraid.open(path).ranks == [0]


def test_a_world_that_has_no_such_rank_is_unknown(tmp_path: Path) -> None:
    info = {"rank": 0, "world_size": 1}
    path = file_of(tmp_path / "m.json", RANKS, ["[DP0]", "[DP1]"], distributedInfo=info)
    assert [linked.timeline.world_size for linked in tracebraid.open(path)] == [1, None]


def test_events_of_no_rank_are_counted(tmp_path: Path) -> None:
    events = labelled(RANKS[0], "[TP00]") + of_rank("lost", 1)[:4]
    _, (finding,) = find_rank_files(plain_file(tmp_path / "m.json", events))
    assert finding.loss is not None
    assert finding.loss.at_least == 4


def test_files_of_the_ranks_go_before_a_merged_file(tmp_path: Path) -> None:
    folder = files_of(tmp_path / "job", RANKS)
    file_of(folder / "a.json", RANKS, ["[TP00]", "[TP01]"])
    found, findings = find_rank_files(folder)
    assert [(files.rank, files.label) for files in found] == [(0, ""), (1, "")]
    assert [(finding.code, finding.details["case"]) for finding in findings] == [
        ("merged-ranks", "merged-left-out")
    ]
    (folder / "kineto_trace_1.json").unlink()
    found, findings = find_rank_files(folder)
    assert [(files.rank, files.label) for files in found] == [(0, ""), (1, "[TP01]")]
    assert [finding.code for finding in findings] == ["merged-ranks", "rank-claimed-twice"]


def test_a_merged_file_is_not_read_as_one_rank(tmp_path: Path) -> None:
    path = file_of(tmp_path / "m.json", RANKS, ["[TP00]", "[TP01]"])
    with pytest.raises(WrongTraceError, match=r"2 ranks: \[TP00\], \[TP01\]"):
        tracebraid.read_timeline(path)
    # A name that states a rank is believed, so that the file is not opened to list it.
    with pytest.raises(WrongTraceError, match="name without a rank"):
        tracebraid.open(path.rename(tmp_path / "kineto_trace_0.json"))[0]


COLLECTIVE = {"Collective name": "allreduce", "Process Group Name": "0"}


@pytest.mark.parametrize(
    ("ranks", "is_told_apart"),
    [
        pytest.param(RANKS, False, id="ids collide"),
        pytest.param([RANKS[0], renumbered(RANKS[1], 100)], True, id="each device has work of one process"),
        pytest.param([[{**e, "pid": n} for e in RANKS[n]] for n in (0, 1)], True, id="a process for a rank"),
        pytest.param(
            [[e for e in rank if e.get("cat") in ("cpu_op", "user_annotation")] for rank in RANKS],
            True,
            id="steps, without a device",
        ),
        pytest.param(
            [[complete("c10d::allreduce_", "cpu_op", 1, 5, pid, 1, COLLECTIVE)] for pid in (4000, 4001)],
            True,
            id="communication",
        ),
        pytest.param(
            [[e for e in rank if not e["name"].startswith("ProfilerStep")] for rank in RANKS],
            False,
            id="launches",
        ),
    ],
)
def test_processes_with_a_program_each_are_refused(
    ranks: list[list[Json]], is_told_apart: bool, tmp_path: Path
) -> None:
    path = plain_file(tmp_path / "trace.json", [event for rank in ranks for event in rank])
    with pytest.raises(WrongTraceError, match="2 processes that each run a program") as caught:
        tracebraid.open(path)[0]
    assert ("jq -c" in caught.value.advice) == is_told_apart


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_the_advised_command_makes_a_file_of_ranks(tmp_path: Path) -> None:
    path = plain_file(tmp_path / "trace.json", [*RANKS[0], *renumbered(RANKS[1], 100)])
    with pytest.raises(WrongTraceError) as caught:
        tracebraid.read_timeline(path)
    command = caught.value.advice.partition("label them: ")[2]
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    apart = tracebraid.open(files_of(tmp_path / "apart", RANKS))
    for own, expected in zip(
        tracebraid.open(tmp_path / "merged.json").ask(*QUESTIONS), apart.ask(*QUESTIONS), strict=True
    ):
        assert own.equals(expected)


WORKER = [
    complete("aten::stack", "cpu_op", 50 + 10 * n, 5, 4500, 4500, {"External id": n + 1}) for n in range(6)
]


def other(name: str, cat: str = "cuda_runtime", pid: Any = 4500) -> Json:
    """An event of another process with a correlation of the first one."""
    return complete(name, cat, 60, 2, pid, pid, {"correlation": 1, "External id": 1})


@pytest.mark.parametrize(
    "others",
    [
        pytest.param(WORKER, id="a worker that loads data"),
        pytest.param([*WORKER, other("cudaGetDeviceCount")], id="a forked child that asks for devices"),
        pytest.param([other("cudaLaunchKernel")], id="calls under another number of the process"),
        pytest.param(of_rank("aten::mm", 9, 4000, 1)[5:8], id="a second device"),
        pytest.param([other("r", "user_annotation")], id="an annotation elsewhere"),
        pytest.param(
            [complete("PyTorch Profiler (0)", "Trace", 0, 9, "Spans", "PyTorch Profiler")], id="the spans"
        ),
        pytest.param([{"ph": "C", "name": "u", "pid": "GPU 0 Counters", "ts": 1, "args": {}}], id="counters"),
        pytest.param([complete("[TP00] 4000", "cpu_op", 50, 1, 4000, 11)], id="a name like a label"),
        pytest.param(
            [complete("op", "cpu_op", 50, 1, 4000, 11, {"text": '"pid": "[TP00] 1"'})],
            id="a text like a label",
        ),
    ],
)
def test_ordinary_traces_stay_one_rank(others: list[Json], tmp_path: Path) -> None:
    path = write(tmp_path / "trace.json", kineto_text([*RANKS[0], *others]))
    job = tracebraid.open(path)
    assert job.ranks == [0]
    assert job.findings == ()
    assert job[0].timeline.findings == ()
