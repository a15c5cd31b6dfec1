"""Repeats a real trace's events, or an Execution Trace's nodes, with shifted times and fresh ids."""

from __future__ import annotations

import argparse
import gzip
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

_ARRAY_START = re.compile(rb'"(traceEvents|nodes)"\s*:\s*\[\s*')
_COMMA = re.compile(rb"\s*,\s*")
_ROOT = re.compile(r"\[pytorch\|profiler\|execution_(?:graph|trace)\|(?:process|thread)\]")


@dataclass(frozen=True)
class TraceText:
    """A whole trace, in memory."""

    is_et: bool  # an Execution Trace, not a Kineto trace
    before: bytes  # from the file's first byte to the array's first object
    objects: list[bytes]  # the events or nodes
    between: bytes  # what separates two of them
    after: bytes  # from the end of the last object to the file's last byte
    phases: list[str]  # `ph` of each event; nothing for nodes
    once: list[bool]  # whether each object stands for the whole run: metadata, process and thread roots
    root_ids: frozenset[int]  # the ids of an Execution Trace's roots
    span_us: int  # from the first start to the last end of what is no metadata, in whole µs; 0 for nodes


class _Event(msgspec.Struct, gc=False):
    ph: str
    ts: float = 0.0
    dur: float = 0.0


class _Node(msgspec.Struct, gc=False):
    id: int
    name: str


class _File(msgspec.Struct):
    traceEvents: msgspec.Raw = msgspec.Raw(b"[]")  # noqa: N815 (the file's own name)
    nodes: msgspec.Raw = msgspec.Raw(b"[]")


def read_trace_text(path: Path) -> TraceText:
    """Read a valid trace, plain or gzip."""
    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    start = _ARRAY_START.search(data)
    file = msgspec.json.decode(data, type=_File)
    if start is None:
        raise ValueError(f"{path}: neither traceEvents nor nodes is in it")
    is_et = start.group(1) == b"nodes"
    array = file.nodes if is_et else file.traceEvents
    objects = [bytes(one) for one in msgspec.json.decode(array, type=list[msgspec.Raw])]
    if not objects:
        raise ValueError(f"{path}: its array is empty")
    stop, between = _end_of(data, start.end(), objects)
    facts = _facts_of_nodes(array) if is_et else _facts_of_events(array)
    return TraceText(is_et, data[: start.end()], objects, between, data[stop:], **facts)


def _end_of(data: bytes, start: int, objects: list[bytes]) -> tuple[int, bytes]:
    """(where the last object ends, what stands between the first two)."""
    between, place = b",\n", start
    for number, one in enumerate(objects):
        comma = _COMMA.match(data, place) if number else None
        if comma is not None:
            between = comma.group() if number == 1 else between
            place = comma.end()
        if not data.startswith(one, place):
            raise ValueError(f"object {number} does not stand at byte {place:,}: is the array there twice?")
        place += len(one)
    return place, between


def _facts_of_events(array: msgspec.Raw) -> dict[str, Any]:
    events = msgspec.json.decode(array, type=list[_Event])
    timed = [event for event in events if event.ph != "M"]
    first = min((event.ts for event in timed), default=0.0)
    if first < 0:
        raise ValueError("an event starts before 0, and its time cannot be shifted digit by digit")
    last = max((event.ts + max(event.dur, 0.0) for event in timed), default=0.0)
    return {
        "phases": [event.ph for event in events],
        "once": [event.ph == "M" for event in events],
        "root_ids": frozenset(),
        "span_us": int(last - first) + 1,
    }


def _facts_of_nodes(array: msgspec.Raw) -> dict[str, Any]:
    nodes = msgspec.json.decode(array, type=list[_Node])
    once = [_ROOT.fullmatch(node.name) is not None for node in nodes]
    root_ids = frozenset(node.id for node, is_root in zip(nodes, once, strict=True) if is_root)
    return {"phases": [], "once": once, "root_ids": root_ids, "span_us": 0}


_GAP_US = 1000
_NO_ID = 2**32 - 1
"""From here on a number is a mark ("unknown" as an unsigned integer), and no id."""


class Kind(IntEnum):
    """Kinds of number."""

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
    """Distances from one repetition's numbers to the next one's."""

    time_us: int  # times
    ids: int  # ids and running numbers; a power of ten, so that repetition 3 of id 42 reads 3000042
    steps: int  # the N of `ProfilerStep#N`

    def of(self, number: Number, root_ids: frozenset[int]) -> int:
        """Return the distance that this number moves."""
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


_OBJECTS_PER_BLOCK = 10_000


@dataclass
class _Block:
    """The text of some objects with gaps where numbers go: one text more than numbers."""

    texts: list[bytes] = field(default_factory=lambda: [b""])
    numbers: list[int] = field(default_factory=list)
    shifts: list[int] = field(default_factory=list)

    def frozen(self) -> _Template:
        known: dict[bytes, bytes] = {}
        texts = [known.setdefault(text, text) for text in self.texts]
        return _Template(texts, np.array(self.numbers, dtype=np.int64), np.array(self.shifts, dtype=np.int64))


