"""Says what a run has tried, in Markdown that is read in a terminal as well."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import version

from tools.fuzz.model import Outcome
from tools.fuzz.running import Run
from tools.fuzz.tally import Tally

__all__ = ["record_page", "summary"]

_LIBRARIES = ("polars", "numpy", "msgspec")


def record_page(run: Run, command: str, processes: int) -> str:
    """The page of the record: what was run, where, and what came of it."""
    libraries = ", ".join(f"{name} {version(name)}" for name in ("tracebraid", *_LIBRARIES))
    python = ".".join(map(str, sys.version_info[:3]))
    return "\n".join(
        [
            "# Record of a fuzzing run",
            "",
            "Written by [the fuzzer](fuzzing.md) itself, with `--record`.",
            "",
            f"- Command: `{command}`",
            f"- Versions: {libraries}, Python {python}",
            f"- Machine: {platform.system()} {platform.machine()}, {os.cpu_count()} processors, "
            f"{processes} worker process{'es' if processes > 1 else ''}",
            "",
            summary(run),
        ]
    )


def summary(run: Run) -> str:
    """What a run has tried, and what failed."""
    tally = run.tally
    mutants = tally.mutants.total()
    asked = sum(call.outcomes.total() for call in tally.calls.values())
    rate = mutants / max(run.took_s, 1e-9)
    sections = [
        f"{mutants:,} mutants and {asked:,} calls in {run.took_s / 60:,.1f} minutes, {rate:,.1f} mutants a second; "
        f"{run.cpu_s:,.0f} s of processor time. {tally.failures:,} failures in {len(tally.found):,} places.",
        *_section("Failures", _failures(tally)),
        *_section("Mutants", _mutants(tally)),
        *_section("Calls", _calls(tally)),
        *_section("Slowest calls", _slowest(tally)),
        *_section("Growth of workers", _growth(run)),
    ]
    return "\n".join(sections) + "\n"


def _section(title: str, table: Sequence[str]) -> list[str]:
    return ["", f"## {title}", "", *table] if len(table) > _HEAD_LINES else []


_HEAD_LINES = 2


def _table(names: str, rows: Iterable[Sequence[object]]) -> list[str]:
    """The lines of a table; columns whose names end in `#` hold numbers."""
    columns = names.split("|")
    cells = [
        [f"{cell:,}" if isinstance(cell, int) else str(cell).replace("|", "\\|") for cell in row]
        for row in rows
    ]
    head = [column.rstrip("#") for column in columns]
    rules = ["---:" if column.endswith("#") else "---" for column in columns]
    return [f"| {' | '.join(line)} |" for line in (head, rules, *cells)]


def _failures(tally: Tally) -> list[str]:
    rows = [
        (
            one.first.kind.value,
            one.first.place,
            one.count,
            one.first.call,
            ", ".join(map(str, one.seeds)),
            _cut(one.first.message),
        )
        for one in sorted(tally.found.values(), key=lambda one: -one.count)
    ]
    return _table("kind|place|count#|first call|seeds|message", rows)


def _mutants(tally: Tally) -> list[str]:
    return _table("format|mutants#", sorted(tally.mutants.items()))


def _calls(tally: Tally) -> list[str]:
    rows = [
        (
            name,
            call.outcomes.total(),
            *(call.outcomes[outcome] for outcome in Outcome),
            f"{1000 * call.took_s / call.outcomes.total():.1f}",
        )
        for name, call in sorted(tally.calls.items())
    ]
    return _table("call|asked#|answered#|refused#|failed#|mean ms#", rows)


def _slowest(tally: Tally) -> list[str]:
    rows = [(name, seed, f"{1000 * took_s:,.0f}") for took_s, name, seed in tally.slowest]
    return _table("call|seed|ms#", rows)


def _growth(run: Run) -> list[str]:
    rows = [(one.mutants, one.grown_bytes >> 20) for one in run.growths]
    return _table("mutants since it was warm#|MB more#", rows)


def _cut(message: str) -> str:
    line = " ".join(message.split()).replace("`", "'")
    return line if len(line) <= 160 else f"{line[:157]}..."
