"""The benchmarks: each measures its subjects side by side and gives rows."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import linear_regression

from benchmarks.inputs import Inputs
from benchmarks.measure import Measured, command, side_by_side, speed_ratio, task, typical
from benchmarks.table import Row, Target

__all__ = ["BENCHMARKS", "LARGE", "Setting"]

_ONE, _TWO = "tracebraid, 1 process", "tracebraid, 2 processes"
_JSON, _HTA = "json.loads", "HTA, load"
_DLRM_REPEATS, _BUNDLED_REPEATS = (1, 2, 4, 8, 16, 32, 64), (1, 2, 4, 8, 16)
_READ_RATIO, _LARGE_SECONDS, _LARGE_BYTES = 1.7, 12.0, 2.5e9
_LINK_SECONDS, _LINK_TIMES, _LINK_EXPONENT = 3.0, 32, 1.1
_IMPORT_SECONDS = 0.35
_NODES_MB_S, _GRAPH_MB_S = 100.0, 50.0


@dataclass(frozen=True)
class Setting:
    """What to measure with.

    Args:
        inputs: the traces.
        rounds: how often each subject runs.
        hta_python: an interpreter that has HTA; None to leave HTA out.
    """

    inputs: Inputs
    rounds: int
    hta_python: str | None = None


_Subjects = dict[str, Callable[[], Measured]]


def _read(setting: Setting) -> Iterator[Row]:
    return _reading(f"read ({setting.inputs.timeline_name})", setting.inputs.timeline(), setting)


def _read_gz(setting: Setting) -> Iterator[Row]:
    return _reading("read .gz of it", setting.inputs.packed_timeline(), setting)


def _reading(name: str, path: Path, setting: Setting) -> Iterator[Row]:
    subjects: _Subjects = {_JSON: partial(task, _task("json_loads", path))}
    for processes, subject in ((1, _ONE), (2, _TWO)):
        subjects[subject] = partial(task, _task("read", path, processes))
    runs = side_by_side({**subjects, **_hta(path, setting)}, setting.rounds)
    for subject, measured in runs.items():
        ratio = speed_ratio(measured, runs[_JSON])
        target = None
        if subject == _ONE and path.suffix != ".gz":
            target = Target(f"{_READ_RATIO} x json.loads", ratio >= _READ_RATIO)
        if subject == _TWO:
            target = Target("faster than 1 process", speed_ratio(measured, runs[_ONE]) > 1)
        yield _row(name, subject, measured, {"x json.loads": ratio}, target)


def _large(setting: Setting) -> Iterator[Row]:
    path = setting.inputs.large_timeline()
    size = path.stat().st_size
    subjects: _Subjects = {_TWO: partial(task, _task("read", path, 2))}
    runs = side_by_side({**subjects, **_hta(path, setting)}, min(setting.rounds, 3))
    for subject, measured in runs.items():
        one = typical(measured)
        target = None
        if subject == _TWO:
            met = one.seconds <= _LARGE_SECONDS and one.peak_bytes <= _LARGE_BYTES
            target = Target(f"{_LARGE_SECONDS:.0f} s, {_LARGE_BYTES / 1e6:,.0f} MB", met)
        yield _row(
            f"read ({size / 1e9:.2f} GB)", subject, measured, {"MB/s": size / 1e6 / one.seconds}, target
        )


def _read_et(setting: Setting) -> Iterator[Row]:
    for schema, path in setting.inputs.execution_traces().items():
        size_mb = path.stat().st_size / 1e6
        subjects: _Subjects = {_JSON: partial(task, _task("json_loads", path))}
        for processes, subject in ((1, _ONE), (2, _TWO)):
            subjects[subject] = partial(task, _task("read_et", path, processes))
        runs = side_by_side(subjects, setting.rounds)
        for subject, measured in runs.items():
            one = typical(measured)
            figures = {
                "x json.loads": speed_ratio(measured, runs[_JSON]),
                "MB/s of a processor": size_mb / one.cpu_seconds,
            }
            target = None
            if "nodes" in one.parts:
                figures["nodes MB/s"] = size_mb / one.parts["nodes"]
                figures["with graph MB/s"] = size_mb / one.seconds
                met = figures["nodes MB/s"] >= _NODES_MB_S and figures["with graph MB/s"] >= _GRAPH_MB_S
                target = Target(f"{_NODES_MB_S:.0f} and {_GRAPH_MB_S:.0f} MB/s", met)
            yield _row(f"Execution Trace, {schema} ({size_mb:.0f} MB)", subject, measured, figures, target)


def _link(setting: Setting) -> Iterator[Row]:
    name = f"link ({setting.inputs.pair_name})"
    repeats = _DLRM_REPEATS if setting.inputs.real else _BUNDLED_REPEATS
    subjects: _Subjects = {}
    for times in repeats:
        pair = setting.inputs.pair(times)
        subjects[f"{times} times"] = partial(task, _task("link", pair.et, pair.kineto))
    linking = []
    runs = side_by_side(subjects, setting.rounds)
    for times, (subject, measured) in zip(repeats, runs.items(), strict=True):
        one = typical(measured)
        linking.append(one.parts["linking"])
        target = None
        if times == _LINK_TIMES and setting.inputs.real:
            target = Target(f"{_LINK_SECONDS:.0f} s", one.seconds <= _LINK_SECONDS)
        yield _row(name, subject, measured, {"linking s": linking[-1]}, target)
    growth = _exponent(repeats, linking)
    late = _exponent(repeats[-3:], linking[-3:])
    target = Target(f"{_LINK_EXPONENT} at most", late <= _LINK_EXPONENT)
    yield Row(name, "growth of linking", figures={"exponent": growth, "of the last 3": late}, target=target)


def _exponent(sizes: Sequence[int], seconds: list[float]) -> float:
    """The b of seconds = a * size ** b that fits best."""
    return linear_regression([math.log(size) for size in sizes], [math.log(one) for one in seconds]).slope


def _summary(setting: Setting) -> Iterator[Row]:
    name = f"command ({setting.inputs.timeline_name})"
    words = [sys.executable, "-m", "tracebraid", "summary", str(setting.inputs.timeline())]
    runs = side_by_side({"tracebraid summary": partial(command, words)}, setting.rounds)
    yield _row(name, "tracebraid summary", runs["tracebraid summary"])


def _start(setting: Setting) -> Iterator[Row]:
    small = str(setting.inputs.pair(1).kineto)
    subjects: _Subjects = {
        "python alone": partial(command, [sys.executable, "-c", "pass"]),
        "import tracebraid": partial(task, _task("start")),
        "tracebraid --help": partial(command, [sys.executable, "-m", "tracebraid", "--help"]),
        "tracebraid info, small file": partial(command, [sys.executable, "-m", "tracebraid", "info", small]),
    }
    for subject, measured in side_by_side(subjects, setting.rounds).items():
        one = typical(measured)
        target = None
        if subject == "import tracebraid":
            target = Target(f"{_IMPORT_SECONDS} s", one.seconds < _IMPORT_SECONDS)
        yield _row("start", subject, measured, one.parts, target)


def _row(
    benchmark: str,
    subject: str,
    measured: list[Measured],
    figures: dict[str, float] | None = None,
    target: Target | None = None,
) -> Row:
    one = typical(measured)
    return Row(benchmark, subject, one.seconds, one.cpu_seconds, one.peak_bytes, figures or {}, target)


def _task(name: str, *arguments: object) -> list[str]:
    return ["-m", "benchmarks.task", name, *map(str, arguments)]


def _hta(path: Path, setting: Setting) -> _Subjects:
    if setting.hta_python is None:
        return {}
    return {_HTA: partial(task, ["-m", "benchmarks.hta_load", str(path)], setting.hta_python)}


BENCHMARKS: dict[str, Callable[[Setting], Iterator[Row]]] = {
    "read": _read,
    "gz": _read_gz,
    "et": _read_et,
    "link": _link,
    "summary": _summary,
    "start": _start,
}
LARGE: dict[str, Callable[[Setting], Iterator[Row]]] = {"large": _large}
"""Those that take minutes and gigabytes."""
