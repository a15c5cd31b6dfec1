"""Processes to Chrome JSON, which Perfetto, chrome://tracing and other tools open: the same as the protobuf holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import polars as pl
from msgspec import Struct

from tracebraid.exporters.perfetto.content import Arg, ArgKind, Counter, Flow, Process
from tracebraid.exporters.perfetto.protobuf import SliceTracks, TimelineForm, slice_tracks
from tracebraid.model.quantities import NS_PER_US
from tracebraid.wire_format import Ints

_DECIMALS = 3


def joined(*parts: str | pl.Expr) -> pl.Expr:
    """Texts and columns of text, in turn, as the column `text`."""
    return pl.concat_str([pl.lit(part) if isinstance(part, str) else part for part in parts]).alias("text")


def json_of(text: str) -> str:
    """A text as JSON."""
    return msgspec.json.encode(text).decode()


def json_of_texts(texts: list[str], kind: ArgKind = ArgKind.TEXT) -> list[str]:
    """Each text as JSON; one that is JSON already as it is, unless it only seems to be."""
    return [text if kind is ArgKind.JSON and _is_json(text) else json_of(text) for text in texts]


def gathered(texts: list[str], numbers: Ints) -> pl.Series:
    """The text of each number; null below 0."""
    with_none = pl.Series([*texts, None], dtype=pl.String)
    return with_none.gather(np.where(numbers < 0, len(texts), numbers))


def decimal_us(column: str) -> pl.Expr:
    """Nanoseconds as decimal µs, exactly."""
    size = pl.col(column).abs()
    sign = pl.when(pl.col(column) < 0).then(pl.lit("-")).otherwise(pl.lit(""))
    rest = (size % NS_PER_US).cast(pl.String).str.zfill(_DECIMALS)
    return joined(sign, (size // NS_PER_US).cast(pl.String), ".", rest)


def number_text(column: str) -> pl.Expr:
    """A column of numbers or booleans as JSON; what JSON has no number for as text."""
    value = pl.col(column)
    return value.cast(pl.String)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


_TEXTS = (ArgKind.TEXT, ArgKind.JSON)


class ArgTexts:
    """The arguments of the slices of a process; distinct texts become JSON once."""

    def __init__(self, args: Sequence[Arg]) -> None:
        """Take the arguments of all slices."""
        self._args = [(arg, json_of_texts(list(arg.distinct), arg.kind)) for arg in args]

    def of(self, first: int, last: int) -> pl.Series:
        """The object of each slice from the first to the one before the last."""
        found = list(self._members(first, last))
        empty = pl.Series("args", ["{}"] * (last - first), dtype=pl.String)
        if not found:
            return empty
        members = pl.concat(found).group_by("row").agg(pl.col("text"))
        objects = members.select("row", joined("{", pl.col("text").list.join(","), "}").alias("args"))
        rows: Ints = objects.get_column("row").to_numpy()
        found_at: pl.Series = empty.scatter(rows - first, objects.get_column("args"))
        return found_at

    def _members(self, first: int, last: int) -> Iterator[pl.DataFrame]:
        for arg, texts in self._args:
            start, stop = np.searchsorted(arg.rows, (first, last))
            if start == stop:
                continue
            values = arg.values[start:stop]
            text = gathered(texts, values.astype(np.int64)) if arg.kind in _TEXTS else _numbers(arg, values)
            frame = pl.DataFrame({"row": arg.rows[start:stop], "text": text})
            yield frame.select("row", joined(f"{json_of(arg.name)}:", pl.col("text")))


def _numbers(arg: Arg, values: np.ndarray) -> pl.Series:
    """Numbers as JSON; infinity and the like, for which JSON has no number, as texts."""
    number = pl.col("value")
    text = number.cast(pl.String)
    if arg.kind is ArgKind.FLOAT:
        text = pl.when(number.is_finite()).then(text).otherwise(pl.concat_str(pl.lit('"'), text, pl.lit('"')))
    return pl.DataFrame({"value": values}).select(text).to_series()


_SLICES_PER_CHUNK = 1 << 16
_BETWEEN = ",\n"
_COUNTERS_TID = 0


def _head(base_ns: int) -> bytes:
    """The header: times are decimal µs with three digits, relative to `baseTimeNanoseconds` as Kineto writes them, so
    that they stay exact where they are read as floats.
    """
    header = {"schemaVersion": 1, "displayTimeUnit": "ns", "baseTimeNanoseconds": base_ns}
    return msgspec.json.encode(header)[:-1] + b',"traceEvents":[\n'


def _process(process: Process, base_ns: int) -> Iterator[bytes]:
    between = ""
    for lines in _lines(process, base_ns):
        if len(lines):
            yield (between + lines.str.join(_BETWEEN).item()).encode()
            between = _BETWEEN


def _lines(process: Process, base_ns: int) -> Iterator[pl.Series]:
    """The events of a process, each as JSON: its names, slices, flows and counters."""
    slices = process.slices
    tracks = slice_tracks(slices, len(process.lanes))
    yield pl.Series(_names(process, tracks), dtype=pl.String)
    texts = _JsonTexts(
        json_of_texts(list(slices.names.distinct)),
        json_of_texts(list(slices.categories.distinct)),
        ArgTexts(slices.args),
    )
    for start in range(0, len(slices), _SLICES_PER_CHUNK):
        yield _slices(process, tracks.of_slice, texts, slice(start, start + _SLICES_PER_CHUNK), base_ns)
    for flow in slices.flows:
        yield _flow(process, flow, tracks.of_slice, base_ns)
    for counter in process.counters:
        yield _counter(process, counter, base_ns)


def _names(process: Process, tracks: SliceTracks) -> list[str]:
    found = [
        _metadata("process_name", process, 0, {"name": process.name}),
        _metadata("process_sort_index", process, 0, {"sort_index": process.order}),
    ]
    if process.labels:
        found.append(_metadata("process_labels", process, 0, {"labels": ", ".join(process.labels)}))
    for tid, lane in enumerate(tracks.lanes, 1):
        found.append(_metadata("thread_name", process, tid, {"name": process.lanes[lane].name}))
        found.append(_metadata("thread_sort_index", process, tid, {"sort_index": tid}))
    return found


def _metadata(name: str, process: Process, tid: int, args: dict[str, object]) -> str:
    event = {"ph": "M", "name": name, "pid": process.pid, "tid": tid, "ts": 0, "args": args}
    return msgspec.json.encode(event).decode()


def _slices(process: Process, tracks: Ints, texts: _JsonTexts, rows: slice, base_ns: int) -> pl.Series:
    slices = process.slices
    frame = pl.DataFrame(
        {
            "name": gathered(texts.names, slices.names.numbers[rows]).fill_null('""'),
            "category": gathered(texts.categories, slices.categories.numbers[rows]).fill_null('""'),
            "tid": tracks[rows] + 1,
            "ts": slices.ts_ns[rows] - base_ns,
            "dur": slices.dur_ns[rows],
            "is_instant": slices.is_instant[rows],
            "args": texts.args.of(rows.start, min(rows.stop, len(slices))),
        }
    )
    with_length = joined('"X","dur":', decimal_us("dur"))
    form = pl.when("is_instant").then(pl.lit('"i","s":"t"')).otherwise(with_length)
    parts = ('{"ph":', form, ',"name":', pl.col("name"), ',"cat":', pl.col("category"))
    position = (f',"pid":{process.pid},"tid":', number_text("tid"), ',"ts":', decimal_us("ts"))
    return frame.select(joined(*parts, *position, ',"args":', pl.col("args"), "}")).to_series()


def _flow(process: Process, flow: Flow, tracks: Ints, base_ns: int) -> pl.Series:
    """The ends of flows: an arrow belongs to the slice that starts at its time on its track."""
    phase = np.where(flow.is_first, "s", np.where(flow.is_last, "f", "t"))
    frame = pl.DataFrame(
        {"id": flow.numbers, "tid": tracks[flow.rows] + 1, "ts": process.slices.ts_ns[flow.rows] - base_ns}
    ).with_columns(pl.Series("ph", phase, dtype=pl.String))
    binding = pl.when(pl.col("ph") == "s").then(pl.lit("")).otherwise(pl.lit(',"bp":"e"'))
    head = f'"cat":"{flow.kind.value}","name":"{flow.kind.value}","pid":{process.pid}'
    parts = ('{"ph":"', pl.col("ph"), f'",{head},"tid":', number_text("tid"), ',"id":', number_text("id"))
    return frame.select(joined(*parts, ',"ts":', decimal_us("ts"), binding, "}")).to_series()


def _counter(process: Process, counter: Counter, base_ns: int) -> pl.Series:
    frame = pl.DataFrame({"ts": counter.ts_ns - base_ns, "value": counter.values})
    head = f'{{"ph":"C","name":{json_of(counter.name)},"pid":{process.pid},"tid":{_COUNTERS_TID},"ts":'
    unit = f',"args":{{{json_of(counter.unit.value)}:'
    return frame.select(joined(head, decimal_us("ts"), unit, number_text("value"), "}}")).to_series()


class _JsonTexts(Struct, frozen=True, eq=False):
    """Names, categories and arguments of the slices of a process, as JSON."""

    names: list[str]
    categories: list[str]
    args: ArgTexts


CHROME = TimelineForm(_process, _head, _BETWEEN.encode(), b"\n]}\n")
