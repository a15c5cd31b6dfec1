"""How does linking without ids grow with the traces? A table, and a plot of it.

    python -m benchmarks.growth [--times 1 4 16 64 256] [--rounds 3] [--plot benchmarks/growth.svg]

The DLRM pair (or the bundled one, where the real traces are not there) is repeated, and linked by alignment alone.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.inputs import Inputs, find_real_traces
from benchmarks.measure import task, typical

__all__: list[str] = []

_WIDTH, _HEIGHT, _MARGIN = 560, 360, 56


@dataclass(frozen=True)
class Point:
    """One size: nodes, seconds of reading and linking, seconds of linking alone, and peak memory in bytes."""

    nodes: int
    seconds: float
    linking: float
    peak_bytes: int


def measure(inputs: Inputs, times: int, rounds: int) -> Point:
    """Read and link a pair, in fresh processes."""
    pair = inputs.pair(times)
    words = ["-m", "benchmarks.task", "align", str(pair.et), str(pair.kineto)]
    one = typical([task(words) for _ in range(rounds)])
    return Point(int(one.parts["nodes"]), one.seconds, one.parts["linking"], one.peak_bytes)


def plot(points: Sequence[Point]) -> str:
    """Both times over the number of nodes, on logarithmic axes, as SVG; the dashed line is linear growth."""
    nodes = [math.log10(one.nodes) for one in points]
    lines = {
        "reading and linking": [one.seconds for one in points],
        "linking": [one.linking for one in points],
    }
    seconds = [math.log10(value) for values in lines.values() for value in values]
    left, right = math.floor(min(nodes)), math.ceil(max(nodes) - 0.05)
    low, high = math.floor(min(seconds)), math.ceil(max(seconds))

    def place(x: float, y: float) -> str:
        across = _MARGIN + (x - left) / (right - left) * (_WIDTH - 2 * _MARGIN)
        return f"{across:.1f},{_HEIGHT - _MARGIN - (y - low) / (high - low) * (_HEIGHT - 2 * _MARGIN):.1f}"

    def line(begin: str, end: str, more: str) -> str:
        (x1, y1), (x2, y2) = begin.split(","), end.split(",")
        return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" {more}/>'

    def text(at: str, words: str, more: str = 'text-anchor="middle"') -> str:
        x, y = at.split(",")
        return f'<text x="{x}" y="{y}" {more}>{words}</text>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" '
    ]
    parts[0] += 'font-size="12"><rect width="100%" height="100%" fill="white"/>'
    for power in range(left, right + 1):
        parts.append(line(place(power, low), place(power, high), 'stroke="#ddd"'))
        parts.append(text(place(power, low - 0.18 * (high - low) / 2.5), f"{10**power:,} nodes"))
    for power in range(low, high + 1):
        parts.append(line(place(left, power), place(right, power), 'stroke="#ddd"'))
        parts.append(text(place(left, power), f"{10.0**power:g} s ", 'text-anchor="end"'))
    first = math.log10(points[-1].linking) - (nodes[-1] - nodes[0])
    dashed = 'stroke="#999" stroke-dasharray="4"'
    parts.append(line(place(nodes[0], first), place(nodes[-1], math.log10(points[-1].linking)), dashed))
    for (name, values), colour in zip(lines.items(), ("#b04a2f", "#2f6bb0"), strict=True):
        places = [place(x, math.log10(value)) for x, value in zip(nodes, values, strict=True)]
        parts.append(
            f'<polyline points="{" ".join(places)}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        parts.append(text(places[-1], f"{name} ", f'text-anchor="end" fill="{colour}" dy="-8"'))
    return "\n".join([*parts, "</svg>"]) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.growth", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--times", type=int, nargs="+", default=[1, 4, 16, 64, 256], metavar="N")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each is measured (3)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write the plot there, as SVG")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        inputs = Inputs(Path(folder), find_real_traces(None))
        points = [measure(inputs, times, given.rounds) for times in given.times]
    print(f"{inputs.pair_name}\n{'nodes':>10}{'seconds':>10}{'linking':>10}{'MB':>8}")
    for one in points:
        print(f"{one.nodes:>10,}{one.seconds:>10.2f}{one.linking:>10.2f}{one.peak_bytes / 1e6:>8.0f}")
    if given.plot is not None:
        given.plot.write_text(plot(points), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
