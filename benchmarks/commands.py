"""What each command costs on the bundled traces, as a multiple of `python -c pass`; and an answer with and without ET.

    python -m benchmarks.commands [--rounds 5] [--beside SRC]

`--beside` names the `src` folder of another checkout, which is measured in turn with this one. Figures are medians of
processor time (user and system) over the rounds, each in a fresh process; libraries' loading counts.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import tracebraid

__all__: list[str] = []

_HERE = str(Path(tracebraid.__file__).parents[1])
_COMMANDS = {
    "tracebraid --version": ["--version"],
    "tracebraid --help": ["--help"],
    "tracebraid info DIR": ["info", "JOB"],
    "tracebraid check DIR": ["check", "JOB"],
    "tracebraid link DIR": ["link", "JOB"],
    "tracebraid link DIR -o OUT": ["link", "JOB", "-o", "OUT"],
    "tracebraid summary DIR": ["summary", "JOB"],
    "tracebraid summary DIR --json": ["summary", "JOB", "--json"],
    "tracebraid demo": ["demo"],
    "tracebraid demo DIR": ["demo", "OUT"],
}
_ANSWER = """
import resource, sys, tracebraid, tracebraid.api
tracebraid.breakdown(tracebraid.open(sys.argv[1]))
def used_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
began_s = used_s()
for path in sys.argv[1:]:
    tracebraid.breakdown(tracebraid.open(path))
print(used_s() - began_s)
"""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.commands")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="how often each is measured (5)")
    parser.add_argument("--beside", metavar="SRC", help="the src folder of another checkout")
    given = parser.parse_args()
    sources = [_HERE, *([str(Path(given.beside).resolve())] if given.beside else [])]
    print("| what |" + "".join(f" {name} | times `pass` |" for name in ("here", "beside")[: len(sources)]))
    print("|---|" + "--:|--:|" * len(sources))
    with tempfile.TemporaryDirectory() as folder:
        job = Path(shutil.copytree(tracebraid.demo_path(), Path(folder) / "job"))
        start_s = median(_process_s(["-c", "pass"], _HERE) for _ in range(given.rounds))
        for name, arguments in _COMMANDS.items():
            paths = {"JOB": str(job), "OUT": str(Path(folder) / "out")}
            command = ["-m", "tracebraid", *(paths.get(one, one) for one in arguments)]
            rounds = [[_process_s(command, source) for source in sources] for _ in range(given.rounds)]
            _print_row(f"`{name}`", rounds, start_s)
        kinetos = [str(path) for path in sorted(job.glob("kineto_trace_*"))]
        for name, inputs in {
            "open and breakdown, with ET": [str(job)],
            "the same without ET": kinetos,
        }.items():
            rounds = [[_answer_s(inputs, source) for source in sources] for _ in range(given.rounds)]
            _print_row(name, rounds, start_s)


def _print_row(name: str, rounds: list[list[float]], start_s: float) -> None:
    medians = [median(column) for column in zip(*rounds, strict=True)]
    print(f"| {name} |" + "".join(f" {each_s:.2f} s | {each_s / start_s:.0f} |" for each_s in medians))


def _process_s(arguments: list[str], source: str) -> float:
    """Processor time of a Python process, seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _run(arguments, source)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _answer_s(inputs: list[str], source: str) -> float:
    return float(_run(["-c", _ANSWER, *inputs], source))


def _run(arguments: list[str], source: str) -> str:
    environment = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


if __name__ == "__main__":
    main()
