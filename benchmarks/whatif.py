"""Predicted steps beside measured ones, on pairs of programs before and after a change; needs torch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from statistics import median

from benchmarks.inputs import Given
from benchmarks.measure import Row, Target
from benchmarks.whatif_pairs.capture import capture_pair
from benchmarks.whatif_pairs.declare import pairs
from benchmarks.whatif_pairs.judge import WITHIN, Judged, error, groups, judged, markdown, summary

_ERROR, _WITHIN, _COVERAGE = 0.03, 0.9, (0.75, 0.85)
"""To reach over all steady pairs: median error of the step, share within `WITHIN`, share of intervals that hold."""


def whatif(given: Given) -> Iterator[Row]:
    """Predicted and measured steps of pairs of programs; with `keep`, captures stay, and are judged again.

    `tracebraid.what_if` predicts from each capture before the change. Figures of all count steady pairs only; the
    tables of the documentation go to the standard error output."""
    folder, known, found = given.keep or given.folder, pairs(), []
    for number, name in enumerate(given.only or known, start=1):
        try:
            capture_pair(known[name], folder, given.rounds, given.attempts)
        except RuntimeError as reason:
            print(f"  {number} {reason}", file=sys.stderr)
            yield Row("whatif", f"{name} failed", target=Target("a program that runs", met=False))
            continue
        found.append(judged(known[name], folder))
        print(f"  {number} {name}: {_outcome(found[-1])}", file=sys.stderr)
    yield from map(_row, found)
    for name, own in groups(found).items():
        for untraced in (False, True):
            figures = summary(own, untraced)
            if own and (figures.error is not None or not untraced):
                title = f"{name}, {'untraced' if untraced else 'recorded'}"
                yield Row("whatif", title, figures=figures.figures, target=_target(name, found, untraced))
    print(f"\n{markdown(found)}", file=sys.stderr)


def _outcome(pair: Judged) -> str:
    parts = [f"refused: {pair.refused}" if pair.refused else f"{error(pair.recorded):+.1%}"]
    if pair.untraced:
        parts.append(f"untraced {error(pair.untraced):+.1%}")
    if pair.noisy and pair.recorded:
        parts.append(f"noisy, {pair.control:.1%} in {len(pair.recorded)} rounds")
    return ", ".join(parts)


def _row(pair: Judged) -> Row:
    figures = {"control %": 100 * pair.control, "rounds": len(pair.recorded)}
    target = None
    for name, claims in (("", pair.recorded), ("untraced ", pair.untraced)):
        if claims:
            figures |= {
                f"{name}step ms": median(claim.before_ms for claim in claims),
                f"{name}gain ms": median(claim.real_gain_ms for claim in claims),
                f"{name}predicted ms": median(claim.gain_ms for claim in claims),
                f"{name}error %": 100 * error(claims),
                f"{name}interval holds": sum(bool(claim.holds) for claim in claims) / len(claims),
            }
    if pair.recorded and not pair.noisy:
        target = Target(f"{WITHIN:.0%} of the step", abs(error(pair.recorded)) <= WITHIN)
    state = ", noisy" if pair.noisy else ""
    reason = f", refused: {pair.refused}" if pair.refused else ""
    return Row("whatif", f"{pair.name}, {pair.change}{state}{reason}", figures=figures, target=target)


def _target(name: str, found: list[Judged], untraced: bool) -> Target | None:
    """What has to be reached over all pairs."""
    own = summary(found, untraced)
    if name != "all" or own.error is None or own.within is None:
        return None
    low, high = _COVERAGE
    met = own.error <= _ERROR and own.within >= _WITHIN and own.signs == own.signs_right
    met = met and (own.coverage is None or low <= own.coverage <= high)
    words = f"{_ERROR:.0%} error, {_WITHIN:.0%} within, all signs, {low:.0%} to {high:.0%} hold"
    return Target(words, met)
