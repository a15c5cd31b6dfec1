"""Examine the advice: real programs with a planted fault, whose cost is measured without a trace.

    python -m benchmarks.examination [--rounds 3] [--only tiny_ops] [--keep FOLDER] [--json]

    python -m benchmarks.examination --device [--rounds 3] [--only NAME] [--keep FOLDER] [--json]

    python -m benchmarks.examination --planted [--only NAME]

The first needs torch, and a quiet machine. Each round times the program with its fault and without it, one right
after the other; what the fault costs is the difference of the medians (means, where steps differ on purpose). Then the
faulty form is captured and `tracebraid advise` asked. With --keep the captures and the times stay, and those that are
there are used.

The second does the same with programs on a GPU; with --keep it needs none for those that are there.

The third plants traces in code, each with a known answer, and asks for it in this process: no torch, no timing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.examination.cases import CASES, DEVICE_CASES, Case
from benchmarks.measure import ROOT

__all__: list[str] = []

_LIMIT_S = 300
_TRIES = 3
"""gloo's processes now and then abort while they leave."""
_LEAST_SHARE = 0.05
"""A clean program may have no item that saves more than this share of its step."""
_GROWTH = "memory-growth"
"""Stands for what an answer says of memory that grows: it costs no time."""
_LOOKED_AT = 3
"""So many first items count as false where they would change nothing."""


@dataclass(frozen=True)
class Score:
    """What was said of a program.

    Args:
        step_ms: median step with the fault, untraced.
        true_ms: what the fault costs per step, untraced.
        first: the first item's name; empty: none.
        saves_ms: what it says that it saves per step; None: there is no item.
        stated_ms: the interval that it states of that; None: none, or a bound from above.
        cause: whether the first item names the cause; of a clean program, whether no item is over 5 %.
        place: whether it names the place.
        inside: whether the true saving is inside the interval; None: nothing to compare.
        false_items: items among the first three that name no cause of this program.
        shown: how many there are among the first three.
        said: what must not be said of this program, and was.
        verdict: the sentences before the items.
    """

    name: str
    step_ms: float
    true_ms: float
    first: str
    saves_ms: float | None
    stated_ms: tuple[float, float] | None
    cause: bool
    place: bool
    inside: bool | None
    false_items: tuple[str, ...]
    shown: int
    said: tuple[str, ...]
    verdict: str


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    given = _parser().parse_args(arguments)
    if given.planted:
        from benchmarks.examination.planted import score

        print(score.table(score.run(given.only or list(score.PLANTED))))
        return
    with nullcontext(given.keep) if given.keep else tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        folder.mkdir(parents=True, exist_ok=True)
        scores, cases = [], DEVICE_CASES if given.device else CASES
        for name in given.only or list(cases):
            print(name, file=sys.stderr)
            scores.append(examined(name, cases[name], folder, given.rounds))
    print(json.dumps([asdict(score) for score in scores], indent=2) if given.json else table(scores))


def examined(name: str, case: Case, folder: Path, rounds: int) -> Score:
    """Measure, capture and judge one program."""
    times = _times(name, folder, rounds, fmean if case.uneven else median)
    step_ms = median(times["faulty"])
    capture = folder / name
    if not capture.exists():
        _run(name, "faulty", "-", str(capture))
    return judged(name, case, step_ms, step_ms - median(times["mended"]), *_advice(capture))


def _times(
    name: str, folder: Path, rounds: int, middle: Callable[[list[float]], float]
) -> dict[str, list[float]]:
    """Middle steps of both forms of each round, in ms; measured once for a folder."""
    kept = folder / f"{name}.times.json"
    if not kept.exists():
        times: dict[str, list[float]] = {"faulty": [], "mended": []}
        for _ in range(rounds):
            for form, found in times.items():
                found.append(_step_ms(name, form, folder, middle))
        kept.write_text(json.dumps(times))
    measured: dict[str, list[float]] = json.loads(kept.read_text())
    return measured


