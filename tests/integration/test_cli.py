"""The command line: what it prints where, and how it ends. What a process adds is tested in processes."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest

from tests.builders import call, et_text, kernel, kineto_text, node, op, write
from tests.unit.link.made import et_of
from tracebraid.cli import main

EVENTS = [
    op("ProfilerStep#1", 0, 100, cat="user_annotation", Record_function_id=4),
    op("aten::mm", 10, 50, Record_function_id=5, Input_Dims=[[2, 3], [3, 4]]),
    op("aten::unseen", 70, 5, Record_function_id=6),
    call("cudaLaunchKernel", 20, 5, 7),
    kernel("gemm", 40, 10, 7),
    kernel("lost", 60, 30, 99),
]
NODES = et_of(node(19, "ProfilerStep#1", 1001, rf_id=4), node(20, "aten::mm", 19, rf_id=5))
LEDGER_KEYS = {"rank", "host_ops", "gpu_events", "gpu_time_ns", "orphans"}


class Done(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments: object, stdin: bytes = b"", **env: str) -> Done:
    """Run the command in this process, as `python -m tracebraid` would in one of its own; no terminal anywhere."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", ["tracebraid", *map(str, arguments)]),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))),
        mock.patch.dict(os.environ, env),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main.run()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return Done(code, out.getvalue(), err.getvalue())


def run_process(*arguments: object, stdin: bytes = b"") -> Done:
    """Run `python -m tracebraid`."""
    command = [sys.executable, "-m", "tracebraid", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, check=False)
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def succeed(*arguments: object, by: Callable[..., Done] = run, **options: Any) -> str:
    """Run it, and hand back what it printed; it must end well and warn of nothing."""
    done = by(*arguments, **options)
    assert (done.returncode, done.stderr.strip()) == (0, "")
    return done.stdout


def fail(*arguments: object, by: Callable[..., Done] = run, **options: Any) -> str:
    """Run it, and hand back what it said; it must print no results and end with exit code 1 and one error."""
    done = by(*arguments, **options)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    assert done.stderr.strip().startswith("error: ")
    return done.stderr


