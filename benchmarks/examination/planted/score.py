"""Ask for advice about each planted case, and score the answer."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

import tracebraid
from benchmarks.examination.planted import answers, decoys, device, evidence, host, ranks
from benchmarks.examination.planted.case import PlantedCase
from benchmarks.examination.planted.machine import Job
from tracebraid.reports.advice import advice_data

__all__ = ["PLANTED", "Answer", "Outcome", "ask", "plant", "run", "scored", "table", "true_saving_us"]

PLANTED: dict[str, PlantedCase] = {
    name: case
    for topic in (host, device, ranks, decoys, evidence, answers)
    for name, case in topic.CASES.items()
}
"""By name."""

_LEAST_SHARE = 0.05
_TOLERANCE = 0.4
"""An estimate may be off by so much of the true saving."""
_LOOKED_AT = 3
_CANNOT_TELL = ("cannot tell", "cannot be told", "does not show what bounds it")


@dataclass(frozen=True)
class Answer:
    """What was said of a case.

    Args:
        items: rows of `ADVICE`, with their titles, changes and the text of their sites.
        verdict: the sentences at the beginning.
        causes: time of the job's steps by cause.
        wrong: what the case's own check found wrong.
        step_us: length of a step.
    """

    items: tuple[dict[str, Any], ...]
    verdict: str
    causes: dict[str, int]
    wrong: str
    step_us: float

    @property
    def first(self) -> str:
        """The name of the first item that saves enough to be counted."""
        return self.items[0]["detector"] if self.items else ""


@dataclass(frozen=True)
class Outcome:
    """How good an answer is.

    Args:
        name: of the case.
        case: the case.
        answer: what was said.
        true_us: what the fault costs per step; None: nothing is to be saved.
        faults: what is wrong with the answer, by its kind.
    """

    name: str
    case: PlantedCase
    answer: Answer
    true_us: tuple[float, float] | None
    faults: dict[str, str]


def plant(case: PlantedCase, folder: Path, fault: bool = True, traced: bool = True) -> Job:
    """Plant a case, and write its files."""
    job = Job(case.ranks, replace(case.options, traced=traced))
    case.build(job, fault)
    if traced:
        job.write(folder)
    return job


def true_saving_us(case: PlantedCase, folder: Path) -> tuple[float, float] | None:
    """What the fault costs per step: by hand, or by the same program without the fault, both without a profiler."""
    if not case.first:
        return None
    if case.saves_us is not None:
        return case.saves_us
    with_fault, without = (
        plant(case, folder, fault, traced=False).step_ns() / 1e3 for fault in (True, False)
    )
    return with_fault - without, with_fault - without


def ask(case: PlantedCase, folder: Path) -> Answer:
    """Plant a case and ask for advice about it."""
    job = plant(case, folder)
    advice = tracebraid.advise(tracebraid.open(folder))
    data = advice_data(advice)
    items = [item | {"text": _text(item)} for item in data["advice"]]
    for item in items:
        sites = advice.sites.filter(pl.col("item") == item["item"])
        item["text"] += " ".join(" ".join(str(v) for v in row.values() if v) for row in sites.to_dicts())
    causes: dict[str, int] = {}
    if advice.accounting.width:
        causes = {
            row["cause"]: row["ns"]
            for row in advice.of_job.group_by("cause").agg(pl.col("ns").sum()).to_dicts()
        }
    wrong = case.check(folder) if case.check is not None else ""
    del job
    return Answer(tuple(items), " ".join(data["verdict"]), causes, wrong, advice.step_ns / 1e3)


def _text(item: dict[str, Any]) -> str:
    words = [str(item.get(key) or "") for key in ("op", "call_site", "subject", "shapes")]
    return " ".join([*words, *(f"rank {rank}" for rank in item["ranks"]), ""])


def scored(name: str, case: PlantedCase, answer: Answer, true_us: tuple[float, float] | None) -> Outcome:
    """Compare an answer with what is true."""
    faults = dict(_of_first(case, answer, true_us))
    named = [item["detector"] for item in answer.items]
    forbidden = [code for code in dict.fromkeys(named) if code in case.never]
    top = [item["detector"] for item in answer.items if item["under"] is None]
    if len({*top} & {*case.at_top}) > 1:
        forbidden += [" and ".join(code for code in case.at_top if code in top)]
    told = " ".join([answer.verdict, *(f"{item['title']} {item['change']}" for item in answer.items)])
    forbidden += [f'"{words}"' for words in case.unsaid if words.lower() in told.lower()]
    if forbidden:
        faults["forbidden"] = ", ".join(forbidden)
    if case.bound and answer.causes and max(answer.causes, key=answer.causes.__getitem__) not in case.bound:
        faults["bound"] = f"{max(answer.causes, key=answer.causes.__getitem__)} of {'/'.join(case.bound)}"
    first_change = answer.items[0]["change"] if answer.items else ""
    if case.says and not any(
        word.lower() in f"{answer.verdict} {first_change}".lower() for word in case.says
    ):
        faults["unsaid"] = f"says none of {', '.join(case.says)}"
    if case.abstains and not any(words in answer.verdict.lower() for words in _CANNOT_TELL):
        faults["abstains"] = "does not say that it cannot tell"
    if answer.wrong:
        faults["check"] = answer.wrong
    false = [
        item["detector"]
        for item in answer.items[:_LOOKED_AT]
        if item["under"] is None
        and item["share"] >= _LEAST_SHARE
        and item["detector"] not in {*case.first, *case.also_true}
    ]
    if false:
        faults["false items"] = ", ".join(false)
    return Outcome(name, case, answer, true_us, faults)


def _of_first(
    case: PlantedCase, answer: Answer, true_us: tuple[float, float] | None
) -> Iterable[tuple[str, str]]:
    """What is wrong with the first item."""
    if true_us is None:
        large = [
            f"{item['detector']} {item['share']:.0%}"
            for item in answer.items
            if item["share"] >= _LEAST_SHARE
        ]
        if large:
            yield "over 5 %", ", ".join(large)
        return
    if answer.first not in case.first:
        yield "cause", f"{answer.first or 'nothing'} of {'/'.join(case.first)}"
        return
    item = answer.items[0]
    if case.places and not any(place in item["text"] for place in case.places):
        yield "place", item["text"][:80]
    said, low, high = (item[f"saving{part}_per_step_ns"] / 1e3 for part in ("", "_low", "_high"))
    if not true_us[0] * (1 - _TOLERANCE) <= said <= true_us[1] * (1 + _TOLERANCE):
        yield "saving", f"{said:.0f} us of {true_us[0]:.0f}"
    if low > true_us[1] or high < true_us[0]:
        yield "interval", f"{low:.0f} to {high:.0f} us without {true_us[0]:.0f}"


def run(names: Sequence[str]) -> list[Outcome]:
    """Examine some cases."""
    found = []
    for name in names:
        case = PLANTED[name]
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            answer = ask(case, Path(folder))
            outcome = scored(name, case, answer, true_saving_us(case, Path(folder)))
        print(f"{name} {time.perf_counter() - started:.1f} s {outcome.faults or ''}", file=sys.stderr)
        found.append(outcome)
    return found


def _with(kind: str, outcomes: Sequence[Outcome]) -> int:
    """How many have a fault of a kind."""
    return sum(kind in outcome.faults for outcome in outcomes)


def table(outcomes: Sequence[Outcome]) -> str:
    """As Markdown, with the totals below."""
    lines = [
        "| case | kind | step | true saving | first item | says | wrong |",
        "|---|---|--:|--:|---|--:|---|",
    ]
    for outcome in outcomes:
        answer = outcome.answer
        true = (
            ""
            if outcome.true_us is None
            else " to ".join(dict.fromkeys(f"{us / 1e3:.2f}" for us in outcome.true_us)) + " ms"
        )
        said = ""
        if answer.items:
            item = answer.items[0]
            said = "{:.2f} ms ({:.2f} to {:.2f})".format(
                *(item[f"saving{part}_per_step_ns"] / 1e6 for part in ("", "_low", "_high"))
            )
        wrong = "; ".join(f"{kind}: {text}" for kind, text in outcome.faults.items())
        cells = (
            outcome.name,
            outcome.case.kind,
            f"{answer.step_us / 1e3:.2f} ms",
            true,
            answer.first,
            said,
            wrong,
        )
        lines.append(f"| {' | '.join(cells)} |")
    faulty = [outcome for outcome in outcomes if outcome.case.first]
    sound = [outcome for outcome in outcomes if not outcome.case.first]
    abstaining = [outcome for outcome in outcomes if outcome.case.abstains]
    shown = [item for outcome in outcomes for item in outcome.answer.items[:_LOOKED_AT]]
    false = sum(
        len(outcome.faults["false items"].split(", "))
        for outcome in outcomes
        if "false items" in outcome.faults
    )
    right = [outcome for outcome in faulty if not {"cause", "place"} & {*outcome.faults}]
    lines += [
        "",
        f"Right in all: {sum(not outcome.faults for outcome in outcomes)} of {len(outcomes)}. "
        f"First item right (cause and place): {len(right)} of {len(faulty)}. "
        f"Saving within 40 %: {sum('saving' not in outcome.faults for outcome in right)} of {len(right)}; "
        f"inside its interval: {sum('interval' not in outcome.faults for outcome in right)} of {len(right)}. "
        f"Forbidden said: {sum('forbidden' in outcome.faults for outcome in outcomes)}. "
        f"False items over 5 % among the first three: {false} of {len(shown)} items. "
        f"Jobs with nothing to save and an item over 5 %: {_with('over 5 %', sound)} of {len(sound)}. "
        f"Abstained where it must: {len(abstaining) - _with('abstains', abstaining)} of {len(abstaining)}.",
    ]
    return "\n".join(lines)