@dataclass(frozen=True)
class _Template:
    texts: list[bytes]
    numbers: NDArray[np.int64]
    shifts: NDArray[np.int64]

    def text_of(self, repetition: int) -> bytes:
        numbers = (self.numbers + repetition * self.shifts).tolist()
        gaps = map(b"%d".__mod__, numbers)
        return b"".join(chain.from_iterable(zip(self.texts, gaps, strict=False))) + self.texts[-1]


def repeat_trace(
    source: Path,
    out: Path,
    times: int | None = None,
    size_bytes: int | None = None,
    beside: Sequence[Path] = (),
) -> int:
    """Repeat a trace so many times, or until it has that size, whichever comes first; say how many times that was."""
    most_times = sys.maxsize if times is None else times
    most_bytes = sys.maxsize if size_bytes is None else size_bytes
    if not 1 <= min(most_times, most_bytes) < sys.maxsize:
        raise ValueError("say how many times or what size, and at least 1")
    trace = read_trace_text(source)
    shift = shift_for([trace, *(read_trace_text(path) for path in beside)])
    with closing(_Writer(out)) as writer:
        repetitions = 0
        for text in islice(_texts(trace, shift), most_times):
            writer.write(text)
            repetitions += 1
            if writer.written >= most_bytes:
                break
        writer.write(_last(trace))
    return repetitions


def repeat_pair(et: Path, kineto: Path, folder: Path, times: int) -> tuple[Path, Path]:
    """Repeat both traces of a rank into a folder, under their own names without `.gz`; return both paths."""
    out_et, out_kineto = (folder / path.name.removesuffix(".gz") for path in (et, kineto))
    repeat_trace(et, out_et, times, beside=[kineto])
    repeat_trace(kineto, out_kineto, times, beside=[et])
    return out_et, out_kineto


def _first(trace: TraceText) -> bytes:
    """From the beginning of the file to its last object that is repeated."""
    end = _after_repeated(trace)
    return trace.before + trace.between.join(trace.objects[:end])


def _last(trace: TraceText) -> bytes:
    """Return the objects after all that is repeated: an Execution Trace ends with its process node."""
    rest = trace.objects[_after_repeated(trace) :]
    return b"".join(trace.between + one for one in rest) + trace.after


def _after_repeated(trace: TraceText) -> int:
    return max(index for index, once in enumerate(trace.once) if not once) + 1


def _texts(trace: TraceText, shift: Shift) -> Iterator[bytes]:
    """One text per repetition without end, the first with all that stands before it."""
    yield _first(trace)
    blocks = list(_blocks(trace, shift))
    repetition = 0
    while True:
        repetition += 1
        yield b"".join(block.text_of(repetition) for block in blocks)


def _blocks(trace: TraceText, shift: Shift) -> Iterator[_Template]:
    """The objects that are repeated, each with what stands between two objects before it."""
    repeated = (text for text, once in zip(trace.objects, trace.once, strict=True) if not once)
    block = _Block()
    for index, (text, numbers) in enumerate(zip(repeated, numbers_of(trace), strict=True)):
        if index and index % _OBJECTS_PER_BLOCK == 0:
            yield block.frozen()
            block = _Block()
        place = 0
        block.texts[-1] += trace.between
        for number in numbers:
            block.texts[-1] += text[place : number.start]
            block.texts.append(b"")
            block.numbers.append(number.value)
            block.shifts.append(shift.of(number, trace.root_ids))
            place = number.stop
        block.texts[-1] += text[place:]
    yield block.frozen()


class _Writer:
    """Writes a file, plain or gzip by its name, and counts what was put into it."""

    def __init__(self, path: Path) -> None:
        self.written = 0
        self._stream: IO[bytes] = _open_gzip(path) if path.suffix == ".gz" else path.open("wb")

    def write(self, text: bytes) -> None:
        self._stream.write(text)
        self.written += len(text)

    def close(self) -> None:
        self._stream.close()


def _open_gzip(path: Path) -> IO[bytes]:
    from isal import igzip

    stream: IO[bytes] = igzip.open(path, "wb")
    return stream


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.repeat_trace", description=__doc__)
    parser.add_argument("source", type=Path, metavar="IN", help="the trace, .json or .json.gz")
    parser.add_argument("out", type=Path, metavar="OUT", help="the trace to write, gzip where it ends in .gz")
    amount = parser.add_mutually_exclusive_group(required=True)
    amount.add_argument("--times", type=int, metavar="K", help="how many times its contents are to be there")
    amount.add_argument(
        "--size-gb", type=float, metavar="X", help="the uncompressed size to come to, in 10^9 bytes"
    )
    parser.add_argument("--beside", type=Path, metavar="FILE", help="the other trace of the pair")
    given = parser.parse_args(arguments)
    size_bytes = None if given.size_gb is None else int(given.size_gb * 1e9)
    try:
        times = repeat_trace(
            given.source, given.out, given.times, size_bytes, [given.beside] if given.beside else []
        )
    except (OSError, ValueError) as error:
        parser.error(str(error))
    print(f"{given.out}: {times} times, {given.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
