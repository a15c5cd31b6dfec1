"""Do arguments at every limit end in one message that says what to give?"""

from __future__ import annotations

from pathlib import Path

import pytest

import tracebraid
from tests.planted import PlannedJob
from tests.planted.graphs import graph_of
from tools.fuzz.calls.commands import run_command
from tracebraid.errors import ArgumentError, TracebraidError
from tracebraid.model.graph import DependencyGraph

TOO_LONG = "n" * 300
HUGE = "9223372036854775808"


@pytest.fixture(scope="module")
def graph() -> DependencyGraph:
    job = PlannedJob(2)
    with job.step(1):
        job.compute(100_000)
        job.compute(100_000)
        job.collective(transfer=50_000)
    return graph_of(job)


@pytest.mark.parametrize(
    "change",
    [
        "scale 100000000000000000000",
        "set 9223372036854775807ns",
        "set 4000000000s",
        f"move {HUGE}",
        "fuse 100000000000000000000 family=gemm",
        "fuse 2 factor=100000000000000000000 family=gemm",
        "bandwidth 0.00000000000000001",
        "ranks 100000000000000000000",
        "split 1.5",
    ],
)
def test_changes_that_64_bits_do_not_hold_are_refused(graph: DependencyGraph, change: str) -> None:
    with pytest.raises(ArgumentError):
        tracebraid.what_if(graph, change)


def test_what_is_as_long_as_it_was_gains_nothing(graph: DependencyGraph) -> None:
    assert tracebraid.what_if(graph, "scale 1").gain_ns == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("chain", "--ranks", "99999999999", "--chain", "COMP 100us"),
        ("chain", "--ranks", "2", "--chain", "COMP 4611686018s > COMP 4611686018s > COMP 4611686018s"),
        ("chain", "--ranks", "2", "--steps", HUGE, "--chain", "COMP 100us"),
        ("ring-all-reduce", "--ranks", "2", "--steps", HUGE),
        ("transformer", "--data", HUGE),
        ("transformer", "--data", "2", "--layers", HUGE),
        ("transformer", "--data", "2", "--hidden", "16" + "0" * 30, "--heads", "16"),
        ("transformer", "--data", "2", "--experts", "9" * 400),
        ("transformer", "--data", "2", "--tflops", "1e-320"),
        ("transformer", "--data", "2", "--gb-per-s", "inf"),
        ("transformer", "--data", "2", "--efficiency", "nan"),
    ],
)
def test_jobs_too_large_to_be_generated_are_refused_at_once(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    assert run_command("chakra", "generate", *arguments, "-o", tmp_path / "job").code == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["--num_npus", "--default_runtime", "--default_comm_size"])
def test_the_peers_generator_refuses_what_64_bits_do_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _code("chakra-generator", option, HUGE) in (1, 2)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        (
            "chakra-trace-link",
            "--chakra-host-trace",
            "a",
            "--chakra-device-trace",
            "b",
            "--output-file",
            TOO_LONG,
        ),
        (
            "chakra-trace-link",
            "--chakra-host-trace",
            TOO_LONG,
            "--chakra-device-trace",
            "b",
            "--output-file",
            "c",
        ),
        ("chakra-jsonizer", "--input_filename", TOO_LONG, "--output_filename", "b"),
        ("chakra", "convert", "a", "-o", TOO_LONG),
        ("chakra", "convert", TOO_LONG, "-o", "a"),
        ("chakra", "convert", "a", "b", "-o", "."),
        ("analyze", "steps", TOO_LONG),
        ("analyze", TOO_LONG),
        ("sql", "a", "select 1", "--allow-files", TOO_LONG),
        ("report", "a", "-o", f"{TOO_LONG}/a.html"),
        ("summary", TOO_LONG, "--cache"),
        ("export", "a", "--to", "csv", "-o", TOO_LONG),
    ],
)
def test_names_that_no_file_can_have_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _code(*arguments) in (1, 2)


@pytest.mark.parametrize(
    "arguments", [("\x1b[31m",), ("info", "--\x1b[31m"), ("info", "a", "--json=\x9b"), ("chakra", "\u202e")]
)
def test_messages_about_usage_do_not_steer_a_terminal(arguments: tuple[str, ...]) -> None:
    assert run_command(*arguments).code == 2


def _code(*arguments: str) -> int:
    """The exit code of a command; anything but an error of ours comes through."""
    try:
        return run_command(*arguments).code
    except TracebraidError:
        return 1
