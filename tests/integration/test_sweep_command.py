"""`tracebraid what-if` without a change: a sweep, straggler metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.command import run


@pytest.mark.parametrize("option", ["--sweep", "--stragglers"])
def test_an_answer_is_a_table_of_so_many_rows_or_csv(demo: Path, option: str) -> None:
    few, many = (run("what-if", demo, option, "--top", top).stdout for top in ("2", "6"))
    assert len(many.splitlines()) == len(few.splitlines()) + 4
    rows = run("what-if", demo, option, "--csv").stdout.splitlines()
    assert len(rows) > 10
    assert "group_by" in rows[0].split(",")


@pytest.mark.parametrize("option", ["--sweep", "--stragglers"])
def test_an_annotation_that_marks_no_step_is_named(demo: Path, option: str) -> None:
    assert "nope" in run("what-if", demo, option, "--annotation", "nope").stdout
    assert "ProfilerStep" not in run("what-if", demo, option, "--top", "1").stdout


def test_a_sweep_as_json_has_the_groups_that_are_asked_for(demo: Path) -> None:
    groups = json.loads(run("what-if", demo, "--sweep", "--by", "op", "--by", "collective", "--json").stdout)[
        "groups"
    ]
    assert {group["group_by"] for group in groups} == {"op", "collective"}
    gains = [group["gain_50"] for group in groups]
    assert gains == sorted(gains, reverse=True)


def test_straggler_metrics_as_json_have_the_names_of_the_paper(demo: Path) -> None:
    found = json.loads(run("what-if", demo, "--stragglers", "--json").stdout)
    assert set(found["S_by"]) == {"rank", "optype"}
    assert set(found["S_by"]["rank"]) == {"0", "1"}
    assert found["S"] == pytest.approx(found["step_ns"] / found["ideal_ns"])
    assert found["M_S"] is None


@pytest.mark.parametrize("options", [[], ["--sweep", "--stragglers"], ["--stragglers", "--by", "op"]])
def test_what_is_asked_must_be_clear(demo: Path, options: list[str]) -> None:
    assert run("what-if", demo, *options).returncode == 2