def write_pair(folder: Path, rank: int = 0, suffix: str = ".json") -> tuple[Path, Path]:
    header = {"distributedInfo": {"rank": rank, "world_size": 2}}
    folder.mkdir(exist_ok=True)
    et = write(folder / f"torch_et_{rank}{suffix}", et_text(NODES))
    return et, write(folder / f"kineto_trace_{rank}{suffix}", kineto_text(EVENTS, header))


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two ranks; tests only read it."""
    folder = tmp_path_factory.mktemp("job")
    write_pair(folder, 0)
    write_pair(folder, 1, ".json.gz")
    return folder


@pytest.fixture(scope="module")
def pair(job: Path) -> tuple[Path, Path]:
    return job / "torch_et_0.json", job / "kineto_trace_0.json"


# --- the commands -----------------------------------------------------------------------------------


def test_info_says_what_each_file_is(job: Path):
    text = succeed("info", job, by=run_process)
    for word in ("torch_et_0.json", "kineto_trace_1.json.gz", "1.1.1-chakra.0.0.4", "1 of 2", "2 cpu_op"):
        assert word in text


def test_info_as_json_has_an_object_per_file(job: Path, pair: tuple[Path, Path]):
    files = json.loads(succeed("info", *pair, "--json"))["files"]
    assert [one["kind"] for one in files] == ["execution-trace", "kineto-trace"]
    assert files[0]["schema"] == "1.1.1-chakra.0.0.4"
    assert (files[1]["rank"], files[1]["world_size"], files[1]["steps"]) == (0, 2, ["ProfilerStep#1"])
    assert files[1]["counts"] == {"cpu_op": 2, "kernel": 2, "cuda_runtime": 1, "user_annotation": 1}


def test_link_of_a_pair_shows_the_ledger(pair: tuple[Path, Path]):
    text = succeed("link", *pair)
    for words in ("2 of 3", "1 of 2", "no node has its record-function id", "no call with its correlation"):
        assert words in text


def test_link_as_json_has_the_documented_keys(pair: tuple[Path, Path]):
    ranks = json.loads(succeed("link", *pair, "--json", by=run_process))["ranks"]
    assert len(ranks) == 1
    assert set(ranks[0]) >= LEDGER_KEYS
    assert ranks[0]["rank"] == 0
    assert ranks[0]["host_ops"] == {"total": 3, "linked": 2, "by_method": {"record_function_id": 2}}
    assert ranks[0]["gpu_events"] == {"total": 2, "attributed": 1, "by_method": {"correlation": 1}}
    assert ranks[0]["gpu_time_ns"] == {"total": 40_000, "attributed": 10_000}
    assert {(one["reason"][:20], one["count"]) for one in ranks[0]["orphans"]} == {
        ("no node has its reco", 1),
        ("no call with its cor", 1),
    }


def test_link_of_a_pair_writes_et_plus(pair: tuple[Path, Path], tmp_path: Path):
    succeed("link", *pair, "-o", tmp_path / "out.json.gz")
    nodes = json.loads(gzip.decompress((tmp_path / "out.json.gz").read_bytes()))["nodes"]
    assert {one["name"] for one in nodes if "cat" in one} == {"gemm", "lost"}


def test_link_of_a_folder_links_all_ranks_and_writes_their_et_plus(job: Path, tmp_path: Path):
    found = json.loads(succeed("link", job, "--output", tmp_path / "new" / "out", "--json", by=run_process))
    assert [one["rank"] for one in found["ranks"]] == [0, 1]
    assert sorted(path.name for path in (tmp_path / "new" / "out").iterdir()) == [
        "et_plus_0.json",
        "et_plus_1.json",
    ]


def test_et_plus_written_beside_the_traces_is_not_taken_for_one(job: Path, tmp_path: Path):
    write_pair(tmp_path / "job")
    first = succeed("link", tmp_path / "job", "-o", tmp_path / "job")
    assert succeed("link", tmp_path / "job", "-o", tmp_path / "job") == first


def test_link_takes_a_kineto_trace_alone(pair: tuple[Path, Path]):
    ledger = json.loads(succeed("link", pair[1], "--json"))["ranks"][0]
    assert ledger["gpu_events"]["attributed"] == 1
    assert {one["reason"][:20] for one in ledger["orphans"]} == {"no call with its cor"}


def test_link_reads_the_execution_trace_from_standard_input(pair: tuple[Path, Path]):
    found = json.loads(succeed("link", "-", pair[1], "--json", stdin=pair[0].read_bytes(), by=run_process))
    assert found["ranks"][0]["host_ops"]["linked"] == 2


def test_link_reads_gzip_from_standard_input(pair: tuple[Path, Path]):
    found = json.loads(succeed("link", "-", pair[1], "--json", stdin=gzip.compress(pair[0].read_bytes())))
    assert found["ranks"][0]["host_ops"]["linked"] == 2


def test_summary_shows_the_breakdown_the_kernels_and_the_ops(job: Path):
    text = succeed("summary", job, by=run_process)
    for word in ("ProfilerStep#1", "gemm", "lost", "aten::mm", "idle", "compute"):
        assert word in text


def test_summary_as_json_has_tables_of_every_rank(job: Path):
    found = json.loads(succeed("summary", job, "--json"))
    assert [one["rank"] for one in found["ranks"]] == [0, 1]
    for one in found["ranks"]:
        assert set(one) >= {*LEDGER_KEYS, "breakdown", "kernels", "ops"}
        assert [row["step"] for row in one["breakdown"]] == [None, "ProfilerStep#1"]
        assert {row["name"]: row["total_ns"] for row in one["kernels"]} == {"gemm": 10_000, "lost": 30_000}
        assert {row["name"] for row in one["ops"]} == {"ProfilerStep#1", "aten::mm", "aten::unseen"}
        for row in one["breakdown"]:
            parts = ("compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns")
            assert sum(row[part] for part in parts) == row["span_ns"]


def test_summary_of_one_rank(job: Path):
    assert [one["rank"] for one in json.loads(succeed("summary", job, "--rank", "1", "--json"))["ranks"]] == [
        1
    ]


def test_summary_by_another_annotation(pair: tuple[Path, Path]):
    found = json.loads(succeed("summary", pair[1], "--annotation", "aten::mm", "--json"))
    assert [row["step"] for row in found["ranks"][0]["breakdown"]] == [None, "aten::mm"]


def test_summary_shows_as_many_rows_as_asked_for(pair: tuple[Path, Path]):
    text = succeed("summary", pair[1], "--top", "1")
    assert "lost" in text
    assert "gemm" not in text


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Path]:
    """`tracebraid demo DIR`, once."""
    folder = tmp_path_factory.mktemp("demo") / "copied" / "here"
    return run_process("demo", folder), folder


def test_the_demo_copies_the_traces_and_writes_their_et_plus(
    demo_run: tuple[Done, Path],
):
    done, folder = demo_run
    assert done.returncode == 0
    assert {f"{name}_{rank}.json.gz" for name in ("torch_et", "kineto_trace") for rank in (0, 1)} <= {
        path.name for path in folder.iterdir()
    }
    assert json.loads((folder / "et_plus_1.json").read_text())["nodes"]


def test_the_demo_shows_the_ledger_and_the_breakdown(
    demo_run: tuple[Done, Path],
):
    done, folder = demo_run
    for word in (str(folder), "100.0 %", "record_function_id", "ProfilerStep#4", "aten::"):
        assert word in done.stdout


def test_the_demo_without_a_folder_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    done = run("demo", "--json")
    ranks = json.loads(done.stdout)["ranks"]
    assert [one["rank"] for one in ranks] == [0, 1]
    assert all(one["host_ops"]["linked"] == one["host_ops"]["total"] for one in ranks)
    assert list(tmp_path.iterdir()) == []


def test_the_demo_never_overwrites_a_trace_that_is_not_its_own(tmp_path: Path):
    """Its files have the usual names: `tracebraid demo .` beside one's own traces must not cost them."""
    mine = tmp_path / "torch_et_0.json.gz"
    mine.write_bytes(b"mine")
    assert "torch_et_0.json.gz" in fail("demo", tmp_path)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"mine"]


