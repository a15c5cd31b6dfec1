"""Predictions from captures before a change, beside what was measured after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

import tracebraid
from benchmarks.whatif_pairs.capture import STEADY, Loop, control, loops_of
from benchmarks.whatif_pairs.declare import Pair
from tracebraid.errors import ArgumentError
from tracebraid.model.graph import Unrecorded

__all__ = [
    "CLEAR",
    "WITHIN",
    "Claim",
    "Judged",
    "Summary",
    "error",
    "groups",
    "judged",
    "markdown",
    "summary",
]

WITHIN = 0.1
"""Error of a step that a good prediction keeps."""
CLEAR = 0.02
"""Gain, as a share of the step, from which its sign counts."""


@dataclass(frozen=True)
class Claim:
    """One prediction, and what was measured; times of a step in ms.

    Args:
        before_ms: measured before the change.
        after_ms: measured after it.
        predicted_ms: predicted of the step after the change.
        gain_ms: predicted gain.
        low_ms: low end of the interval of the gain; None: there is no interval.
        high_ms: high end of it.
    """

    before_ms: float
    after_ms: float
    predicted_ms: float
    gain_ms: float
    low_ms: float | None = None
    high_ms: float | None = None

    @property
    def real_gain_ms(self) -> float:
        """Measured gain."""
        return self.before_ms - self.after_ms

    @property
    def holds(self) -> bool | None:
        """Whether the interval holds the measured gain; None without an interval."""
        if self.low_ms is None or self.high_ms is None:
            return None
        return self.low_ms <= self.real_gain_ms <= self.high_ms

    @property
    def width(self) -> float | None:
        """Width of the interval as a share of the step before the change."""
        if self.low_ms is None or self.high_ms is None:
            return None
        return (self.high_ms - self.low_ms) / self.before_ms


@dataclass(frozen=True)
class Judged:
    """Predictions of a pair, one of each round.

    Args:
        name: the program.
        change: what was changed.
        kind: kind of change.
        held_out: whether the engine was not developed with it.
        ranks: number of processes.
        control: how far a program is off itself in other rounds, as a share of the step.
        recorded: predictions of steps that are recorded.
        untraced: predictions of steps that are not; empty: there is none.
        refused: why there is no prediction at all.
    """

    name: str
    change: str
    kind: str
    held_out: bool
    ranks: int
    control: float
    recorded: tuple[Claim, ...] = ()
    untraced: tuple[Claim, ...] = ()
    refused: str = ""

    @property
    def noisy(self) -> bool:
        """Whether a program differs from itself too much."""
        return self.control > STEADY


def error(claims: Sequence[Claim]) -> float:
    """Error of the predicted step as a share of the measured one, the median of the rounds."""
    return median((claim.predicted_ms - claim.after_ms) / claim.after_ms for claim in claims)


def sign_is_right(claims: Sequence[Claim], noise: float) -> bool | None:
    """Whether the gain has the measured sign; None: it is below `CLEAR`, or below the noise as a share of the step."""
    before_ms, real_ms = median(c.before_ms for c in claims), median(c.real_gain_ms for c in claims)
    if abs(real_ms) <= max(CLEAR, noise) * before_ms:
        return None
    return median(claim.gain_ms for claim in claims) * real_ms > 0


@dataclass(frozen=True)
class Summary:
    """Figures over several pairs; None: there is nothing to judge.

    Args:
        pairs: number of pairs.
        noisy: of them, those that are not steady; they do not count below.
        refused: of all, those whose change was refused.
        error: median of the absolute errors of the step.
        within: share of the errors within `WITHIN`.
        signs: pairs with a clear gain.
        signs_right: of them, those whose sign is right.
        intervals: predictions with an interval, one of each round.
        coverage: share of the intervals that hold the measured gain, the mean of the pairs.
        width: median width of the intervals, as a share of the step.
    """

    pairs: int
    noisy: int
    refused: int
    error: float | None
    within: float | None
    signs: int
    signs_right: int
    intervals: int
    coverage: float | None
    width: float | None

    @property
    def figures(self) -> dict[str, float]:
        """The figures that there are, by name; shares in percent."""
        shares = {
            "error %": self.error,
            f"within {WITHIN:.0%}": self.within,
            "coverage %": self.coverage,
            "width %": self.width,
        }
        counts = {
            "pairs": self.pairs,
            "noisy": self.noisy,
            "refused": self.refused,
            "signs": self.signs,
            "signs right": self.signs_right,
        }
        return {**counts, **{name: 100 * share for name, share in shares.items() if share is not None}}


def summary(found: Iterable[Judged], untraced: bool = False, noisy: bool = False) -> Summary:
    """Figures over the steady pairs, or the noisy ones, of recorded or of untraced steps."""
    pairs = list(found)
    counted = [each for each in pairs if each.noisy == noisy]
    claims = [
        (each, each.untraced if untraced else each.recorded)
        for each in counted
        if (each.untraced if untraced else each.recorded)
    ]
    errors = [abs(error(own)) for _, own in claims]
    signs = [sign for each, own in claims if (sign := sign_is_right(own, each.control)) is not None]
    held = [[claim.holds for claim in own if claim.holds is not None] for _, own in claims]
    shares = [mean(own) for own in held if own]
    widths = [claim.width for _, own in claims for claim in own if claim.width is not None]
    return Summary(
        pairs=len(pairs),
        noisy=sum(each.noisy for each in pairs),
        refused=sum(bool(each.refused) for each in pairs),
        error=median(errors) if errors else None,
        within=sum(each <= WITHIN for each in errors) / len(errors) if errors else None,
        signs=len(signs),
        signs_right=sum(signs),
        intervals=sum(map(len, held)),
        coverage=mean(shares) if shares else None,
        width=median(widths) if widths else None,
    )


def judged(pair: Pair, folder: Path) -> Judged:
    """Predict from the captures before the change, and compare with those after it."""
    loops = loops_of(folder / pair.name, pair)
    recorded: list[Claim] = []
    untraced: list[Claim] = []
    refused = ""
    for number, (before, after) in enumerate(zip(*loops, strict=True), start=1):
        try:
            job = tracebraid.open(folder / pair.name / f"before_{number}")
            found = tracebraid.what_if(job, *pair.changes)
        except ArgumentError as reason:
            recorded, untraced, refused = [], [], str(reason)
            break
        recorded.append(_recorded_claim(found, before, after))
        if found.unrecorded is not None:
            untraced.append(_untraced_claim(found.unrecorded, before, after))
    return Judged(
        pair.name,
        "; ".join(pair.changes),
        pair.kind,
        pair.held_out,
        pair.ranks,
        control(loops),
        tuple(recorded),
        tuple(untraced),
        refused,
    )


def _recorded_claim(found: tracebraid.results.WhatIf, before: Loop, after: Loop) -> Claim:
    """The predicted gain, taken off the measured step: both are then typical steps."""
    gain_ms, low_ms, high_ms = (each / 1e6 for each in (found.gain_ns, found.gain_low_ns, found.gain_high_ns))
    return Claim(
        before.recorded_ms, after.recorded_ms, before.recorded_ms - gain_ms, gain_ms, low_ms, high_ms
    )


def _untraced_claim(unrecorded: Unrecorded, before: Loop, after: Loop) -> Claim:
    """The predicted step itself."""
    return Claim(
        before.untraced_ms,
        after.untraced_ms,
        unrecorded.after_ns / 1e6,
        (unrecorded.before_ns - unrecorded.after_ns) / 1e6,
        unrecorded.low_ns / 1e6,
        unrecorded.high_ns / 1e6,
    )


def groups(found: Sequence[Judged]) -> dict[str, list[Judged]]:
    """All pairs, both halves, and each kind of change."""
    kinds = {kind: [each for each in found if each.kind == kind] for kind in sorted({j.kind for j in found})}
    return {
        "all": list(found),
        "developed with": [each for each in found if not each.held_out],
        "held out": [each for each in found if each.held_out],
        **kinds,
    }


def markdown(found: Sequence[Judged]) -> str:
    """The tables of the documentation: summaries, then the pairs."""
    lines = []
    for title, untraced in (("recorded steps", False), ("steps without the recorder", True)):
        if any(each.untraced if untraced else each.recorded for each in found):
            lines += [
                f"| {title} | pairs | noisy | refused | median error | within {_percent(WITHIN)} | right sign |"
                " interval holds | its width |",
                "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
                *(_summary_line(name, summary(own, untraced)) for name, own in groups(found).items() if own),
                "",
            ]
    header = (
        "| program | change | ranks | rounds | step | gain | predicted | interval | error | untraced | control |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    )
    for title, held_out in (("Pairs that the engine was developed with", False), ("Pairs held out", True)):
        own = [each for each in found if each.held_out == held_out]
        if own:
            lines += [f"{title}:", "", *header, *map(_pair_line, own), ""]
    return "\n".join(lines)


def _summary_line(name: str, own: Summary) -> str:
    signs = f"{own.signs_right} of {own.signs}" if own.signs else ""
    shares = [
        _percent(own.error, ".1f"),
        _percent(own.within),
        signs,
        _percent(own.coverage),
        _percent(own.width),
    ]
    return f"| {' | '.join(map(str, (name, own.pairs, own.noisy, own.refused, *shares)))} |"


def _pair_line(pair: Judged) -> str:
    cells = [
        pair.name,
        f"`{pair.change}`".replace("|", "\\|"),
        str(pair.ranks),
        str(len(pair.recorded) or ""),
    ]
    if pair.recorded:
        typical = [median(values) for values in zip(*map(_times, pair.recorded), strict=True)]
        step, gain, predicted = (f"{value:.2f} ms" for value in typical[:3])
        held = f"{typical[3]:.2f} to {typical[4]:.2f} ms" if len(typical) > 3 else ""
        cells += [step, gain, predicted, held, _percent(error(pair.recorded), "+.1f")]
    else:
        cells += ["", "", "", "", "refused"]
    cells.append(_percent(error(pair.untraced), "+.1f") if pair.untraced else "")
    cells.append(_percent(pair.control, ".1f") + (", noisy" if pair.noisy else ""))
    return f"| {' | '.join(cells)} |"


def _times(claim: Claim) -> tuple[float, ...]:
    interval = () if claim.low_ms is None or claim.high_ms is None else (claim.low_ms, claim.high_ms)
    return (claim.before_ms, claim.real_gain_ms, claim.gain_ms, *interval)


def _percent(share: float | None, form: str = ".0f") -> str:
    return "" if share is None else f"{100 * share:{form}} %"
