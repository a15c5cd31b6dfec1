"""`tracebraid link` without ids: --match, --annotation, --iteration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders import et_text, kineto_text, node, op, write
from tests.integration.command import run
from tests.unit.linking.made import et_of
from tests.unit.linking.unlabelled import events_of, nodes_of

BODY = [f"aten::op{number}" for number in range(30)]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """An iteration, and four of them."""
    events = events_of({7: [one for n in range(4) for one in (f"ProfilerStep#{n}", *BODY)]})
    et = write(tmp_path / "et.json", et_text(nodes_of({1: ["ProfilerStep#2", *BODY]}), "1.1.1-chakra.0.0.4"))
    return et, write(tmp_path / "kineto.json", kineto_text(events))


def test_the_iteration_that_was_matched_is_told(pair: tuple[Path, Path]) -> None:
    done = run("link", *pair, "--min-coverage", "1")
    assert done.returncode == 0, done.stderr
    assert "31 of 31, 100.0 %" in done.stdout
    assert "ProfilerStep#2 was matched" in " ".join(done.stderr.split())
    found = json.loads(run("link", *pair, "--json", "--iteration", "0").stdout)
    (told,) = [one["message"] for one in found["findings"] if one["code"] == "matched"]
    assert "ProfilerStep#0 was matched" in told
    assert "it was asked for" in told


def test_by_ids_alone_nothing_is_linked(pair: tuple[Path, Path]) -> None:
    done = run("link", *pair, "--match", "exact", "--min-coverage", "0.5")
    assert done.returncode == 1
    assert "coverage is below 0.5" in done.stderr


def test_a_check_links_as_link_does(pair: tuple[Path, Path], tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    for path, name in zip(pair, ("torch_et_0.json", "kineto_trace_0.json"), strict=True):
        path.rename(folder / name)
    found = json.loads(run("check", folder, "--json").stdout)
    (rank,) = found["ranks"]
    assert found["links"]
    assert rank["linked"]["et_nodes"] == {"total": 31, "linked": 31}
    assert 0.9 < rank["confidence"] < 1.0
    assert rank["linked"] == json.loads(run("link", folder, "--json").stdout)["ranks"][0]
    by_ids = run("check", folder, "--match", "exact", "--json")
    assert by_ids.returncode == 1
    assert json.loads(by_ids.stdout)["ranks"][0]["linked"]["host_ops"]["linked"] == 0


def test_a_check_refuses_a_match_that_there_is_not(tmp_path: Path) -> None:
    assert run("check", tmp_path, "--match", "nearly").returncode == 2


def test_a_kineto_trace_that_was_cut_covers_too_little(tmp_path: Path) -> None:
    """All that is left of it links."""
    ops = [op(name, 100 * n, 50, Record_function_id=51 + n) for n, name in enumerate(BODY)]
    nodes = et_of(*(node(20 + n, name, 1001, rf_id=51 + n) for n, name in enumerate(BODY)))
    et = write(tmp_path / "et.json", et_text(nodes))
    for kept, code in ((len(ops), 0), (len(ops) // 2, 1)):
        kineto = write(tmp_path / "kineto.json", kineto_text(ops[:kept]))
        done = run("link", et, kineto, "--min-coverage", "0.99", "--json")
        assert done.returncode == code
        (rank,) = json.loads(done.stdout)["ranks"]
        assert rank["host_ops"]["linked"] == rank["host_ops"]["total"] == kept
        assert rank["coverage"] == kept / len(ops)


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        (["--match", "nearly"], 2, "there is no match 'nearly'"),
        (["--iteration", "last"], 2, "there is no iteration 'last'"),
        (["--iteration", "9"], 1, "there is no iteration 9; there are 4"),
        (["--annotation", "Nowhere"], 1, "no op of the longer trace has 'Nowhere' in its name"),
    ],
)
def test_what_cannot_be_is_refused(pair: tuple[Path, Path], more: list[str], code: int, told: str) -> None:
    done = run("link", *pair, *more)
    assert done.returncode == code
    assert told in " ".join(done.stderr.replace("│", " ").split())


def test_traces_of_two_programs_are_refused(pair: tuple[Path, Path], tmp_path: Path) -> None:
    events = kineto_text(events_of({7: [f"aten::other{number}" for number in range(30)]}))
    done = run("link", pair[0], write(tmp_path / "other.json", events))
    assert done.returncode == 1
    assert "it is not of the program of" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
