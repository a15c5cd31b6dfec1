"""`tracebraid report` and `tracebraid diff -o`: checks before work, findings, exit codes, never half a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.command import Done, run
from tests.planted import write_ranks
from tests.unit.reports.runs import planted_scene


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("traces")
    return write_ranks(folder, [planted_scene(0), planted_scene(1)])


def _report(*arguments: object) -> Done:
    return run("report", *arguments, "--no-critical-path")


def test_a_page_is_written_always_the_same_and_is_not_overwritten(traces: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "report.html", tmp_path / "other.html"
    for path in (out, other):
        done = _report(traces, "-o", path, "--title", "A <title>")
        assert (done.returncode, done.stdout) == (0, "")
    written = out.read_text()
    assert "A &lt;title&gt;" in written
    assert other.read_text() == written
    again = _report(traces, "-o", out)
    assert again.returncode != 0
    assert out.read_text() == written
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "other.html"}


@pytest.mark.parametrize("name", ["report.txt", "report", "folder.html", "missing/report.html"])
def test_a_bad_target_is_refused_before_the_traces_are_read(traces: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.html").mkdir()
    before = sorted(tmp_path.rglob("*"))
    done = _report(traces / "nothing", "-o", tmp_path / name)
    assert done.returncode != 0
    assert "nothing" not in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "options",
    [
        ("--json", "--text"),
        ("--text", "-o", "x.html"),
        ("--json", "-o", "x.html"),
        ("--rank", 9),
        ("--steps", 99),
        ("--window", 3),
    ],
)
def test_what_cannot_be_asked_is_an_error(traces: Path, tmp_path: Path, options: tuple[object, ...]) -> None:
    asked = [tmp_path / value if value == "x.html" else value for value in options]
    done = _report(traces, *asked, *(() if "-o" in options or "--json" in options else ("--json",)))
    assert done.returncode != 0
    assert done.stdout == ""
    assert not (tmp_path / "x.html").exists()


def test_json_has_the_figures_of_analyze(traces: Path, tmp_path: Path) -> None:
    found = json.loads(_report(traces, "--json").stdout)
    tables = {part["id"]: part for section in found["sections"] for part in section["parts"] if "id" in part}
    for name in ("kernels", "ops", "idle_causes", "step_times"):
        asked = json.loads(run("analyze", name, traces, "--json").stdout)
        assert tables[f"rows-{name.replace('_', '-')}"]["rows"] == asked, name
    out = tmp_path / "report.json"
    assert _report(traces, "-o", out).returncode == 0
    assert json.loads(out.read_text())["sections"] == found["sections"]


def test_the_text_has_the_figures_of_analyze(traces: Path) -> None:
    done = _report(traces, "--text", "--top", "20", "--rank", 0)
    assert done.returncode == 0
    asked = run("analyze", "kernels", traces, "--rank", 0).stdout
    line = next(line for line in asked.splitlines() if "gemm" in line)
    figures = [text for text in line.split("   ") if any(char.isdigit() for char in text)]
    assert all(any(figure.strip() in row for row in done.stdout.splitlines()) for figure in figures)


def test_a_damaged_rank_is_left_out_and_the_page_is_written(tmp_path: Path) -> None:
    traces = write_ranks(tmp_path, [planted_scene(0), planted_scene(1)])
    broken = next(path for path in sorted(traces.iterdir()) if "1" in path.name)
    text = broken.read_bytes()
    broken.write_bytes(text[: len(text) // 2])
    out = tmp_path / "report.html"
    done = _report(traces, "-o", out)
    assert out.is_file()
    assert done.stderr != ""


def test_no_readable_rank_is_an_error_without_a_page(tmp_path: Path) -> None:
    (tmp_path / "kineto_trace_0.json.gz").write_bytes(b"")
    out = tmp_path / "report.html"
    done = _report(tmp_path, "-o", out)
    assert done.returncode != 0
    assert not out.exists()


def test_diff_writes_a_page_and_its_json(traces: Path, tmp_path: Path) -> None:
    for name in ("diff.html", "diff.json"):
        done = run("diff", traces, traces, "-o", tmp_path / name)
        assert (done.returncode, done.stdout) == (0, "")
        assert (tmp_path / name).is_file()
    gate = run("diff", traces, traces, "-o", tmp_path / "gate.html", "--fail-on-regression", "5%")
    assert gate.returncode == 1
    assert (tmp_path / "gate.html").is_file()
    assert run("diff", traces, traces, "-o", tmp_path / "diff.html").returncode != 0
    assert run("diff", traces, traces, "-o", tmp_path / "x.html", "--json").returncode != 0
