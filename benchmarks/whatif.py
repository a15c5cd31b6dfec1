"""What predictions are worth: pairs of captures with and without a change, predicted from the first alone.

    python -m benchmarks.whatif [--rounds 3] [--only straggler] [--json] [--keep FOLDER]

Needs torch. Each round captures both programs of a pair, one right after the other, in an order that alternates, so
that what else the machine does falls on both alike. The change is the text of `--change`; `tracebraid.what_if` predicts
from the capture without it. With --keep the captures stay, and those that are there are used.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from benchmarks.whatif_programs.changes import CHANGES
from benchmarks.whatif_programs.pairs import Pair, capture_pair, measured_pair

__all__: list[str] = []


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    given = _parser().parse_args(arguments)
    names = given.only or list(CHANGES)
    with nullcontext(given.keep) if given.keep else tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        pairs = []
        for name in names:
            print(name, file=sys.stderr)
            capture_pair(name, folder, given.rounds)
            pairs.append(measured_pair(name, folder, given.rounds))
    if given.json:
        found = [asdict(pair) | {"error_ms": pair.error_ms, "right": pair.right} for pair in pairs]
        print(json.dumps({"pairs": found, "same_order": same_order(pairs)}, indent=2))
        return
    print(table(pairs))
    tenth, right = sum(pair.within_a_tenth for pair in pairs), sum(pair.right for pair in pairs)
    print(f"\nof {len(pairs)}, within 10 % of the gain: {tenth}; within that or the noise: {right}")
    print(
        f"two changes whose gains differ by more than the noise are in the right order: {same_order(pairs):.0%}"
    )


def same_order(pairs: Sequence[Pair]) -> float:
    """Of all two changes whose gains differ by more than the noise of both, the share that is predicted in order."""
    known = [
        (first.predicted_ms > other.predicted_ms) == (first.measured_ms > other.measured_ms)
        for index, first in enumerate(pairs)
        for other in pairs[:index]
        if abs(first.measured_ms - other.measured_ms) > first.noise_ms + other.noise_ms
    ]
    return sum(known) / len(known) if known else 1.0


def table(pairs: Sequence[Pair]) -> str:
    """As Markdown, by gain."""
    lines = [
        "| program | change | step | predicted gain | measured gain | noise | error | within |",
        "|---|---|--:|--:|--:|--:|--:|---|",
    ]
    for pair in sorted(pairs, key=lambda pair: -pair.measured_ms):
        error = pair.error_ms / abs(pair.measured_ms) if pair.measured_ms else 0.0
        lines.append(
            f"| {pair.name} | `{pair.change}` | {pair.step_ms:.2f} ms | {pair.predicted_ms:.2f} ms "
            f"| {pair.measured_ms:.2f} ms | {pair.noise_ms:.2f} ms | {error:+.0%} | {_verdict(pair)} |"
        )
    lines += [
        "",
        "| program | replayed, median | 95 % | next step, median | 95 % | recorded / not recorded |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for pair in pairs:
        shares = (pair.replayed, pair.replayed_p95, pair.next_step, pair.next_step_p95)
        lines.append(
            f"| {pair.name} | {' | '.join(f'{share:.1%}' for share in shares)} | {pair.recorded:.2f} |"
        )
    return "\n".join(lines)


def _verdict(pair: Pair) -> str:
    if pair.within_a_tenth:
        return "10 %"
    return "noise" if pair.right else "neither"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.whatif", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each is captured (3)")
    parser.add_argument("--only", action="append", choices=list(CHANGES), help="only this; may be repeated")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where captures lie and stay")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    main()
