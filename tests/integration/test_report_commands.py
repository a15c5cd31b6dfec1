"""`tracebraid report` and `tracebraid diff -o`: checks before work, findings, exit codes, never half a page."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

import tracebraid
from tests.cases import cases
from tests.integration.command import Done, fail, run, run_process
from tests.integration.running import ended, started
from tests.planted import write_ranks
from tests.planted.programs import GEMM_NS, Program
from tests.unit.reports.runs import planted_scene
from tracebraid.cli.view import ended_by_terminate
from tracebraid.model.answers.job import DiffChange
from tracebraid.model.questions import CautionCode, GateOutcome, Verdict


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("traces")
    return write_ranks(folder, [planted_scene(0), planted_scene(1)])


def _report(*arguments: object) -> Done:
    return run("report", *arguments, "--no-critical-path")


@pytest.mark.full
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


@pytest.mark.full
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


@pytest.mark.full
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


@pytest.mark.full
def test_diff_writes_a_page_and_its_json(traces: Path, tmp_path: Path) -> None:
    for name in ("diff.html", "diff.json"):
        done = run("diff", traces, traces, "-o", tmp_path / name)
        assert (done.returncode, done.stdout) == (0, "")
        assert (tmp_path / name).is_file()
    gate = run("diff", traces, traces, "-o", tmp_path / "gate.html", "--fail-on-regression", "5%")
    assert gate.returncode == NOT_JUDGED
    assert (tmp_path / "gate.html").is_file()
    assert run("diff", traces, traces, "-o", tmp_path / "diff.html").returncode != 0
    assert run("diff", traces, traces, "-o", tmp_path / "x.html", "--json").returncode != 0


# --- `tracebraid view` as its user runs it: it prints an address, answers there, and ends with  ------


def test_it_serves_the_page_until_it_is_ended(job: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tracebraid", "view", "--no-open", job]
    with started(*command, TMPDIR=str(tmp_path)) as process:
        assert process.stdout is not None
        address = process.stdout.readline().decode().strip()
        with urlopen(address) as answer:
            page = answer.read().decode()
        with pytest.raises(HTTPError) as wrong:
            urlopen(f"{address}wrong")
        wrong.value.close()
        process.send_signal(signal.SIGINT)
        done = ended(process)
    parts = urlsplit(address)
    assert (parts.hostname, wrong.value.code, done.returncode) == ("127.0.0.1", 404, 0)
    assert "open-in-perfetto" in page
    assert "Traceback" not in done.stderr
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", parts.port or 0)):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_request_to_terminate_ends_it_as_ctrl_c_does() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), ended_by_terminate():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_job_that_cannot_be_read_is_an_error_and_not_served(tmp_path: Path) -> None:
    fail("view", "--no-open", tmp_path)


@pytest.mark.full
def test_a_port_that_is_taken_is_an_error(job: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("view", "--no-open", "--port", port, job)
    assert (done.returncode, done.stdout, f"port {port}" in done.stderr) == (2, "", True)


def test_a_port_that_there_is_not_is_wrong_usage(tmp_path: Path) -> None:
    assert run("view", "--no-open", "--port", 65_536, tmp_path).returncode == 2


# --- `tracebraid diff` as people and CI run it -------------------------------------------------------


NOT_JUDGED = 3
STEPS = [2 * GEMM_NS + 100 * number for number in range(8)]
PLAIN = Program()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of runs, each but the first changed in one thing; tests only read them."""
    root = tmp_path_factory.mktemp("runs")
    made = {
        "plain": (PLAIN, STEPS),
        "again": (PLAIN, [ns + 50 for ns in STEPS]),
        "slower": (PLAIN, [int(ns * 1.2) for ns in STEPS]),
        "added": (replace(PLAIN, added=True), STEPS),
        "short": (PLAIN, STEPS[:2]),
    }
    folders = {}
    for name, (program, steps) in made.items():
        folders[name] = root / name
        folders[name].mkdir()
        program.scene(steps).write(folders[name])
    for name, shares in {"base": (0, 4, -4), "equal": (1, -3, 3), "longer": (200, 205, 195)}.items():
        for number, share in enumerate(shares, 1):
            folder = folders[f"{name}{number}"] = root / f"{name}{number}"
            folder.mkdir()
            PLAIN.scene([round(ns * (1 + share / 1000)) for ns in STEPS]).write(folder)
    folders["job"] = root / "job"
    folders["job"].mkdir()
    for rank in range(2):
        PLAIN.scene(STEPS, rank, 2).write(folders["job"])
    folders["larger"] = root / "larger"
    folders["larger"].mkdir()
    for rank in range(3):
        PLAIN.scene([int(ns * (1 + 0.1 * rank)) for ns in STEPS], rank, 3).write(folders["larger"])
    return folders


