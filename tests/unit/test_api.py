"""The public interface: one function per stage."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.builders import call, et_text, kernel, kineto_text, node, op, write
from tests.unit.linking.made import et_of
from tracebraid import analyses
from tracebraid.analysis.kernels.kernels import KERNELS
from tracebraid.analysis.time.breakdown import BREAKDOWN
from tracebraid.analysis.time.step_times import STEPS
from tracebraid.model.answers.ops import OPS
from tracebraid.model.column import Table

Question = Callable[[tracebraid.Job | tracebraid.LinkedTrace], pl.DataFrame]

EVENTS = [
    op("ProfilerStep#1", 0, 100, cat="user_annotation", Record_function_id=4),
    op("mm", 10, 50, Record_function_id=5),
    call("launch", 20, 5, 7),
    kernel("gemm", 40, 10, 7),
]
NODES = et_of(node(19, "ProfilerStep#1", 1001, rf_id=4), node(20, "mm", 19, rf_id=5))


def pair(folder: Path, rank: int = 0, suffix: str = ".json") -> tuple[Path, Path]:
    header = {"distributedInfo": {"rank": rank, "world_size": 2}}
    et = write(folder / f"torch_et_{rank}{suffix}", et_text(NODES))
    return et, write(folder / f"kineto_trace_{rank}{suffix}", kineto_text(EVENTS, header))


def run(code: str, *arguments: object) -> str:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.full
def test_every_public_function_stays_callable_after_use(tmp_path: Path) -> None:
    """Loading a name lazily also loads rooms, and a room of the same name must not take its place."""
    code = (
        "import sys, tracebraid\n"
        "MODULES = 'analyses chakra errors plugins results __version__'.split()\n"
        "for _ in range(2):\n"
        "    tracebraid.link(*sys.argv[1:])\n"
        "    for name in tracebraid.__all__:\n"
        "        value = getattr(tracebraid, name)\n"
        "        assert callable(value) or name in MODULES, name\n"
        "print('fine')"
    )
    assert run(code, *pair(tmp_path)) == "fine\n"


@pytest.mark.full
def test_link_is_a_function_whatever_was_imported_before(tmp_path: Path) -> None:
    code = "import sys, tracebraid.api.traces; print(tracebraid.link(*sys.argv[1:]).coverage.host_ops.linked)"
    assert run(code, *pair(tmp_path)) == "2\n"
    code = "import sys, tracebraid; tracebraid.demo_path(); print(tracebraid.link(*sys.argv[1:]).rank)"
    assert run(code, *pair(tmp_path)) == "0\n"


def test_link_takes_paths_or_traces_read_before(tmp_path: Path) -> None:
    et, kineto = pair(tmp_path)
    by_path = tracebraid.link(str(et), kineto)
    by_trace = tracebraid.link(tracebraid.read_execution_trace(et), tracebraid.read_timeline(kineto))
    assert by_path.host_links.equals(by_trace.host_links)
    assert by_path.coverage == by_trace.coverage


def test_link_takes_a_kineto_trace_alone(tmp_path: Path) -> None:
    linked = tracebraid.link(None, pair(tmp_path)[1])
    assert linked.et is None
    assert linked.coverage.gpu_events.linked == 1


def test_link_refuses_traces_that_changed_places(tmp_path: Path) -> None:
    et, kineto = pair(tmp_path)
    with pytest.raises(tracebraid.errors.WrongTraceError, match="Kineto trace"):
        tracebraid.link(kineto, et)


def test_a_folder_opens_as_a_job_of_its_ranks(tmp_path: Path) -> None:
    pair(tmp_path, 0)
    pair(tmp_path, 1, ".json.gz")
    job = tracebraid.open(tmp_path)
    assert (job.ranks, len(job), job.findings) == ([0, 1], 2, ())
    assert [linked.rank for linked in job] == [0, 1]
    assert job[1].coverage.host_ops.share == 1.0


def test_a_job_reads_a_rank_when_it_is_asked_for(tmp_path: Path) -> None:
    pair(tmp_path, 0)
    pair(tmp_path, 1)
    (tmp_path / "kineto_trace_1.json").write_text("damaged")
    job = tracebraid.open(tmp_path)
    assert job[0].rank == 0
    with pytest.raises(tracebraid.InputError, match="kineto_trace_1"):
        job[1]


def test_a_job_keeps_a_rank_that_was_read(tmp_path: Path) -> None:
    pair(tmp_path)
    job = tracebraid.open(tmp_path)
    assert job[0] is job[0]


def test_a_rank_that_is_not_there_is_an_error_that_names_those_that_are(tmp_path: Path) -> None:
    pair(tmp_path)
    with pytest.raises(tracebraid.ArgumentError, match="rank 5; it has ranks 0"):
        tracebraid.open(tmp_path)[5]


def test_one_kineto_file_opens_as_a_job_of_one_rank(tmp_path: Path) -> None:
    kineto = pair(tmp_path, 3)[1]
    job = tracebraid.open(kineto)
    assert job.ranks == [3]
    assert job[3].et is None


def test_an_execution_trace_alone_is_no_job(tmp_path: Path) -> None:
    with pytest.raises(tracebraid.InputError, match="Execution Trace, which has no times"):
        tracebraid.open(pair(tmp_path)[0])


def test_a_folder_without_traces_is_no_job(tmp_path: Path) -> None:
    with pytest.raises(tracebraid.InputError, match="no trace in it"):
        tracebraid.open(tmp_path)


QUESTIONS = [
    (analyses.breakdown, BREAKDOWN),
    (analyses.kernels, KERNELS),
    (analyses.ops, OPS),
    (analyses.steps, STEPS),
]


@pytest.mark.parametrize(("question", "declared"), QUESTIONS)
def test_a_job_is_answered_by_the_answers_of_its_ranks(
    tmp_path: Path, question: Question, declared: Table
) -> None:
    pair(tmp_path, 0)
    pair(tmp_path, 1)
    job = tracebraid.open(tmp_path)
    table = question(job)
    assert dict(table.schema) == declared.polars_schema()
    assert table.equals(pl.concat([question(job[0]), question(job[1])]))
    assert table.get_column("rank").unique().sort().to_list() == [0, 1]


@pytest.mark.parametrize(("question", "declared"), QUESTIONS)
def test_a_job_of_empty_traces_has_empty_answers(tmp_path: Path, question: Question, declared: Table) -> None:
    write(tmp_path / "kineto_trace_0.json", kineto_text([]))
    table = question(tracebraid.open(tmp_path))
    assert table.is_empty()
    assert dict(table.schema) == declared.polars_schema()


def test_another_annotation_marks_steps_in_every_answer(tmp_path: Path) -> None:
    linked = tracebraid.link(*pair(tmp_path))
    assert analyses.steps(linked.with_annotation("mm")).get_column("step").to_list() == ["mm"]
    assert analyses.breakdown(linked.with_annotation("mm")).get_column("step").to_list() == [None, "mm"]
    assert analyses.kernels(linked.with_annotation("mm"), True).get_column("step").to_list() == ["mm"]
    assert "mm" in analyses.ops(linked.with_annotation("mm"), True).get_column("step").to_list()


def test_info_tells_either_kind_of_file(tmp_path: Path) -> None:
    et, kineto = pair(tmp_path, 1, ".json.gz")
    assert (
        tracebraid.info(et).kind,
        tracebraid.info(et).rank,
        tracebraid.info(et).counts["operator nodes"],
    ) == (
        "execution-trace",
        1,
        2,
    )
    found = tracebraid.info(kineto)
    assert (found.kind, found.rank, found.world_size) == ("kineto-trace", 1, 2)
    assert found.steps == ("ProfilerStep#1",)
    assert found.counts["cpu_op"] == 1
    assert found.span_ns == 100_000


@pytest.mark.full
@pytest.mark.parametrize("index", [0, 1])
def test_info_reads_standard_input(tmp_path: Path, index: int) -> None:
    code = "import tracebraid; print(tracebraid.info('-').kind)"
    with pair(tmp_path)[index].open("rb") as stream:
        done = subprocess.run([sys.executable, "-c", code], stdin=stream, capture_output=True, check=False)
    assert done.stdout.decode().strip() == ("execution-trace", "kineto-trace")[index], done.stderr.decode()


def test_the_demo_is_two_ranks_that_link_in_full(demo: Path) -> None:
    job = tracebraid.open(demo)
    assert job.ranks == [0, 1]
    assert [linked.coverage.share for linked in job] == [1.0, 1.0]
