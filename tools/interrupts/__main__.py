"""`python -m tools.interrupts [--interrupts N] [--kills N] [--jobs N] [--seed N] [--record FILE]`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

from tools.interrupts.model import KILLS, SUBJECTS, Fault, Stroke, Trial, lay_out_inputs, prepare_forks
from tools.interrupts.trial import Place, import_needed, measured_s, run_trial
from tools.processes import stop_ignoring_signals

_INTERRUPTS = tuple(stroke for stroke in Stroke if stroke not in KILLS)


def main() -> int:
    """Run the trials; 1 where one found a fault."""
    options = _options()
    if options.share is not None:
        _run_share(options)
        return 0
    trials = [_trial(line) for path in options.results for line in path.open()] or list(_trials(options))
    print(summary(trials))
    if options.record is not None:
        options.record.write_text(record(trials, " ".join(["python -m tools.interrupts", *sys.argv[1:]])))
    return int(any(trial.faults for trial in trials))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.interrupts", description=__doc__)
    parser.add_argument("--interrupts", type=int, default=1000, help="Trials with SIGINT.")
    parser.add_argument("--kills", type=int, default=1000, help="Trials with the other signals.")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="Trials at a time.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="Only commands whose names have this in them.")
    parser.add_argument("--record", type=Path, help="Write the record here, in Markdown.")
    parser.add_argument("--results", type=Path, nargs="*", default=[], help="Record these; lines of --share.")
    parser.add_argument(
        "--share", type=int, help="Run every JOBS-th trial from this one, and print each as JSON."
    )
    return parser.parse_args()


def _trials(options: argparse.Namespace) -> Iterator[Trial]:
    """The trials of all shares, each share in a process of its own."""
    words = [sys.executable, "-m", "tools.interrupts", *sys.argv[1:], "--jobs", str(options.jobs)]
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(options.jobs)]
        shares = [
            subprocess.Popen([*words, "--share", str(share)], stdout=file) for share, file in enumerate(files)
        ]
        codes = [share.wait() for share in shares]
        for file in files:
            file.seek(0)
            for line in file:
                yield _trial(line)
        if any(codes):
            raise SystemExit(f"the trials ended with exit codes {codes}")


def _trial(line: str) -> Trial:
    return Trial(**json.loads(line))


def _run_share(options: argparse.Namespace) -> None:
    """Every `jobs`-th trial, each as a line of JSON."""
    stop_ignoring_signals()
    subjects = [subject for subject in SUBJECTS if options.only in subject.name]
    with tempfile.TemporaryDirectory(prefix="interrupts-") as name:
        place = Place(Path(name))
        lay_out_inputs(place.inputs)
        if any(subject.call or subject.is_forked for subject in subjects):
            prepare_forks()
        takes_s: dict[str, float] = {}
        for number in range(options.share, options.interrupts + options.kills, options.jobs):
            rng = random.Random(f"{options.seed}:{number}")
            subject = rng.choices(subjects, [subject.weight for subject in subjects])[0]
            # Both kinds in turn, so that a run that is stopped has some of both.
            share = options.interrupts / (options.interrupts + options.kills)
            kinds = _INTERRUPTS if int((number + 1) * share) > int(number * share) else KILLS
            subject = replace(subject, strokes=tuple(kind for kind in subject.strokes if kind in kinds))
            if subject.name not in takes_s:
                if subject.is_forked:
                    import_needed(place, subject)
                takes_s[subject.name] = measured_s(place, subject)
            trial = run_trial(place, subject, number, rng, takes_s[subject.name])
            sys.stdout.write(json.dumps(asdict(trial)) + "\n")
            sys.stdout.flush()
            if trial.faults:
                sys.stderr.write(json.dumps(asdict(trial)) + "\n")


def summary(trials: Sequence[Trial]) -> str:
    """One line."""
    struck = [trial for trial in trials if not trial.had_ended]
    faults = [name for trial in trials for name in trial.faults]
    return f"{len(trials)} trials, {len(struck)} struck while they ran, {len(faults)} faults {sorted(set(faults))}"


def record(trials: Sequence[Trial], command: str) -> str:
    """Two tables in Markdown: by command, and by signal."""
    lines = [
        f"`{command}`, on {platform.platform()} with Python {platform.python_version()}: {summary(trials)}.",
        "",
        "| command | struck | by the signal | interrupted | well | run again | faults | median s to end | longest |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    names = sorted({trial.subject for trial in trials})
    lines += [_row(name, [trial for trial in trials if trial.subject == name]) for name in names]
    lines += ["", lines[2].replace("command", "signal", 1), lines[3]]
    lines += [
        _row(stroke.value, [trial for trial in trials if trial.stroke == stroke.name]) for stroke in Stroke
    ]
    lines += ["", "| fault | trials |", "|---|--:|"]
    lines += [f"| {fault.value} | {sum(fault.name in trial.faults for trial in trials)} |" for fault in Fault]
    return "\n".join(lines) + "\n"


def _row(title: str, trials: Sequence[Trial]) -> str:
    struck = [trial for trial in trials if not trial.had_ended]
    numbers = [
        len(struck),
        sum((trial.returncode or 0) < 0 or trial.returncode in (129, 131, 137, 143) for trial in struck),
        sum(trial.returncode == 130 for trial in struck),
        sum(trial.returncode == 0 for trial in struck),
        sum(trial.ran_again for trial in trials),
        sum(len(trial.faults) for trial in trials),
    ]
    ends_s = [trial.ended_s for trial in struck] or [0.0]
    times = [f"{statistics.median(ends_s):.2f}", f"{max(ends_s):.2f}"]
    return f"| {title} | {' | '.join(map(str, [*numbers, *times]))} |"


if __name__ == "__main__":
    sys.exit(main())
