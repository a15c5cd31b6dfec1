"""The page `docs/speed.md`: what other tools answer and what it takes them, as a table and a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from benchmarks.measure import Measured
from benchmarks.peer_answers import LIBRARIES, OURS


@dataclass(frozen=True)
class Answer:
    """What one tool took for one question about one file."""

    question: str
    file: str
    tool: str
    measured: Measured  # medians over the rounds
    times_as_long: float  # as tracebraid; the median over the rounds
    is_equal: bool | None  # whether its figures are ours; None where there is none to compare, and of ours
    difference: str | None  # why they are not


_ABOUT = """# Beside other tools

What a script takes that asks one question about one trace: from a new Python process to the answer, with the loading of
the tool's libraries. The trace of 54 MB has 216,000 events of a V100; that of 1.25 GB is it 23 times. Two cores of a
shared server; Python {python}. This page is written by `python -m benchmarks peers --large --peers-python PATH --page
docs/speed.md`, where PATH is a Python that has the other tools.

![Seconds by question and tool]({chart})

{table}

Seconds, peak memory, and how many times as long as Tracebraid it took: medians of {rounds} rounds in turn, of one round
for 1.25 GB. Without a time, a tool does not answer the question. Loading of the libraries took
{libraries}.

Where tools give figures of the same thing, they are equal{but}

Perfetto's trace processor is missing: its binary comes from a server of its own, and was not to be had.
"""


def write_page(
    page: Path, answers: Sequence[Answer], versions: Mapping[str, str], python_version: str, rounds: int
) -> None:
    """Write the page, and its chart into the folder `images` beside it."""
    chart = page.parent / "images" / f"{page.stem}.svg"
    chart.parent.mkdir(exist_ok=True)
    chart.write_text(_chart(answers))
    reasons = list(dict.fromkeys(one.difference for one in answers if not one.is_equal and one.difference))
    tools = list(versions)
    lines = [
        "| question | " + " | ".join(f"{tool} {versions[tool]}" for tool in tools) + " |",
        "|---|" + "--:|" * len(tools),
    ]
    for question, file in dict.fromkeys((one.question, one.file) for one in answers):
        of_tool = {one.tool: one for one in answers if (one.question, one.file) == (question, file)}
        cells = [_cell(of_tool[tool], reasons) if tool in of_tool else "" for tool in tools]
        lines.append(f"| {question}, {file} | " + " | ".join(cells) + " |")
    loading = {
        tool: max(one.measured.parts[LIBRARIES] for one in answers if one.tool == tool) for tool in tools
    }
    differing = "".join(f"\n{number}. {reason}." for number, reason in enumerate(reasons, 1))
    page.write_text(
        _ABOUT.format(
            python=python_version,
            chart=f"images/{chart.name}",
            table="\n".join(lines),
            rounds=rounds,
            libraries=", ".join(f"{seconds:.1f} s of {tool}" for tool, seconds in loading.items()),
            but=f", but for:\n{differing}" if differing else ".",
        )
    )


def _cell(answer: Answer, reasons: Sequence[str]) -> str:
    text = f"{_seconds(answer.measured.seconds)}, {answer.measured.peak_bytes / 1e6:,.0f} MB"
    if answer.tool == OURS:
        return f"**{text}**"
    note = f" ({reasons.index(answer.difference) + 1})" if answer.difference in reasons else ""
    return f"{text}, {answer.times_as_long:.1f} x{note}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"


_COLOURS = ("#3f51b5", "#e6842a", "#4c9a5b", "#b0519c", "#8a8a8a")
_LEFT, _BAR, _GAP, _WIDTH = 150, 13, 14, 760
_SPACE_OF_LABEL = 120


def _chart(answers: Sequence[Answer]) -> str:
    """Bars of the seconds, a group for each question, each on its own scale: its longest bar takes the whole width."""
    colours = dict(zip(dict.fromkeys(one.tool for one in answers), _COLOURS, strict=False))
    parts, top = [], 30.0
    for at, (tool, colour) in enumerate(colours.items()):
        x = _LEFT + at * 110
        parts.append(f'<rect x="{x}" y="6" width="11" height="11" fill="{colour}"/>')
        parts.append(f'<text x="{x + 16}" y="16">{escape(tool)}</text>')
    for question, file in dict.fromkeys((one.question, one.file) for one in answers):
        group = [one for one in answers if (one.question, one.file) == (question, file)]
        longest = max(one.measured.seconds for one in group)
        middle = top + len(group) * _BAR / 2
        parts.append(f'<text x="{_LEFT - 10}" y="{middle - 2:g}" text-anchor="end">{escape(question)}</text>')
        parts.append(
            f'<text x="{_LEFT - 10}" y="{middle + 11:g}" text-anchor="end" class="file">{escape(file)}</text>'
        )
        for one in group:
            width = max(1.0, (_WIDTH - _LEFT - _SPACE_OF_LABEL) * one.measured.seconds / longest)
            label = _seconds(one.measured.seconds)
            if one.tool != OURS:
                label += f", {one.times_as_long:.1f} x"
            parts.append(
                f'<rect x="{_LEFT}" y="{top + 1:g}" width="{width:.1f}" height="{_BAR - 2}" '
                f'fill="{colours[one.tool]}"/>'
                f'<text x="{_LEFT + width + 5:.1f}" y="{top + 10.5:g}" class="time">{label}</text>'
            )
            top += _BAR
        top += _GAP
    style = (
        "text{font:12px system-ui,sans-serif;fill:#333}.time{font-size:11px}.file{font-size:10px;fill:#777}"
        "@media(prefers-color-scheme:dark){text{fill:#ddd}.file{fill:#aaa}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top:g}" role="img" '
        f'aria-label="Seconds by question and tool"><style>{style}</style>{"".join(parts)}</svg>\n'
    )