def test_the_demo_can_be_run_again_in_its_folder(demo_run: tuple[Done, Path]):
    done, folder = demo_run
    assert run("demo", folder).stdout == done.stdout


def test_the_version_is_the_packages():
    import tracebraid

    assert succeed("--version") == f"tracebraid {tracebraid.__version__}\n"


def test_help_names_every_command():
    text = succeed("-h")
    assert all(command in text for command in ("info", "link", "summary", "demo"))


def test_the_installed_command_is_the_same():
    script = Path(sys.executable).with_name("tracebraid")
    if not script.exists():
        pytest.skip("the package is not installed beside this Python")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == succeed("--version", by=run_process)


# --- thresholds, usage, bad input -------------------------------------------------------------------


def test_enough_coverage_ends_well(pair: tuple[Path, Path]):
    assert "2 of 3" in succeed("link", *pair, "--min-coverage", "0.25")


def test_too_little_coverage_shows_the_ledger_and_ends_with_exit_code_1(pair: tuple[Path, Path]):
    done = run("link", *pair, "--min-coverage", "0.99")
    assert done.returncode == 1
    assert "2 of 3" in done.stdout
    assert done.stderr.strip() == "error: coverage is below 0.99: rank 0 0.2500"


def test_too_little_coverage_leaves_the_json_whole(pair: tuple[Path, Path]):
    done = run("link", *pair, "--min-coverage", "0.99", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["ranks"][0]["coverage"] == 0.25


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["info"],
        ["link"],
        ["link", "a", "b", "c"],
        ["link", "a", "--nonsense"],
        ["link", "a", "--min-coverage", "1.5"],
        ["link", "a", "--min-coverage", "much"],
        ["summary"],
        ["summary", "a", "--top", "0"],
        ["summary", "a", "b"],
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_exit_code_2(arguments: list[str]):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: " in done.stderr
    assert "Traceback" not in done.stderr


def truncated(text: str, share: float) -> bytes:
    return text.encode()[: int(share * len(text))]


BAD_FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "blank": (b" \n\t ", ""),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "PNG picture"),
    "binary": (bytes(range(256)) * 4, ""),
    "text": (b"hello, world\n", "no trace"),
    "other json": (b'{"a": 1}', "its keys are 'a'"),
    "a list": (b"[1, 2, 3]", ""),
    "cut off in its header": (truncated(kineto_text(EVENTS), 0.02), ""),
    "an array of rubbish": (b'{"traceEvents": [1, "x", null]}', ""),
    "an empty gzip": (gzip.compress(b""), ""),
    "half a gzip header": (b"\x1f\x8b\x08", ""),
    "deep json": (b"[" * 100_000, ""),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_trace_is_one_clear_error(tmp_path: Path, name: str):
    data, words = BAD_FILES[name]
    path = tmp_path / "kineto_trace_0.json"
    path.write_bytes(data)
    said = fail("summary", path)
    assert str(path) in said
    assert words in said
    assert said.strip().count("\n") == 0


@pytest.mark.parametrize("name", ["empty", "png", "other json"])
def test_an_execution_trace_that_is_none_is_one_clear_error(
    tmp_path: Path, pair: tuple[Path, Path], name: str
):
    data, words = BAD_FILES[name]
    path = tmp_path / "torch_et_0.json"
    path.write_bytes(data)
    said = fail("link", path, pair[1])
    assert str(path) in said
    assert words in said


