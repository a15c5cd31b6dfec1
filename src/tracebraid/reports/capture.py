"""Report the outcome of a captured command."""

from __future__ import annotations

from collections.abc import Sequence

from tracebraid.model.capture_outcome import CaptureOutcome, NothingCaptured, Recorded
from tracebraid.model.check import Check
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
    detail = outcome.detail
    if outcome.nothing is NothingCaptured.PATH_REPLACED and detail:
        detail = f" ({detail})"
    return printable(f"nothing was captured: {what.format(detail)}"), advice


def recorded_text(ranks: Sequence[Recorded], check: Check | None) -> str:
    """Summarise a recording in one line: steps, their source, operators, and the overhead."""
    first = ranks[0]
    words = [f"recorded {_steps(first.steps)} of {first.steps_seen}"]
    words.append(f"counted by {first.counted_by}{f' ({first.loop})' if first.loop else ''}")
    if check is not None:
        ops = sum(rank.coverage.et_nodes.total for rank in check.ranks if rank.coverage is not None)
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
    return printable(of_ranks + ", ".join(words))


def _steps(steps: Sequence[int]) -> str:
    """Format step numbers as ranges."""
    runs: list[list[int]] = []
    for step in steps:
        if runs and step == runs[-1][1] + 1:
            runs[-1][1] = step
        else:
            runs.append([step, step])
    shown = ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in runs)
    return f"step{'s' if len(steps) > 1 else ''} {shown}"
