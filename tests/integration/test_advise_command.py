"""`tracebraid advise`: what it prints, writes, refuses, and with which exit code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.builders import kineto_text, write
from tests.integration.command import run
from tests.planted import Scene, write_ranks
from tests.planted.patterns import PATTERNS
from tests.planted.scenes import clean


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    (tmp_path / "slow").mkdir()
    return write_ranks(tmp_path / "slow", PATTERNS["item-sync"].scenes)


def test_people_see_what_where_how_much_and_what_to_change(slow: Path) -> None:
    done = run("advise", slow)
    assert done.returncode == 0
    detector = next(found for found in tracebraid.detectors() if found.name == "item-sync")
    words = " ".join(done.stdout.split())
    for part in (detector.title, detector.change, "aten::item", "train.py(30): loss_of", "per step"):
        assert part in words


def test_json_has_all_and_agrees_with_the_library(slow: Path, tmp_path: Path) -> None:
    done = run("advise", slow, "--json")
    data = json.loads(done.stdout)
    advice = tracebraid.advise(tracebraid.open(slow))
    (item,) = data["advice"]
    assert {name: item[name] for name in advice.items.columns} == advice.items.row(0, named=True)
    assert item["title"]
    assert item["change"]
    assert item["evidence"] == advice.evidence.drop("item", "detector").to_dicts()
    assert data["by_step"] == advice.by_step.to_dicts()
    assert data["saving_per_step_ns"] == advice.saving_per_step_ns
    target = tmp_path / "advice.json"
    assert run("advise", slow, "-o", target).returncode == 0
    assert json.loads(target.read_text()) == data


def test_rows_go_to_csv_and_parquet(slow: Path, tmp_path: Path) -> None:
    target = tmp_path / "advice.parquet"
    assert run("advise", slow, "-o", target).returncode == 0
    assert pl.read_parquet(target).get_column("detector").to_list() == ["item-sync"]
    csv = run("advise", slow, "--csv").stdout
    assert csv.startswith("item,detector,op,")
    assert csv.count("\n") == 2


def test_nothing_found_is_said_and_is_no_failure(tmp_path: Path) -> None:
    done = run("advise", write_ranks(tmp_path, [clean()]))
    assert done.returncode == 0
    assert done.stdout.strip()
    assert json.loads(run("advise", tmp_path, "--json").stdout)["advice"] == []


def test_less_is_left_out_on_demand(slow: Path) -> None:
    assert json.loads(run("advise", slow, "--json", "--min-saving", "90%").stdout)["advice"] == []
    assert json.loads(run("advise", slow, "--json", "--min-saving", "10s").stdout)["advice"] == []
    assert json.loads(run("advise", slow, "--json", "--min-saving", "0").stdout)["advice"] != []


@pytest.mark.parametrize("least", ["x", "-1%", "200%", "2"])
def test_what_is_no_least_saving_is_refused_before_anything_is_read(least: str, tmp_path: Path) -> None:
    assert run("advise", tmp_path / "absent", f"--min-saving={least}").returncode == 2


def test_a_rank_that_is_not_there_is_refused(slow: Path) -> None:
    assert run("advise", slow, "--rank", "5").returncode == 2
    assert run("advise", slow, "--rank", "0").returncode == 0


def test_by_the_graph_each_item_has_its_gain(slow: Path) -> None:
    def items(*options: str) -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(run("advise", slow, "--json", *options).stdout)["advice"]
        return found

    alone, by_graph = items(), items("--by-graph")
    assert {item["gain_per_step_ns"] for item in alone} == {None}
    assert any(item["gain_per_step_ns"] for item in by_graph)
    assert len(alone) == len(by_graph)
    assert run("advise", slow, "--by-graph").returncode == 0


def test_ranks_are_asked_together_and_apart(tmp_path: Path) -> None:
    tracks = [clean(rank=0, world_size=2), clean(rank=1, world_size=2)]
    folder = write_ranks(tmp_path, tracks)
    data = json.loads(run("advise", folder, "--json").stdout)
    assert data["ranks"] == [0, 1]
    assert json.loads(run("advise", folder, "--rank", "1", "--json").stdout)["ranks"] == [1]


def test_a_rank_that_cannot_be_read_costs_no_other_and_fails_the_command(tmp_path: Path) -> None:
    job = Path(shutil.copytree(tracebraid.demo_path(), tmp_path / "job"))
    (job / "kineto_trace_0.json.gz").write_bytes(b"")
    done = run("advise", job, "--json")
    assert done.returncode == 1
    data = json.loads(done.stdout)
    assert data["ranks"] == [1]
    assert "rank-unreadable" in {finding["code"] for finding in data["findings"]}


def test_a_trace_in_which_nothing_can_be_looked_for_fails(tmp_path: Path) -> None:
    path = write(tmp_path / "kineto_trace_0.json", kineto_text([]))
    done = run("advise", path)
    assert "Traceback" not in done.stderr
    assert done.returncode == 1


def test_what_cannot_be_looked_for_is_said(tmp_path: Path) -> None:
    scene = Scene(devices=())
    scene.thread().run("aten::mm", 1000)
    done = run("advise", write_ranks(tmp_path, [scene]), "--json")
    assert "item-sync" in json.loads(done.stdout)["not_looked_for"]
    assert "item-sync" in done.stderr