def test_info_goes_on_after_a_file_that_is_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    write_pair(tmp_path)
    (tmp_path / "kineto_trace_9.json").write_bytes(b"\x89PNG")
    done = run("info", ".")
    assert done.returncode == 1
    assert "torch_et_0.json" in done.stdout
    assert "kineto_trace_9.json: this looks like a PNG picture" in done.stderr


def test_traces_that_changed_places_are_told_apart(pair: tuple[Path, Path]):
    said = fail("link", pair[1], pair[0], by=run_process)
    assert "change places" in said


def test_two_kineto_traces_are_no_pair(pair: tuple[Path, Path]):
    assert "this is a Kineto trace" in fail("link", pair[1], pair[1])


def test_an_execution_trace_has_no_summary(pair: tuple[Path, Path]):
    assert "Execution Trace, which has no times" in fail("summary", pair[0])


@pytest.mark.parametrize("command", ["info", "link", "summary"])
def test_a_path_that_is_not_there_is_one_clear_error(tmp_path: Path, command: str):
    said = fail(command, tmp_path / "missing")
    assert "there is no such file" in said


@pytest.mark.parametrize("command", ["info", "link", "summary"])
def test_a_folder_without_traces_is_one_clear_error(tmp_path: Path, command: str):
    (tmp_path / "notes.txt").write_text("x")
    assert str(tmp_path) in fail(command, tmp_path)


def test_a_rank_that_is_not_there_is_one_clear_error(job: Path):
    assert "it has ranks 0, 1" in fail("summary", job, "--rank", "7")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("no/such/folder/x.json", "cannot be written"),
        ("a_file/x.json", "cannot be written"),
        ("a_folder", "cannot be written"),
    ],
)
def test_an_output_that_cannot_be_written_is_one_clear_error(
    pair: tuple[Path, Path], tmp_path: Path, place: str, words: str
):
    (tmp_path / "a_folder").mkdir()
    (tmp_path / "a_file").write_text("x")
    assert words in fail("link", *pair, "-o", tmp_path / place)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a_file", "a_folder"]


def test_a_file_where_the_output_folder_should_be_is_one_clear_error(job: Path, tmp_path: Path):
    (tmp_path / "a_file").write_text("x")
    assert "a_file" in fail("link", job, "-o", tmp_path / "a_file")
    assert "a_file" in fail("demo", tmp_path / "a_file")
    assert (tmp_path / "a_file").read_text() == "x"


def test_an_output_that_cannot_be_filled_is_refused_and_not_left_out_in_silence(
    pair: tuple[Path, Path], tmp_path: Path
):
    """A Kineto trace alone has no ET+: `-o` that writes nothing must say so."""
    done = run("link", pair[1], "-o", tmp_path / "out")
    assert "Execution Trace" in done.stderr


# --- what goes where --------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["info"], ["link"], ["summary"], ["link", "--json"]], ids=" ".join)
def test_where_nothing_is_wrong_standard_error_stays_empty(job: Path, arguments: list[str]):
    assert run(arguments[0], job, *arguments[1:]).stderr == ""


def test_an_error_is_one_line_and_nothing_else(job: Path):
    said = fail("summary", job / "missing.json")
    assert said == f"error: {job / 'missing.json'}: there is no such file or folder. Check the path\n"


def test_a_damaged_trace_is_read_for_the_rest_with_a_located_warning(pair: tuple[Path, Path], tmp_path: Path):
    path = tmp_path / "kineto_trace_0.json"
    path.write_bytes(truncated(kineto_text(EVENTS), 0.9))
    done = run("link", pair[0], path)
    assert done.returncode == 0
    assert "2 of 3" in done.stdout
    assert "warning" not in done.stdout
    assert done.stderr.strip().startswith("warning: ")
    assert "cut off" in done.stderr
    assert str(path) in done.stderr


def test_warnings_are_in_the_json_too(pair: tuple[Path, Path], tmp_path: Path):
    path = tmp_path / "kineto_trace_0.json"
    path.write_bytes(truncated(kineto_text(EVENTS), 0.9))
    done = run("summary", path, "--json")
    assert "truncated" in {one["code"] for one in json.loads(done.stdout)["findings"]}


