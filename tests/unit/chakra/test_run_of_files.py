"""`tracebraid chakra run` and `tracebraid.chakra.run`, on files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tracebraid
from tests.chakra_ranks import Node, collective, compute, rank_of, receive
from tracebraid.errors import ArgumentError, InputError

TRAINING = [compute(0, us=100), collective(1, 0, size=1 << 20), compute(2, 1, us=50)]


def written(folder: Path, *ranks: list[Node]) -> Path:
    for number, nodes in enumerate(ranks):
        tracebraid.chakra.write(folder / f"job.{number}.et", rank_of(number, nodes))
    return folder


def chakra_run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tracebraid", "chakra", "run", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.full
def test_the_golden_run_on_the_command_line(tmp_path: Path) -> None:
    done = chakra_run(written(tmp_path, *[TRAINING] * 4), "--network", "ring,50,500", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["is_finished"]
    assert [row["end_ns"] for row in found["ranks"]] == [193_000] * 4


@pytest.mark.full
def test_a_deadlock_names_both_nodes_and_exits_with_1(tmp_path: Path) -> None:
    (tmp_path / "comm_group.json").write_text('{"1": [0, 1], "2": [0, 1]}')
    first = [collective(3, group="1", name="dp"), collective(4, 3, group="2", name="tp")]
    second = [collective(7, group="2", name="tp"), collective(8, 7, group="1", name="dp")]
    done = chakra_run(written(tmp_path, first, second), "--network", "ring")
    assert done.returncode == 1
    assert "rank 0, node 3 (dp)" in done.stderr
    assert "is at node 7 (tp)" in done.stderr
    assert "rank 1, node 7 (tp)" in done.stderr
    assert "never" in done.stdout


@pytest.mark.parametrize(
    ("network", "message"),
    [("torus", "'torus' is not a network"), ("ring:8,50,500", "has 8 ranks, and the job has 2")],
)
def test_a_network_that_makes_no_sense_is_refused(tmp_path: Path, network: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        tracebraid.chakra.run(written(tmp_path, *[TRAINING] * 2), network)


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    ranks = written(tmp_path, *[TRAINING] * 2)
    with pytest.raises(InputError, match=r"absent\.yml"):
        tracebraid.chakra.run(ranks, str(tmp_path / "absent.yml"))
    with pytest.raises(InputError, match=r"absent\.json"):
        tracebraid.chakra.run(
            ranks, hardware=tracebraid.chakra.ChakraHardware(settings=tmp_path / "absent.json")
        )


def test_a_folder_with_a_gap_names_the_missing_rank(tmp_path: Path) -> None:
    written(tmp_path, *[TRAINING] * 3)
    (tmp_path / "job.1.et").unlink()
    with pytest.raises(InputError, match="there is no file of rank 1, and one of rank 2"):
        tracebraid.chakra.run(tmp_path, "ring")


def test_ranks_twice_are_refused(tmp_path: Path) -> None:
    written(tmp_path, *[TRAINING] * 2)
    tracebraid.chakra.write(tmp_path / "other.1.et", rank_of(1, TRAINING))
    with pytest.raises(InputError, match="rank 1 has several files"):
        tracebraid.chakra.run(tmp_path, "ring")
    assert tracebraid.chakra.run(tmp_path / "job", "ring").is_finished


@pytest.mark.parametrize(
    "groups", ['{"1": []}', '{"1": [0, 0]}', '{"1": [-1, 0]}', '{"1": 0}', "[", '{"1": ["a"]}']
)
def test_a_malformed_comm_group_file_is_located(tmp_path: Path, groups: str) -> None:
    (tmp_path / "comm_group.json").write_text(groups)
    with pytest.raises(InputError, match=r"comm_group\.json"):
        tracebraid.chakra.run(written(tmp_path, *[TRAINING] * 2), "ring")


def test_unknown_lanes_are_refused(tmp_path: Path) -> None:
    hardware = tracebraid.chakra.ChakraHardware(lanes="many")
    with pytest.raises(ArgumentError, match="no kind of lanes 'many' is known"):
        tracebraid.chakra.run(written(tmp_path, TRAINING), hardware=hardware)


def test_a_notebook_shows_times_and_escapes_names(tmp_path: Path) -> None:
    ranks = written(tmp_path, [receive(0, source=1)], [compute(0, name="<b>")])
    shown = tracebraid.chakra.run(ranks, "ring")._repr_html_()
    assert "ranks wait for each other" in shown
    assert "<b>" not in shown
