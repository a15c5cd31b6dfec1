"""`tracebraid chakra generate`: whole folders or none, and wrong usage that says what to do."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import tracebraid
from tests.integration.command import run
from tests.integration.running import run_command
from tests.unit.chakra.generating.synthetic import GOLDEN, deps_of, small_jobs
from tracebraid.chakra.generating.generate import comm_groups, generated_ranks
from tracebraid.chakra.wire.reading import read_rank
from tracebraid.errors import ArgumentError, OutputError

DEGREES = ["--data", "2", "--tensor", "2", "--pipeline", "2", "--expert", "2", "--experts", "4"]


def test_a_chain_is_written(tmp_path: Path) -> None:
    out = tmp_path / "chain"
    done = run_command(
        *(sys.executable, "-m", "tracebraid", "chakra", "generate", "chain"),
        *("--chain", GOLDEN, "--ranks", "4", "-o", out),
    )
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in out.iterdir()) == [
        "comm_groups.json",
        *(f"job.{n}.et" for n in range(4)),
    ]
    assert json.loads((out / "comm_groups.json").read_bytes()) == {}
    rank = read_rank(out / "job.2.et")
    assert rank.rank == 2
    assert rank.nodes.get_column("duration_micros").to_list() == [100, 0, 50]


@pytest.mark.parametrize("name", ["all_sharded_16", "tree-all-reduce_5"])
def test_files_hold_what_was_generated(name: str, tmp_path: Path) -> None:
    job = small_jobs()[name]
    done = tracebraid.generate_chakra(job, tmp_path / "job", prefix="t")
    again = tracebraid.generate_chakra(job, tmp_path / "again", prefix="t")
    assert done.ranks == job.ranks
    assert done.size_bytes == sum(path.stat().st_size for path in done.path.iterdir())
    assert json.loads((done.path / "comm_groups.json").read_bytes()) == comm_groups(job)
    for rank in generated_ranks(job):
        path = done.path / f"t.{rank.rank}.et"
        assert path.read_bytes() == (again.path / path.name).read_bytes()
        found = read_rank(path)
        assert found.findings == ()
        assert found.attributes == rank.attributes
        assert found.nodes.rows() == rank.nodes.rows()
        assert list(deps_of(found)) == list(deps_of(rank))


def test_a_transformer_s_options_are_used(tmp_path: Path) -> None:
    small = ["--layers", "4", "--hidden", "64", "--heads", "4", "--vocab", "128", "--sequence", "32"]
    done = run(
        "chakra", "generate", "transformer", *small, *DEGREES, "--steps", "2", "-o", str(tmp_path / "out")
    )
    assert done.returncode == 0, done.stderr
    assert "16 ranks" in done.stderr
    workload = dict(read_rank(tmp_path / "out" / "job.15.et").attributes)["workload"]
    assert "hidden=64" in str(workload)
    assert "steps=2" in str(workload)


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing", "--ranks", "4"],
        ["chain", "--ranks", "4"],
        ["chain", "--chain", "RUN", "--ranks", "4"],
        ["chain", "--chain", GOLDEN],
        ["chain", "--chain", GOLDEN, "--ranks", "1"],
        ["chain", "--chain", GOLDEN, "--ranks", "4", "--layers", "2"],
        ["ring-all-reduce", "--ranks", "4", "--chain", GOLDEN],
        ["ring-all-reduce", "--ranks", "4", "--size", "3"],
        ["ring-all-reduce", "--ranks", "4", "--size", "-1"],
        ["transformer"],
        ["transformer", "--ranks", "4"],
        ["transformer", "--tensor", "3"],
        ["transformer", "--tensor", "0"],
        ["transformer", "--data", "2", "--device", "abacus"],
        ["transformer", "--data", "2", "--device", "V100 SXM2 32GB", "--precision", "fp8"],
        ["transformer", "--data", "2", "--efficiency", "2"],
        ["transformer", "--data", "2", "--prefix", "../x"],
    ],
    ids=" ".join,
)
def test_wrong_usage_writes_nothing(arguments: list[str], tmp_path: Path) -> None:
    done = run("chakra", "generate", *arguments, "-o", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "Error" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_kept(tmp_path: Path) -> None:
    with pytest.raises(OutputError):
        tracebraid.generate_chakra(small_jobs()["golden"], tmp_path)
    with pytest.raises(ArgumentError):
        tracebraid.generate_chakra(small_jobs()["golden"], tmp_path / "out", prefix="a/b")
    assert list(tmp_path.iterdir()) == []
