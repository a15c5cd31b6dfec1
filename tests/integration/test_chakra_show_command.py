"""`tracebraid chakra show`: new files by their ending, and wrong usage that says what to do."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import tracebraid
from tests.integration.command import run, run_process
from tests.unit.chakra.generating.synthetic import transformer
from tests.unit.chakra.showing.made_rank import made_rank
from tracebraid.chakra.generating.generate import generated_ranks
from tracebraid.chakra.wire.writing import write_rank
from tracebraid.errors import ArgumentError, InputError, OutputError
from tracebraid.model.chakra.workloads import Parallelism, TrainingSteps


@pytest.fixture
def et(tmp_path: Path) -> Path:
    path = tmp_path / "made.0.et"
    write_rank(path, made_rank())
    return path


@pytest.mark.parametrize("name", ["g.svg", "g.dot", "g.gv", "g.graphml", "g.svg.gz"])
def test_the_ending_says_the_form(name: str, et: Path) -> None:
    shown = tracebraid.show_chakra(et, et.with_name(name))
    data = shown.path.read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    assert text.startswith(
        {".svg": "<svg", ".graphml": "<?xml"}.get(Path(name.removesuffix(".gz")).suffix, "digraph")
    )
    assert (shown.nodes, shown.nodes_of_file) == (11, 11)


def test_a_part_is_shown(et: Path) -> None:
    out = et.with_name("part.svg")
    done = run_process("chakra", "show", et, "--node", 13, "--near", 1, "--step", "0", "-o", out)
    assert done.returncode == 0, done.stderr
    assert "7 of 11 nodes" in done.stderr
    again = et.with_name("again.svg")
    assert run("chakra", "show", et, "--node", 13, "--near", 1, "--step", "0", "-o", again).returncode == 0
    assert out.read_bytes() == again.read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        ["--node", "1"],
        ["--step", "9"],
        ["--ids", "5"],
        ["--ids", "9-1"],
        ["--type", "KERNEL"],
        ["--near", "-1"],
        ["--top", "0"],
        ["--name", "absent"],
    ],
    ids=" ".join,
)
def test_wrong_usage_writes_nothing(options: list[str], et: Path) -> None:
    out = et.with_name("g.svg")
    done = run("chakra", "show", et, *options, "-o", out)
    assert done.returncode == 2
    assert "Error" in done.stderr
    assert not out.exists()


def test_what_cannot_be_shown_is_refused(et: Path) -> None:
    taken = et.with_name("taken.svg")
    taken.write_text("mine")
    with pytest.raises(OutputError):
        tracebraid.show_chakra(et, taken)
    assert taken.read_text() == "mine"
    with pytest.raises(ArgumentError):
        tracebraid.show_chakra(et, et.with_name("g.png"))
    with pytest.raises(InputError):
        tracebraid.show_chakra(et.with_name("absent.et"), et.with_name("g.svg"))
    with pytest.raises(InputError):
        tracebraid.show_chakra(taken, et.with_name("g.svg"))


def test_too_many_nodes_for_a_picture_are_named(tmp_path: Path) -> None:
    job = transformer(Parallelism(tensor=2), TrainingSteps(sequence=128, micro_batches=16))
    path = tmp_path / "many.0.et"
    write_rank(path, next(generated_ranks(job)))
    with pytest.raises(ArgumentError, match="500"):
        tracebraid.show_chakra(path, tmp_path / "g.svg")
    part = tracebraid.PartChoice(top=20, near=1)
    assert tracebraid.show_chakra(path, tmp_path / "g.svg", part).nodes < 100
    assert tracebraid.show_chakra(path, tmp_path / "g.dot").nodes > 500
