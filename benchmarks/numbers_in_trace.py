"""The numbers in a trace's text that change from one repetition to the next, and by how much."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from benchmarks.trace_text import TraceText

__all__ = ["Kind", "Number", "Shift", "numbers_of", "shift_for"]

_GAP_US = 1000
_NO_ID = 2**32 - 1
"""From here on a number is a mark ("unknown" as an unsigned integer), and no id."""


class Kind(IntEnum):
    """What a number is."""

    TIME = 0
    STEP = 1
    COUNT = 2
    ID = 3
    NODE = 4


@dataclass(frozen=True)
class Number:
    """A number in the text of one object, at [start, stop)."""

    start: int
    stop: int
    kind: Kind
    value: int


@dataclass(frozen=True)
class Shift:
    """How far one repetition's numbers lie from the next one's.

    Args:
        time_us: times.
        ids: ids and running numbers; a power of ten, so that repetition 3 of id 42 reads 3000042.
        steps: the N of `ProfilerStep#N`.
    """

    time_us: int
    ids: int
    steps: int

    def of(self, number: Number, root_ids: frozenset[int]) -> int:
        """How far this number moves."""
        if number.kind is Kind.TIME:
            return self.time_us
        if number.kind is Kind.STEP:
            return self.steps
        if number.value >= _NO_ID or (number.value == 0 and number.kind is not Kind.COUNT):
            return 0
        return 0 if number.kind is Kind.NODE and number.value in root_ids else self.ids


@dataclass(frozen=True)
class _Pattern:
    """A pattern whose n-th group is a number of the n-th kind."""

    regex: re.Pattern[bytes]
    kinds: tuple[Kind, ...]


def _member(keys: str) -> str:
    return rf'"(?:{keys})"\s*:\s*(\d+)'


def _pattern(*parts: tuple[str, tuple[Kind, ...]]) -> _Pattern:
    text = "|".join(part for part, _ in parts)
    return _Pattern(re.compile(text.encode()), tuple(kind for _, kinds in parts for kind in kinds))


_TIME = (_member("ts"), (Kind.TIME,))
_STEP = (r'"ProfilerStep#(\d+)"', (Kind.STEP,))
_FLOW = _pattern(_TIME, (_member("id"), (Kind.ID,)))
_EVENT = _pattern(
    _TIME,
    _STEP,
    (_member("Ev Idx|Sequence number|Seq"), (Kind.COUNT,)),
    (
        _member(
            "External [iI]d|Record function id|correlation|wait_on_cuda_event_record_corr_id|"
            "Python id|Python parent id|graph id|graph node id"
        ),
        (Kind.ID,),
    ),
)
_NODE = _pattern(
    _STEP,
    (_member("id|parent|ctrl_deps|fw_parent"), (Kind.NODE,)),
    (_member("rf_id"), (Kind.ID,)),
    (_member("seq_id"), (Kind.COUNT,)),
    (r'"name"\s*:\s*"rf_id"\s*,\s*"type"\s*:\s*"\w*"\s*,\s*"value"\s*:\s*(\d+)', (Kind.ID,)),
    (r'"name"\s*:\s*"fw_parent"\s*,\s*"type"\s*:\s*"\w*"\s*,\s*"value"\s*:\s*(\d+)', (Kind.NODE,)),
    (r'"name"\s*:\s*"seq_id"\s*,\s*"type"\s*:\s*"\w*"\s*,\s*"value"\s*:\s*(\d+)', (Kind.COUNT,)),
    (r'\[\s*(\d+)\s*,\s*(\d+)\s*(?=(?:,\s*-?\d+\s*){3},\s*"[^"\\]*"\s*\])', (Kind.ID, Kind.ID)),
)
"""The last one is a tensor: [tensor id, storage id, offset, elements, bytes of each, device]. In none of these
can text inside a JSON string match: there a backslash stands before each quote."""


def numbers_of(trace: TraceText) -> Iterator[list[Number]]:
    """The numbers of each object that is repeated, in the order of the text."""
    for index, text in enumerate(trace.objects):
        if not trace.once[index]:
            yield _numbers_in(text, _NODE if trace.is_et else _pattern_of(trace.phases[index]))


def _pattern_of(phase: str) -> _Pattern:
    return _FLOW if phase in ("s", "t", "f") else _EVENT


def _numbers_in(text: bytes, pattern: _Pattern) -> list[Number]:
    return [
        Number(start, stop, kind, int(text[start:stop]))
        for match in pattern.regex.finditer(text)
        for kind, (start, stop) in zip(pattern.kinds, match.regs[1:], strict=True)
        if start >= 0
    ]


def shift_for(traces: Sequence[TraceText]) -> Shift:
    """One shift for all files of a pair, so that what they have in common still agrees."""
    largest, steps = 0, set()
    for trace in traces:
        for numbers in numbers_of(trace):
            for number in numbers:
                if number.kind is Kind.STEP:
                    steps.add(number.value)
                elif number.kind is not Kind.TIME and number.value < _NO_ID:
                    largest = max(largest, number.value)
    time_us = max(trace.span_us for trace in traces) + _GAP_US
    return Shift(time_us, 10 ** len(str(largest)), max(steps) - min(steps) + 1 if steps else 0)
