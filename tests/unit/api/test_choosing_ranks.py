"""Jobs that are opened with some of their ranks say so, and have no other rank."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import tracebraid
from tests.builders import kineto_text, op
from tracebraid.model.finding import FindingCase
from tracebraid.model.finding_code import FindingCode

RANKS = 24
HOSTS = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("ranks")
    for rank in random.Random(1).sample(range(RANKS), RANKS):
        header = {"distributedInfo": {"rank": rank, "world_size": RANKS}, "host_name": f"node{rank % HOSTS}"}
        (made / f"kineto_trace_{rank}.json").write_text(kineto_text([op("aten::add", 0, 5)], header))
    (made / "torch_et_3.json").write_text('{"nodes": []}')
    return made


def codes(job: tracebraid.Job) -> list[FindingCode]:
    return [finding.code for finding in job.findings]


@pytest.mark.parametrize("ranks", ["5,0,8-10", [10, 9, 8, 5, 0, 0], range(8, 11)])
def test_a_job_has_the_ranks_that_are_listed_in_their_order(folder: Path, ranks: Any) -> None:
    job = tracebraid.open(folder, ranks=ranks)
    assert job.ranks == [rank for rank in (0, 5, 8, 9, 10) if rank in (*ranks,) or isinstance(ranks, str)]
    (finding,) = [found for found in job.findings if found.code is FindingCode.RANKS_CHOSEN]
    assert (finding.details["selected"], finding.details["ranks"]) == (len(job.ranks), RANKS)


def test_findings_about_other_ranks_are_left_out(folder: Path) -> None:
    assert codes(tracebraid.open(folder)).count(FindingCode.NO_ET) == RANKS - 1
    assert codes(tracebraid.open(folder, ranks="3,4")).count(FindingCode.NO_ET) == 1


def test_a_list_of_all_ranks_and_a_sample_of_all_are_the_whole_job(folder: Path) -> None:
    whole = tracebraid.open(folder)
    assert tracebraid.open(folder, ranks=f"0-{RANKS - 1}").findings == whole.findings
    assert tracebraid.open(folder, sample=RANKS + 5).findings == whole.findings
    assert FindingCode.RANKS_CHOSEN not in codes(whole)


def test_a_sample_has_its_share_of_each_host_and_says_how_it_was_taken(folder: Path) -> None:
    job = tracebraid.open(folder, sample=12)
    assert [rank % HOSTS for rank in job.ranks].count(2) == 2
    assert sorted({rank % HOSTS for rank in job.ranks}) == list(range(HOSTS))
    assert (job.ranks[0], job.ranks[-1]) == (0, RANKS - 1)
    (finding,) = [found for found in job.findings if found.code is FindingCode.RANKS_CHOSEN]
    assert finding.details["case"] is FindingCase.SAMPLED_BY_HOST


def test_the_order_of_files_does_not_matter(folder: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    copied.mkdir()
    for file in sorted(folder.iterdir(), reverse=True):
        shutil.copy(file, copied)
    assert tracebraid.open(copied, sample=7).ranks == tracebraid.open(folder, sample=7).ranks


def test_a_rank_that_is_not_there_is_an_error_that_names_those_that_are(folder: Path) -> None:
    with pytest.raises(tracebraid.ArgumentError, match="rank 24-30, 99; it has ranks 0-23"):
        tracebraid.open(folder, ranks="0,20-30,99")


def test_a_rank_that_was_not_asked_for_is_not_said_to_be_missing(folder: Path) -> None:
    with pytest.raises(tracebraid.ArgumentError, match="without rank 4: only with ranks 0, 1"):
        tracebraid.open(folder, ranks="0,1")[4]


@pytest.mark.parametrize(
    ("ranks", "sample", "problem"),
    [
        ("0", 3, "contradict"),
        (None, 0, "1 rank at least"),
        ("", None, "no list of ranks"),
        ([], None, "no rank is given"),
        ([1, -1], None, "-1 is no rank"),
        ([True], None, "True is no rank"),
        (["1"], None, "'1' is no rank"),
    ],
)
def test_choices_that_make_no_sense_are_errors(
    folder: Path, ranks: str | Iterable[int] | None, sample: int | None, problem: str
) -> None:
    with pytest.raises(tracebraid.ArgumentError, match=problem):
        tracebraid.open(folder, ranks=ranks, sample=sample)


@pytest.mark.full
@pytest.mark.slow
def test_a_store_gives_the_same_sample_and_packs_ranks_by_and_by(folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "job.tbstore"
    assert tracebraid.pack(folder, store, ranks="0-3").packed == (0, 1, 2, 3)
    partly = tracebraid.open(store)
    assert partly.ranks == [0, 1, 2, 3]
    assert FindingCode.STORE_INCOMPLETE in codes(partly)
    packed = tracebraid.pack(folder, store)
    assert (packed.kept, len(packed.packed)) == ((0, 1, 2, 3), RANKS - 4)
    job, traces = tracebraid.open(store, sample=12), tracebraid.open(folder, sample=12)
    assert (job.ranks, job.findings) == (traces.ranks, traces.findings)
    assert tracebraid.open(store, ranks="5").ranks == [5]
    with pytest.raises(tracebraid.ArgumentError, match="rank 24"):
        tracebraid.pack(folder, store, ranks="24")
