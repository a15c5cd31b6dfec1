"""Report the outcome of a captured command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tracebraid.model.capture_facts import PROCESS
from tracebraid.model.capture_outcome import CaptureOutcome, NothingCaptured, Recorded
from tracebraid.model.check import Check, CheckedRank
from tracebraid.model.printable import printable

_IN_CODE = (
    "Put `with tracebraid.capture(...) as cap:` around its loop, and cap.step() at the end of each iteration"
)
_NOTHING: dict[NothingCaptured, tuple[str, str]] = {
    NothingCaptured.NO_PYTHON: (
        "no Python process of it read the file that sets up the capture. It may start none, on this machine at "
        "least; or replace PYTHONPATH or the environment; or start Python with -I, -E or -S",
        _IN_CODE.capitalize(),
    ),
    NothingCaptured.PYTHON_OPTIONS: (
        "it starts Python with {}, which keeps the capture out",
        f"Drop that option. Or: {_IN_CODE}",
    ),
    NothingCaptured.PATH_REPLACED: (
        "it sets PYTHONPATH, or clears the environment, which disables the capture in its processes{}",
        f"Set PYTHONPATH around `tracebraid capture` instead. Or: {_IN_CODE}",
    ),
    NothingCaptured.NOT_INSTALLED: ("{}", "Install tracebraid[capture] in the environment of the command"),
    NothingCaptured.NO_TORCH: (
        "its Python processes imported no torch",
        "Where it trains in a process that it starts with an environment of its own, or in a container or on another "
        f"machine: {_IN_CODE}",
    ),
    NothingCaptured.NO_STEPS: (
        "it used torch, but no step was seen: no optimizer stepped and no torch.nn.Module was called",
        _IN_CODE.capitalize(),
    ),
    NothingCaptured.OPTIMIZER_UNSEEN: (
        "it created an optimizer, which took no step",
        f"Count calls of the model instead: --steps-by module. Or: {_IN_CODE}",
    ),
    NothingCaptured.OPTIMIZER_COMPILED: (
        "it created an optimizer, but none of its steps was seen, as steps inside torch.compile are invisible",
        f"Count calls of the model instead: --steps-by module. Or: {_IN_CODE}",
    ),
    NothingCaptured.EXCEPTION: (
        "its process ended with {} before the window began",
        "See its output above. If it is meant to end there, lower --skip-first, --wait or --warmup",
    ),
    NothingCaptured.TOO_FEW_STEPS: (
        "the loop was over after {}, before the window began",
        "Run more steps, or lower --skip-first, --wait or --warmup. If these are not the intended steps: "
        "--steps-by optimizer or --steps-by module",
    ),
    NothingCaptured.OTHER_THREADS: (
        "it took {}, of which --memory, --nsys and old versions of torch record one",
        "Leave --memory and --nsys out",
    ),
    NothingCaptured.SHORT_LOOPS: (
        "its {} at most, and the steps of each are a loop of their own, which ended before the window began",
        f"Lower --skip-first, --wait or --warmup. Or: {_IN_CODE}",
    ),
    NothingCaptured.KILLED: (
        "process {} was killed, or exited without Python's finalisation, before its window ended",
        "Look at its log; lower --skip-first, --wait or --warmup to be done earlier",
    ),
    NothingCaptured.OWN_CAPTURE: (
        "the program calls tracebraid.capture itself, which takes precedence: its traces are in that folder",
        "Run it without `tracebraid capture`",
    ),
    NothingCaptured.WINDOW_LOST: ("{}", "Remove the cause, and capture again"),
    NothingCaptured.REFUSED: ("{}", "Remove the cause, and capture again"),
}


def nothing_text(outcome: CaptureOutcome) -> tuple[str, str]:
    """Explain why nothing was recorded, and what to do."""
    assert outcome.nothing is not None, "something was recorded"
    what, advice = _NOTHING[outcome.nothing]
    # What the folder's own files are called stands behind its path.
    detail = outcome.detail.removeprefix(f"{outcome.out_dir}: ").removeprefix(f"{outcome.out_dir}/")
    if outcome.nothing is NothingCaptured.PATH_REPLACED and detail:
        detail = f" ({detail})"
    return printable(f"nothing was captured: {what.format(detail)}"), advice


def recorded_texts(recorded: Sequence[Recorded], check: Check | None) -> list[str]:
    """Summarise a recording, in a line for each process of a rank: steps, their source, operators, and the overhead."""
    folders = sorted({one.folder for one in recorded}, key=lambda folder: (len(folder), folder))
    texts = [
        _recorded_text(folder, [one for one in recorded if one.folder == folder], check) for folder in folders
    ]
    died = Counter(ended_by for one in recorded for ended_by in one.died)
    if died:
        count = sum(died.values())
        how = ", ".join(
            f"{ended_by or 'killed'}{f' {n} times' if n > 1 else ''}" for ended_by, n in died.items()
        )
        attempts = sorted({one.attempt for one in recorded if one.died})
        of_attempts = f"attempt{'s' if len(attempts) > 1 else ''} {', '.join(map(str, attempts))}"
        what = (
            "process died before its window was whole"
            if count == 1
            else "processes died before their windows were whole"
        )
        texts.append(
            printable(f"{count} {what} ({how}); {of_attempts}, counted from 0, was recorded after that")
        )
    return texts


def _recorded_text(folder: str, ranks: Sequence[Recorded], check: Check | None) -> str:
    first = ranks[0]
    at_least = "at least " if first.ended_by is None or not first.counted_to_end else ""
    # A step that was interrupted inside the window is recorded, and has not ended.
    steps_seen = max(first.steps_seen, *(step + 1 for step in first.steps))
    words = [f"recorded {_steps(first.steps)} of {at_least}{steps_seen}"]
    if first.ended_by not in ("end", None):
        words.append(f"ended by {first.ended_by}")
    if first.attempt and not first.died:
        words.append(f"after {first.attempt} restart{'s' if first.attempt > 1 else ''}")
    words.append(f"counted by {first.counted_by}{f' ({first.loop})' if first.loop else ''}")
    if check is not None:
        ops = sum(
            rank.coverage.et_nodes.total
            for rank in check.ranks
            if rank.coverage is not None and _process_of(rank) == folder
        )
        words.append(f"{ops:,} operators")
    costs = [rank.traced_to_untraced for rank in ranks if rank.traced_to_untraced is not None]
    # Below 1 the steps that were compared differ by more than recording costs.
    if costs and max(costs) >= 1:
        on_host = " on the host" if any(rank.has_device for rank in ranks) else ""
        words.append(f"a recorded step took {max(costs):.1f} times as long{on_host}")
    words += [
        f"after which {loop['counted_by']} ({loop['name']}) took too few steps to be recorded: {loop['steps']}"
        for loop in first.loops
        if loop["followed"] and loop["counted_by"] != first.counted_by
    ]
    of_ranks = f"{len(ranks)} ranks " if len(ranks) > 1 else ""
    return printable(f"{folder + ': ' if folder else ''}{of_ranks}{', '.join(words)}")


def _process_of(rank: CheckedRank) -> str:
    """The folder of the process of a checked rank."""
    first = rank.window.partition("/")[0]
    return first if first.startswith(PROCESS) else ""


_SHOWN_RUNS = 4
"""Maximum ranges of steps in a line: a capture may have hundreds of windows."""


def _steps(steps: Sequence[int]) -> str:
    """Format step numbers as ranges."""
    runs: list[list[int]] = []
    for step in steps:
        if runs and step == runs[-1][1] + 1:
            runs[-1][1] = step
        else:
            runs.append([step, step])
    if len(runs) > _SHOWN_RUNS:
        return f"{len(steps)} steps in {len(runs)} windows, from {runs[0][0]} to {runs[-1][1]},"
    shown = ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in runs)
    return f"step{'s' if len(steps) > 1 else ''} {shown}"
