"""Repeat a real trace's events, or an Execution Trace's nodes, with shifted times and fresh ids.

    python -m benchmarks.repeat_trace IN OUT --times 3
    python -m benchmarks.repeat_trace IN OUT --size-gb 1.25

The first repetition is the trace as it is, byte for byte; those after it keep its layout. Metadata, header,
process and thread roots stay single. Memory is bounded by the trace that is repeated, not by what is written.
The two traces of a pair are repeated one by one, each with `--beside` the other, so that both shift their ids
by the same.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from benchmarks.numbers_in_trace import Shift, numbers_of, shift_for
from benchmarks.trace_text import TraceText, read_trace_text

__all__ = ["repeat_pair", "repeat_trace"]

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
    """Repeat a trace so many times, or until it has that size, whichever comes first; say how many times that was.

    Args:
        source: the trace, plain or gzip.
        out: the file to write; gzip where its name ends in `.gz`.
        times: how many times what it holds is to be there; 1 writes the trace as it is.
        size_bytes: the uncompressed size to come to.
        beside: the other traces of the same run.

    Raises:
        ValueError: it is no trace, or neither a number of times nor a size is given.
    """
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
    """What stands single after all that is repeated: an Execution Trace ends with its process node."""
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
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.repeat_trace", description=__doc__.split("\n")[0]
    )
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
