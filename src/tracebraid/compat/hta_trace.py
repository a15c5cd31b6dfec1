"""The subset of HTA's `TraceAnalysis` and `Trace` that correlates an Execution Trace, without HTA."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from tracebraid import open as open_job
from tracebraid import read_timeline
from tracebraid.errors import ArgumentError
from tracebraid.extras import Extra, missing_extra
from tracebraid.model.category import Category, Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.quantities import NS_PER_US
from tracebraid.model.timeline import Timeline

__all__ = ["SymbolTable", "Trace", "TraceAnalysis"]

_LEFT_OUT = (Category.TRACE.value, *categories_of(Role.INSTANT))
_NO_ID = -1


class TraceAnalysis:
    """Opens the Kineto traces of a run, as HTA's class of this name does; of its analyses it has none.

    Args:
        trace_files: the Kineto trace of each rank; None: those in `trace_dir`.
        trace_dir: the folder; a leading `~` is the home folder.

    Raises:
        InputError: a file cannot be read, or there is none.
        MissingLibraryError: pandas is not installed.

    Examples:
        >>> import tracebraid
        >>> analyzer = TraceAnalysis(trace_dir=str(tracebraid.demo_path()))
        >>> analyzer.t.get_ranks()
        [0, 1]
    """

    def __init__(self, trace_files: dict[int, str] | None = None, trace_dir: str | Path = ".") -> None:
        self.t = Trace(trace_files, trace_dir)


class Trace:
    """The Kineto traces of a run as pandas DataFrames in the manner of HTA's: see `get_trace`.

    Args:
        trace_files: the Kineto trace of each rank; None: those in `trace_dir`.
        trace_dir: the folder; a leading `~` is the home folder.
    """

    def __init__(self, trace_files: dict[int, str] | None = None, trace_dir: str | Path = ".") -> None:
        files = _files_in(trace_dir) if trace_files is None else dict(trace_files)
        timelines = {rank: read_timeline(Path(file).expanduser()) for rank, file in sorted(files.items())}
        start_ns = min((line.span_ns[0] for line in timelines.values() if line.span_ns), default=0)
        self.trace_files = {rank: line.path for rank, line in timelines.items()}
        self.symbol_table = SymbolTable()
        self.traces = {rank: self._frame(line, start_ns) for rank, line in timelines.items()}

    def get_ranks(self) -> list[int]:
        """The ranks, in order."""
        return sorted(self.traces)

    def get_all_traces(self) -> dict[int, Any]:
        """The DataFrame of each rank."""
        return self.traces

    def get_trace(self, rank: int) -> Any:
        """The DataFrame of a rank: a row for each event that lasts.

        Its columns: `index` (the event's row in `Timeline.events`), `cat` and `name` (numbers of symbols), `pid`,
        `tid`, `ts` and `dur` and `end` (µs from the first event of all ranks, exact to the ns), `stream`,
        `correlation` and `external_id` (-1: none).

        Raises:
            ArgumentError: there is no such rank.
        """
        if rank not in self.traces:
            raise ArgumentError(f"there is no trace of rank {rank}; there are ranks {self.get_ranks()}")
        return self.traces[rank]

    def _frame(self, timeline: Timeline, start_ns: int) -> Any:
        table = _rows(timeline, start_ns)
        return _as_pandas(
            table.with_columns(self.symbol_table.encode(table[name]) for name in ("cat", "name"))
        )


class SymbolTable:
    """Numbers for the texts of the columns `cat` and `name`."""

    def __init__(self) -> None:
        self.sym_table: list[str] = []
        self.sym_index: dict[str, int] = {}

    def get_sym_table(self) -> list[str]:
        """The texts by number."""
        return self.sym_table

    def get_sym_id_map(self) -> dict[str, int]:
        """The number of each text."""
        return self.sym_index

    def add_symbols(self, symbols: Iterable[str]) -> None:
        """Number the texts that have no number yet."""
        for symbol in symbols:
            if symbol not in self.sym_index:
                self.sym_index[symbol] = len(self.sym_table)
                self.sym_table.append(symbol)

    def encode(self, texts: pl.Series) -> pl.Series:
        """The number of each text; texts without one get one."""
        unique = texts.unique(maintain_order=True).to_list()
        self.add_symbols(unique)
        numbers = [self.sym_index[text] for text in unique]
        encoded: pl.Series = texts.replace_strict(unique, numbers, return_dtype=pl.Int64)
        return encoded

    def add_symbols_to_trace_df(self, trace_df: Any, col: str) -> None:
        """Put the texts into a column of numbers, in place; a number of no symbol becomes the empty text."""
        trace_df[col] = trace_df[col].map(dict(enumerate(self.sym_table))).fillna("")


def _files_in(trace_dir: str | Path) -> dict[int, str]:
    files = open_job(Path(trace_dir).expanduser()).files
    return {entry.rank: entry.kineto for entry in files if entry.kineto is not None}


def _rows(timeline: Timeline, start_ns: int) -> pl.DataFrame:
    ids = pl.concat(
        [
            timeline.host_ops.select("event_id", "external_id"),
            timeline.host_calls.select("event_id", "external_id", "correlation"),
            timeline.device_work.select("event_id", "external_id", "correlation", "stream"),
        ],
        how="diagonal",
    )
    us = (pl.col("ts_ns") - start_ns, pl.col("dur_ns"), pl.col("ts_ns") - start_ns + pl.col("dur_ns"))
    return (
        timeline.events.with_columns(as_text("name", "category").fill_null(""))
        .filter(~pl.col("category").is_in(_LEFT_OUT))
        .join(timeline.lanes.select("lane", "pid", "tid"), on="lane", how="left", maintain_order="left")
        .join(ids, on="event_id", how="left", maintain_order="left")
        .select(
            pl.col("event_id").alias("index"),
            pl.col("category").alias("cat"),
            "name",
            "pid",
            "tid",
            *((time / NS_PER_US).alias(name) for time, name in zip(us, ("ts", "dur", "end"), strict=True)),
            pl.col("stream", "correlation", "external_id").fill_null(_NO_ID),
        )
    )


def _as_pandas(frame: pl.DataFrame) -> Any:
    """The frame as a pandas DataFrame; pandas, or pyarrow which converts, may be missing."""
    try:
        return frame.to_pandas()
    except ModuleNotFoundError as error:
        raise missing_extra(Extra.PANDAS) from error