def test_a_truncated_gzip_is_read_for_the_rest(pair: tuple[Path, Path], tmp_path: Path):
    events = [op(f"op{i}", 10 * i, 5, Record_function_id=i + 1) for i in range(5000)]
    whole = gzip.compress(kineto_text(events).encode())
    path = tmp_path / "kineto_trace_0.json.gz"
    path.write_bytes(whole[: len(whole) // 2])
    done = run("link", pair[0], path)
    assert done.returncode == 0
    assert "gzip" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [["link", "--json"], ["summary"]], ids=" ".join)
def test_a_reader_that_goes_away_leaves_no_traceback(job: Path, arguments: list[str]):
    """As `| head` does; here the pipe is closed before the first byte."""
    command = [sys.executable, "-m", "tracebraid", arguments[0], str(job), *arguments[1:]]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        said = process.stderr.read().decode()
    process.wait()
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert "BrokenPipe" not in said


def test_output_into_head_ends_quietly(demo: Path):
    command = f"'{sys.executable}' -m tracebraid summary '{demo}' --json | head -n 2"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 2
    assert "error" not in done.stderr
    assert "Traceback" not in done.stderr


def test_no_output_holds_terminal_codes(job: Path):
    assert "\x1b" not in succeed("summary", job)
    assert "\x1b" not in fail("summary", job / "missing")


MARKUP = "[bold]x[/bold] [/] [link=http://a]b a\\ 100%"
EMOJI = "loss:fire: :key:"


@pytest.mark.parametrize("name", [MARKUP, EMOJI], ids=["markup", "emoji"])
@pytest.mark.parametrize(
    "events",
    [
        pytest.param(lambda name: [op(name, 0, 9)], id="op"),
        pytest.param(lambda name: [op("op", 0, 9), kernel(name, 0, 9, 1)], id="kernel"),
        pytest.param(
            lambda name: [op("op", 0, 9), op(f"ProfilerStep#{name}", 0, 9, cat="user_annotation")], id="step"
        ),
        pytest.param(
            lambda name: [op("op", 0, 9), *({**kernel("k", 0, 9, 1), "pid": pid} for pid in (name, 0))],
            id="device",
        ),
    ],
)
def test_names_are_printed_as_they_stand(tmp_path: Path, events: Callable[[str], list[Any]], name: str):
    path = write(tmp_path / "kineto_trace_0.json", kineto_text(events(name)))
    assert name in succeed("summary", path)


@pytest.mark.parametrize("name", ["[bold]x[]", "a:fire:b"], ids=["markup", "emoji"])
def test_paths_are_printed_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.chdir(tmp_path)
    write_pair(Path(name))
    assert f"{name}/torch_et_0.json" in succeed("info", name)
    assert f"{name}/missing" in fail("link", f"{name}/missing")
    done = run("demo", name)
    assert done.returncode == 0
    assert f"are in {name}." in done.stdout


def test_control_characters_in_names_reach_no_terminal(tmp_path: Path):
    """Traces are handed around: a name must not clear the screen, nor break its row in two."""
    events = [op("red\x1b[31m\x07", 0, 9), op("two\nlines", 20, 5), kernel("back\rward", 30, 5, 1)]
    path = write(tmp_path / "kineto_trace_0.json", kineto_text(events))
    text = succeed("summary", path)
    assert not any(character in text for character in "\x1b\x07\r")
    assert not any(line.strip() == "lines" for line in text.splitlines())


def test_an_output_that_takes_ascii_alone_gets_what_it_can_take(pair: tuple[Path, Path]):
    command = [sys.executable, "-m", "tracebraid", "summary", str(pair[1])]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0
    assert "gemm" in done.stdout
    assert "Traceback" not in done.stderr


# --- cost of an import ------------------------------------------------------------------------------


def python(code: str, *arguments: object) -> str:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_importing_takes_next_to_no_time():
    code = "import time; t = time.perf_counter(); import tracebraid; print(time.perf_counter() - t)"
    assert min(float(python(code)) for _ in range(5)) < 0.35


HEAVY = "print(sorted({'torch', 'pandas', 'jinja2', 'plotly', 'ray', 'matplotlib'} & set(sys.modules)))"


def test_importing_loads_no_heavy_library():
    assert python(f"import sys, tracebraid; {HEAVY}") == "[]\n"


def test_opening_linking_and_asking_load_no_heavy_library(job: Path):
    code = (
        "import sys, tracebraid; job = tracebraid.open(sys.argv[1]); job[0]; tracebraid.breakdown(job);"
        f"tracebraid.kernels(job); tracebraid.ops(job); {HEAVY}"
    )
    assert python(code, job) == "[]\n"