def judged(
    name: str, case: Case, step_ms: float, true_ms: float, items: list[dict[str, Any]], verdict: str
) -> Score:
    """Score the items of an answer against what is known of the program."""
    first = items[0] if items else {}
    text = " ".join(str(first.get(key) or "") for key in ("op", "call_site", "subject", "shapes"))
    text += "".join(f" rank {rank}" for rank in first.get("ranks", ()))
    stated = _interval_ms(first)
    allowed = {*case.causes, *case.also_true}
    large = {item["detector"] for item in items if item["share"] > _LEAST_SHARE}
    cause = (
        first.get("detector") in case.causes
        if case.causes
        else any(word in verdict for word in case.verdict)
        if case.verdict
        else not large
    )
    return Score(
        name,
        step_ms,
        true_ms,
        first.get("detector", ""),
        first["saving_per_step_ns"] / 1e6 if first else None,
        stated,
        cause,
        not case.places or any(place in text for place in case.places),
        None if case.costs_no_time else stated is not None and stated[0] <= true_ms <= stated[1],
        tuple(item["detector"] for item in items[:_LOOKED_AT] if item["detector"] not in allowed),
        min(len(items), _LOOKED_AT),
        tuple(word for word in case.never if word in large or word in verdict),
        verdict,
    )


def table(scores: Sequence[Score]) -> str:
    """As Markdown, with the totals below."""
    lines = [
        "| program | step | fault costs | first item | saves | cause | place | inside | false items | forbidden |",
        "|---|--:|--:|---|---|---|---|---|---|---|",
    ]
    for score in scores:
        saves = "" if score.saves_ms is None else f"{score.saves_ms:.2f} ms"
        saves += "" if score.stated_ms is None else " ({:.2f} to {:.2f})".format(*score.stated_ms)
        marks = " | ".join(
            "" if mark is None else "yes" if mark else "no"
            for mark in (score.cause, score.place, score.inside)
        )
        lines.append(
            f"| {score.name} | {score.step_ms:.1f} ms | {score.true_ms:.1f} ms | {score.first} | {saves} | {marks} "
            f"| {', '.join(score.false_items)} | {', '.join(score.said)} |"
        )
    cases = CASES | DEVICE_CASES
    planted = [score for score in scores if not cases[score.name].clean]
    clean = [score for score in scores if cases[score.name].clean]
    timed = [score for score in planted if score.inside is not None]
    errors = [abs(score.saves_ms - score.true_ms) / score.true_ms for score in timed if score.saves_ms]
    lines += [
        "",
        "| figure | here | aim |",
        "|---|--:|--:|",
        f"| first item right (cause and place) | {_of(score.cause and score.place for score in planted)} | 90 % |",
        f"| true saving inside the interval | {_of(score.inside is True for score in timed)} | 85 % |",
        f"| median error of the saving | {median(errors or [0.0]):.0%} | 30 % |",
        f"| false items among the first three | {sum(len(score.false_items) for score in scores)} of "
        f"{sum(score.shown for score in scores)} | 5 % |",
        f"| sound programs with an item over 5 % | {_of(not score.cause for score in clean)} | 0 |",
    ]
    return "\n".join(lines)


def _of(marks: Iterable[bool]) -> str:
    """How many of some are true."""
    found = list(marks)
    return f"{sum(found)} of {len(found)} ({sum(found) / max(len(found), 1):.0%})"


def _interval_ms(item: dict[str, Any]) -> tuple[float, float] | None:
    """The interval of what an item saves per step; None for an item that states none, such as a bound from above."""
    if "saving_low_per_step_ns" not in item:
        return None
    return item["saving_low_per_step_ns"] / 1e6, item["saving_high_per_step_ns"] / 1e6


def _step_ms(name: str, form: str, folder: Path, middle: Callable[[list[float]], float]) -> float:
    """The middle step of the slowest rank."""
    out = folder / f"{name}.{form}.json"
    _run(name, form, str(out))
    paths = list(folder.glob(f"{out.name}.*"))
    slowest = max(middle(json.loads(path.read_text())) for path in paths)
    for path in paths:
        path.unlink()
    return slowest * 1e3


def _run(*words: str) -> None:
    command = [sys.executable, "-m", "benchmarks.examination.run_program", *words]
    for _ in range(_TRIES):
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
        if not done.returncode:
            return
    raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")


def _advice(capture: Path) -> tuple[list[dict[str, Any]], str]:
    """The items of the answer, and its verdict."""
    command = [sys.executable, "-m", "tracebraid", "advise", str(capture), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    answer = json.loads(done.stdout)
    items: list[dict[str, Any]] = answer["advice"]
    growing = [{"detector": _GROWTH, "saving_per_step_ns": 0, "share": 0.0} for _ in answer["memory_growth"]]
    return items + growing[:1], " ".join(answer["verdict"])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.examination", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each form is timed (3)")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this; may be repeated")
    parser.add_argument("--device", action="store_true", help="programs on a GPU")
    parser.add_argument("--planted", action="store_true", help="traces made in code, instead of programs")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where captures lie and stay")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    main()
