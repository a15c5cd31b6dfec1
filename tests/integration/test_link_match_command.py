"""`tracebraid link` without ids: --match, --annotation, --iteration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders import et_text, kineto_text, write
from tests.integration.command import run
from tests.unit.linking.unlabelled import events_of, nodes_of

BODY = [f"aten::op{number}" for number in range(30)]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """An iteration, and four of them."""
    events = events_of({7: [one for n in range(4) for one in (f"ProfilerStep#{n}", *BODY)]})
    et = write(tmp_path / "et.json", et_text(nodes_of({1: ["ProfilerStep#2", *BODY]}), "1.1.1-chakra.0.0.4"))
    return et, write(tmp_path / "kineto.json", kineto_text(events))


def test_the_iteration_that_was_matched_is_told(pair: tuple[Path, Path]):
    done = run("link", *pair, "--min-coverage", "1")
    assert done.returncode == 0, done.stderr
    assert "31 of 31, 100.0 %" in done.stdout
    assert "ProfilerStep#2 was matched" in " ".join(done.stderr.split())
    found = json.loads(run("link", *pair, "--json", "--iteration", "0").stdout)
    (told,) = [one["message"] for one in found["findings"] if one["code"] == "matched"]
    assert "ProfilerStep#0 was matched" in told
    assert "it was asked for" in told


def test_by_ids_alone_nothing_is_linked(pair: tuple[Path, Path]):
    done = run("link", *pair, "--match", "exact", "--min-coverage", "0.5")
    assert done.returncode == 1
    assert "coverage is below 0.5" in done.stderr


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        (["--match", "nearly"], 2, "there is no match 'nearly'"),
        (["--iteration", "last"], 2, "there is no iteration 'last'"),
        (["--iteration", "9"], 1, "there is no iteration 9; there are 4"),
        (["--annotation", "Nowhere"], 1, "no op of the longer trace has 'Nowhere' in its name"),
    ],
)
def test_what_cannot_be_is_refused(pair: tuple[Path, Path], more: list[str], code: int, told: str):
    done = run("link", *pair, *more)
    assert done.returncode == code
    assert told in " ".join(done.stderr.replace("│", " ").split())


def test_traces_of_two_programs_are_refused(pair: tuple[Path, Path], tmp_path: Path):
    events = kineto_text(events_of({7: [f"aten::other{number}" for number in range(30)]}))
    done = run("link", pair[0], write(tmp_path / "other.json", events))
    assert done.returncode == 1
    assert "it is not of the program of" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
