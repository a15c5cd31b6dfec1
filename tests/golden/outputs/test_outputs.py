"""Every command prints and writes what it did, on the demo, captures, planted jobs, and real traces where they are."""

from __future__ import annotations

import difflib
import os
import subprocess
import sys

import pytest

from tests.conftest import find_real_traces
from tests.golden.outputs.cases import NEEDS_MORE, SLOW, TOPICS, commands_in
from tests.golden.outputs.records import EXPECTED, first_forms, sections_of, text_of
from tests.golden.outputs.running import Runner

_MOST_BYTES = 300_000
FULL = {*SLOW, "analyze_others", "stores", "wrong_usage"}
"""Topics that the gate leaves to the full suite: others run the same commands on plain traces."""
_SHOWN = 60
"""Lines of a difference that a failure shows."""


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Runner:
    return Runner(tmp_path_factory.mktemp("golden"), one_form=request.config.getoption("gate"))


@pytest.mark.parametrize(
    "topic",
    [
        pytest.param(topic, marks=[pytest.mark.slow] * (topic in SLOW) + [pytest.mark.full] * (topic in FULL))
        for topic in TOPICS
    ],
)
def test_commands_print_and_write_what_they_did(
    topic: str, runner: Runner, request: pytest.FixtureRequest
) -> None:
    if topic == "real_traces" and find_real_traces() is None:
        pytest.skip("needs the real traces: set TRACEBRAID_TRACES to their folder")
    golden = (EXPECTED / f"{topic}.txt").read_text("utf-8").splitlines()
    if request.config.getoption("gate"):
        golden = first_forms(golden)
    found = text_of(runner.sections(topic)).splitlines()
    lines = list(difflib.unified_diff(golden, found, f"expected/{topic}.txt", "this checkout", lineterm=""))
    if lines:
        more = [f"... and {len(lines) - _SHOWN} lines"] if len(lines) > _SHOWN else []
        anew = (
            f"`python -m tests.golden.outputs {topic}` takes the new output; with --keep FOLDER it writes all "
            "of it, to be compared with that of another checkout by `diff -r`"
        )
        pytest.fail("\n".join([*lines[:_SHOWN], *more, anew]), pytrace=False)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("line", ["summary demo --json", "analyze launch_events job", "advise nothing"])
def test_a_process_of_its_own_with_more_threads_prints_the_same(line: str, runner: Runner) -> None:
    with runner.running(line, None) as here:
        argv = [sys.executable, "-m", "tracebraid", *line.split()]
        environment = {**os.environ, "POLARS_MAX_THREADS": "3"}
        done = subprocess.run(
            argv, cwd=runner.folder, env=environment, capture_output=True, encoding="utf-8", check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (here.code, here.stdout, here.stderr)


def test_every_command_is_run(runner: Runner) -> None:
    golden = [
        line.split()
        for topic in TOPICS
        if topic not in ("help", "wrong_usage")
        for line in sections_of((EXPECTED / f"{topic}.txt").read_text("utf-8"))
    ]
    with runner.running("--help", None) as output:
        commands = set(commands_in(output.stdout))
    with runner.running("chakra --help", None) as output:
        of_chakra = set(commands_in(output.stdout))
    assert len(commands) > 20
    assert commands - {words[0] for words in golden} == NEEDS_MORE
    assert {words[1] for words in golden if words[0] == "chakra"} == of_chakra


def test_golden_files_are_those_of_the_topics_and_stay_small() -> None:
    assert {path.stem for path in EXPECTED.iterdir()} == set(TOPICS)
    assert sum(path.stat().st_size for path in EXPECTED.iterdir()) < _MOST_BYTES