def data_of(*arguments: object) -> dict[str, Any]:
    done = run("diff", *arguments, "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def codes(found: dict[str, Any]) -> set[str]:
    return {caution["code"] for caution in found["cautions"]}


GATE = ("--fail-on-regression", "5%")
BASE = ("base1", "base2", "base3")
EQUAL, LONGER = (tuple(f"{name}{number}" for number in (1, 2, 3)) for name in ("equal", "longer"))


@pytest.mark.full(keep=3)
@cases(
    "words, code, outcome",
    {
        "the same program": ((*BASE, "--", *EQUAL, *GATE), 0, GateOutcome.PASSED),
        "a slower program": ((*BASE, "--", *LONGER, *GATE), 1, GateOutcome.REGRESSION),
        "two of each": ((*BASE[:2], "--", *LONGER[:2], *GATE), NOT_JUDGED, GateOutcome.NOT_JUDGED),
        "a faster program": ((*LONGER, "--", *BASE, *GATE), 0, GateOutcome.PASSED),
        "slower within a higher limit": (
            ("--fail-on-regression", "50 %", *BASE, "--", *LONGER),
            0,
            GateOutcome.PASSED,
        ),
        "one of each": (("plain", "slower", *GATE), NOT_JUDGED, GateOutcome.NOT_JUDGED),
        "one of each, with --": (("plain", "--", "slower", *GATE), NOT_JUDGED, GateOutcome.NOT_JUDGED),
        "one against three": (("plain", "--", *LONGER, *GATE), NOT_JUDGED, GateOutcome.NOT_JUDGED),
        "no gate": ((*BASE, "--", *LONGER), 0, None),
    },
)
def test_the_gate_judges_captures_and_has_an_exit_code_for_each_outcome(
    runs: dict[str, Path], words: tuple[str, ...], code: int, outcome: GateOutcome | None
) -> None:
    arguments = [runs.get(word, word) for word in words]
    done = run("diff", *arguments)
    assert done.returncode == code
    assert ("error" in done.stderr) == (code != 0)
    found = data_of(*arguments)
    assert found.get("regression", {"outcome": None})["outcome"] == (outcome and outcome.value)
    sides = "".join(row["run"] for row in found["captures"])
    assert sides == "a" * sides.count("a") + "b" * sides.count("b")
    assert len(sides) == sum(word in runs for word in words)


@cases(
    "words",
    {
        "no capture of A": ("--", "base1"),
        "no capture of B": ("base1", "base2", "--"),
        "one capture": ("base1",),
        "three captures without --": ("base1", "base2", "longer1"),
        "the same capture twice": ("base1", "base1", "--", "longer1"),
        "the same capture on both sides": ("base1", "base2", "--", "base1"),
        "other world sizes on a side": ("job", "larger", "--", "job"),
    },
)
def test_captures_that_cannot_be_compared_are_wrong_usage(
    runs: dict[str, Path], words: tuple[str, ...]
) -> None:
    done = run("diff", *(runs.get(word, word) for word in words))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr


@pytest.mark.full
def test_a_gate_of_too_few_steps_cannot_judge_and_does_not_pass(runs: dict[str, Path]) -> None:
    for pair in ((runs["plain"], runs["short"]), (runs["short"], runs["plain"])):
        assert run("diff", *pair).returncode == 0
        done = run("diff", *pair, "--fail-on-regression", "5%")
        assert done.returncode == NOT_JUDGED
        assert "error" in done.stderr
        found = data_of(*pair, "--fail-on-regression", "5%")
        assert found["can_judge"] is False
        assert found["verdict"] == Verdict.NOT_JUDGED.value
        assert found["regression"]["outcome"] == GateOutcome.NOT_JUDGED.value
        assert CautionCode.FEW_STEPS.value in codes(found)


@pytest.mark.full(keep=2)
@pytest.mark.parametrize(
    ("a", "b", "verdict", "outcome"),
    [
        ("plain", "again", Verdict.NO_DIFFERENCE_FOUND, GateOutcome.NOT_JUDGED),
        ("plain", "slower", Verdict.SLOWER, GateOutcome.NOT_JUDGED),
        ("slower", "plain", Verdict.FASTER, GateOutcome.NOT_JUDGED),
    ],
)
def test_the_verdict_is_a_code(
    runs: dict[str, Path], a: str, b: str, verdict: Verdict, outcome: GateOutcome
) -> None:
    found = data_of(runs[a], runs[b], "--fail-on-regression", "5%")
    assert (found["verdict"], found["regression"]["outcome"]) == (verdict.value, outcome.value)


def test_json_has_all_tables_and_its_parts_add_up(runs: dict[str, Path]) -> None:
    found = data_of(runs["plain"], runs["added"])
    step = found["steps"][0]
    for column in ("a_ns", "b_ns", "difference_ns"):
        assert sum(part[column] for part in found["parts"]) == step[column]
    assert found["difference_ns"] == step["difference_ns"] > 0
    assert found["significant"] is True
    changed = [row for row in found["kernels"] if row["change"] != DiffChange.SAME.value]
    assert [(row["change"], row["kernel_b"]) for row in changed] == [
        (DiffChange.ADDED.value, "dropout_kernel")
    ]
    assert "regression" not in found


def test_the_report_names_what_changed(runs: dict[str, Path]) -> None:
    done = run("diff", runs["plain"], runs["added"])
    assert done.returncode == 0
    assert "aten::dropout" in done.stdout
    assert "dropout_kernel" in done.stdout


@pytest.mark.full
def test_the_same_input_gives_the_same_bytes(runs: dict[str, Path]) -> None:
    arguments = ("diff", runs["plain"], runs["slower"], "--json")
    first, second = run_process(*arguments), run(*arguments)
    assert first.returncode == 0
    assert first.stdout == second.stdout
    assert first.stderr == ""


def test_jobs_of_other_sizes_are_compared_on_the_ranks_of_both(runs: dict[str, Path]) -> None:
    found = data_of(runs["job"], runs["larger"])
    assert [row["rank"] for row in found["steps"]] == [None, 0, 1]
    assert {CautionCode.WORLD_SIZES_DIFFER.value, CautionCode.RANKS_UNPAIRED.value} <= codes(found)
    by_rank = [row["difference_ns"] for row in found["steps"][1:]]
    assert abs(by_rank[0]) < by_rank[1]
    assert found["difference_ns"] == pytest.approx(sum(by_rank) / 2, abs=2)
    assert sum(part["difference_ns"] for part in found["parts"]) == found["difference_ns"]


def test_another_annotation_and_none(runs: dict[str, Path]) -> None:
    found = data_of(runs["plain"], runs["slower"], "--annotation", "train_step")
    assert CautionCode.NO_STEPS.value in codes(found)
    assert found["significant"] is False


def test_the_same_file_twice_differs_in_nothing(runs: dict[str, Path]) -> None:
    found = data_of(runs["plain"], runs["plain"], "--fail-on-regression", "0%")
    assert CautionCode.SAME_FILES.value in codes(found)
    assert found["regression"]["is_slower"] is False
    assert {row["difference_ns"] for row in [*found["parts"], *found["ops"], *found["kernels"]]} == {0}


@pytest.mark.parametrize("share", ["5", "five", "-5%", "%", "nan%"])
def test_a_share_that_is_no_percentage_is_wrong_usage(runs: dict[str, Path], share: str) -> None:
    done = run("diff", runs["plain"], runs["plain"], f"--fail-on-regression={share}")
    assert done.returncode == 2


def test_what_is_no_trace_and_ranks_that_no_run_shares_are_said(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "text.json").write_text("no trace")
    assert run("diff", runs["plain"], tmp_path / "text.json").returncode == 1
    assert run("diff", runs["plain"], tmp_path / "absent").returncode == 1
    other = tmp_path / "other"
    other.mkdir()
    for rank in (5, 6):
        PLAIN.scene(STEPS[:1], rank, 8).write(other)
    done = run("diff", runs["job"], other)
    assert done.returncode == 2
    with pytest.raises(tracebraid.ArgumentError):
        tracebraid.diff(runs["job"], other)


def test_python_takes_paths_jobs_and_linked_traces(runs: dict[str, Path]) -> None:
    by_path = tracebraid.diff(runs["plain"], str(runs["slower"]))
    job, linked = tracebraid.open(runs["plain"]), tracebraid.open(runs["slower"])[0]
    assert tracebraid.diff(job, linked).steps.equals(by_path.steps)
    assert by_path.verdict is Verdict.SLOWER
    several = tracebraid.diff(
        [job, runs["base2"], str(runs["base3"])], [linked, runs["longer2"], runs["longer3"]]
    )
    assert several.is_slower(0.05)
    assert "difference_ns" in repr(by_path)


def test_names_of_a_trace_do_not_steer_the_terminal(runs: dict[str, Path], tmp_path: Path) -> None:
    scene = PLAIN.scene(STEPS)
    host, stream = scene.thread("other"), scene.stream(7)
    host.until(STEPS[0])
    with host.op("[red]op\x1b[31m", dims=[[2]]):
        host.launch(stream, "[/bold]kernel\x1b[0m", 100)
    scene.write(tmp_path)
    done = run("diff", runs["plain"], tmp_path, "--top", "50")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "[red]op" in done.stdout
    assert "[/bold]kernel" in done.stdout


def test_steps_that_overlap_and_a_trace_cut_in_two_are_compared(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    scene = PLAIN.scene(STEPS)
    host = scene.thread("other", STEPS[0])
    with host.step(2, 5 * GEMM_NS):
        host.run("aten::other", 1_000)
    text = scene.write(tmp_path).read_text()
    found = data_of(runs["plain"], tmp_path)
    assert sum(part["b_ns"] for part in found["parts"]) == found["steps"][0]["b_ns"]
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut/kineto_trace_0.json").write_text(text[: len(text) // 2])
    done = run("diff", runs["plain"], tmp_path / "cut", "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["findings"]
    assert sum(part["b_ns"] for part in found["parts"]) == found["steps"][0]["b_ns"]
