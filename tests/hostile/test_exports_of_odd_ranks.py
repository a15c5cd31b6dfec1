"""Exports of jobs of which a rank can be read in part only: it is left out, and what is said is why."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracebraid
from tests.builders import et_text, node, process_node, thread_node, write
from tests.planted import PlannedJob
from tracebraid.api import ChakraOptions, ExportOptions
from tracebraid.errors import InputError
from tracebraid.model.finding_code import FindingCode


@pytest.fixture
def another_program(tmp_path: Path) -> Path:
    """Two ranks; the Execution Trace of rank 1 is of another program."""
    job = PlannedJob(2)
    with job.step(1):
        for _ in range(30):
            job.compute(10_000)
        job.collective(transfer=50_000)
    folder = tmp_path / "job"
    folder.mkdir()
    job.write(folder)
    strange = [node(3 + number, f"strange::op{number}", 2, rf_id=0) for number in range(40)]
    write(folder / "torch_et_1.json", et_text([process_node(), thread_node(), *strange]))
    return folder


@pytest.mark.parametrize("to", ["chrome", "perfetto"])
def test_a_timeline_leaves_out_a_rank_with_the_trace_of_another_program(
    another_program: Path, tmp_path: Path, to: str
) -> None:
    done = tracebraid.export(tracebraid.open(another_program), tmp_path / "made", to)
    left_out = [found for found in done.findings if found.code is FindingCode.RANK_UNREADABLE]
    assert [Path(found.path).name for found in left_out] == ["torch_et_1.json"]


def test_chakra_nodes_of_a_rank_with_the_trace_of_another_program_are_refused_by_its_name(
    another_program: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        tracebraid.export(tracebraid.open(another_program), tmp_path / "made", "chakra")
    assert Path(caught.value.path).name == "torch_et_1.json"
    assert not (tmp_path / "made").exists()


def test_chakra_nodes_of_steps_that_a_rank_lacks_are_refused_by_its_name(tmp_path: Path) -> None:
    job = PlannedJob(2, windows={1: (2, 3)})
    for number in (1, 2, 3):
        with job.step(number):
            job.compute(100_000)
            job.collective(transfer=50_000)
    options = ExportOptions(chakra=ChakraOptions(steps="1"))
    with pytest.raises(InputError) as caught:
        tracebraid.export(tracebraid.open(job.write(tmp_path)), tmp_path / "made", "chakra", options)
    assert Path(caught.value.path).name == "kineto_trace_1.json"
