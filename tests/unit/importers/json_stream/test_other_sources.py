"""Folders as other tools leave them: which files are traces, of which rank?"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.builders import Json, et_text, kineto_text, node, op, process_node, write
from tracebraid.errors import InputError
from tracebraid.importers.discovery.discover import find_rank_files, trace_files
from tracebraid.importers.discovery.sniff import rank_in_tail

ET = et_text([process_node(), node(2, "a", 1)])


def kineto(info: Json | None = None, tail: Json | None = None) -> str:
    return kineto_text([op("a", 1, 2)], header={"distributedInfo": info}, tail=tail)


def put(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        target = folder / "job" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        write(target, text)
    return folder / "job"


def pairs(folder: Path) -> tuple[list[tuple[int, str | None, str | None]], list[str]]:
    ranks, findings = find_rank_files(folder)
    name = lambda path: None if path is None else str(Path(path).relative_to(folder))  # noqa: E731
    return [(one.rank, name(one.kineto), name(one.et)) for one in ranks], [f.code for f in findings]


def test_torchtitan_leaves_a_folder_for_each_iteration(tmp_path: Path) -> None:
    job = put(tmp_path, {f"iteration_10/rank{rank}_trace.json": kineto() for rank in (0, 1)})
    expected = [(rank, f"iteration_10/rank{rank}_trace.json", None) for rank in (0, 1)]
    assert pairs(job) == (expected, [])
    assert [Path(path).name for path in trace_files([job])] == ["rank0_trace.json", "rank1_trace.json"]


@pytest.mark.parametrize("names", [("iteration_10", "iteration_20"), ("first", "second")])
def test_several_folders_of_traces_are_named_so_that_one_is_chosen(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    job = put(tmp_path, {f"{name}/rank0_trace.json": kineto() for name in names})
    with pytest.raises(InputError, match=rf"{names[0]}, {names[1]}.* Name one of them"):
        find_rank_files(job)
    assert pairs(job / names[1])[0] == [(0, "rank0_trace.json", None)]


def test_megatron_leaves_both_kinds_in_folders_beside_each_other(tmp_path: Path) -> None:
    files = {f"torch_profile/rank-{rank}.json.gz": kineto() for rank in (0, 1)}
    files |= {f"chakra/rank-{rank}.json.gz": ET for rank in (0, 1)}
    job = put(tmp_path, {**files, "tensorboard/events.out.tfevents.1.host": ""})
    expected = [
        (rank, f"torch_profile/rank-{rank}.json.gz", f"chakra/rank-{rank}.json.gz") for rank in (0, 1)
    ]
    assert pairs(job) == (expected, [])


def test_tensorboards_handler_names_host_process_and_time(tmp_path: Path) -> None:
    files = {
        f"node{n}_41{n}.169900000000{n}000000.pt.trace.json": kineto({"rank": n, "world_size": 2})
        for n in (0, 1)
    }
    job = put(tmp_path, {**files, "events.out.tfevents.1.host": ""})
    expected = [(n, f"node{n}_41{n}.169900000000{n}000000.pt.trace.json", None) for n in (0, 1)]
    assert pairs(job) == (expected, [])


def test_of_the_cycles_of_tensorboards_handler_the_last_written_is_used(tmp_path: Path) -> None:
    times = ("999999999999999999", "1699000000000000000", "1699000000500000000")
    job = put(tmp_path, {f"rank-0.{time}.pt.trace.json": kineto() for time in times})
    assert pairs(job) == ([(0, f"rank-0.{times[2]}.pt.trace.json", None)], ["rank-claimed-twice"])


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
@pytest.mark.parametrize("quoted", [False, True])
def test_on_demand_traces_tell_their_rank_behind_their_events(
    tmp_path: Path, suffix: str, quoted: bool
) -> None:
    def tail(rank: int) -> Json:
        return {
            "distributedInfo": {"backend": "nccl", "rank": str(rank) if quoted else rank, "world_size": 2}
        }

    job = put(tmp_path, {f"libkineto_{pid}{suffix}": kineto(tail=tail(pid - 70)) for pid in (70, 71)})
    expected = [(rank, f"libkineto_{70 + rank}{suffix}", None) for rank in (0, 1)]
    assert pairs(job) == (expected, [])


def test_a_rank_behind_the_events_is_found_in_large_and_in_damaged_files(tmp_path: Path) -> None:
    info = json.dumps({"distributedInfo": {"rank": 5}})[1:]
    text = '{"traceEvents": [' + " " * 700_000 + "], " + info
    plain = write(tmp_path / "a.json", text)
    packed = write(tmp_path / "a.json.gz", text)
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes(gzip.compress(text.encode())[:-12])
    assert [rank_in_tail(str(path)) for path in (plain, packed)] == [5, 5]
    assert rank_in_tail(str(cut)) in (5, None)
    assert rank_in_tail(str(write(tmp_path / "b.json", '{"traceEvents": [' + " " * 99))) is None


def test_what_capture_writes_beside_the_traces_is_no_trace(tmp_path: Path) -> None:
    ours = (
        "manifest_0.json",
        "torch_et_0_report.json",
        "torch_et_0.json.gz.orig",
        ".torch_et_1.json.gz.77.recording.part",
        ".hidden.json",
    )
    beside = dict.fromkeys(ours, "{}")
    job = put(tmp_path, {"torch_et_0.json.gz": ET, "kineto_trace_0.json.gz": kineto(), **beside})
    assert pairs(job) == ([(0, "kineto_trace_0.json.gz", "torch_et_0.json.gz")], [])


def test_an_nsys_export_stands_in_where_there_is_no_kineto_trace(tmp_path: Path) -> None:
    job = put(tmp_path, {"nsys_0.sqlite": "", "nsys_1.sqlite": "", "kineto_trace_1.json": kineto()})
    assert pairs(job) == (
        [(0, "nsys_0.sqlite", None), (1, "kineto_trace_1.json", None)],
        ["rank-claimed-twice"],
    )


def test_an_nsys_report_that_was_not_exported_is_said(tmp_path: Path) -> None:
    job = put(tmp_path, {"nsys_0.nsys-rep": "", "kineto_trace_0.json": kineto()})
    assert pairs(job)[1] == ["nsys-not-exported"]
    (job / "kineto_trace_0.json").unlink()
    with pytest.raises(InputError, match="nsys export --type sqlite"):
        find_rank_files(job)


def test_five_hundred_ranks_are_found_without_opening_a_file(tmp_path: Path) -> None:
    job = put(tmp_path, {"kineto_trace_0.json": "no trace at all"})
    for rank in range(1, 512):
        (job / f"kineto_trace_{rank}.json").symlink_to(job / "kineto_trace_0.json")
    ranks, findings = find_rank_files(job)
    assert (len(ranks), findings) == (512, ())


def test_an_empty_tree_of_folders_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(InputError, match="there is no trace in it"):
        find_rank_files(tmp_path)
