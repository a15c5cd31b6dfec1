"""A server under load for people, and for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
from msgspec.structs import asdict
from rich.table import Table
from rich.text import Text

from tracebraid.model.printable import printable
from tracebraid.model.quantities import duration, number, percent
from tracebraid.model.serving import Serving, ServingNote
from tracebraid.reports.fitted_table import Head, fitted_table
from tracebraid.reports.machine import rows_data

_SENTENCES = {
    ServingNote.ONE_BATCH: (
        "All steps that decode have one batch size. Another takes between the same time and a time in proportion to "
        "it: the intervals span both, the values lie between."
    ),
    ServingNote.ONE_PROMPT: (
        "All steps that read prompts read as many tokens. Other lengths take between the same time and a time in "
        "proportion: the intervals span both, the values lie between."
    ),
    ServingNote.BEYOND_BATCH: "No step of the trace has a batch as large as the maximum: its time is extrapolated.",
    ServingNote.CONTEXT_UNKNOWN: (
        "The trace does not state the tokens in the caches: longer outputs or prompts do not make decoding slower here."
    ),
    ServingNote.MEAN_OUTPUT: "All outputs have the mean length of the trace: different lengths mean longer queues.",
}
_QUEUE = {True: "yes", False: "no", None: "unsure"}
_BATCHES = 12
"""Printed batch sizes at most."""


def serving_data(found: Serving) -> dict[str, Any]:
    """The answer for JSON."""
    return {
        "policy": found.policy.value,
        "prompt_tokens": found.prompt_tokens,
        "output_tokens": found.output_tokens,
        "capacity": rows_data(found.capacity),
        "rates": rows_data(found.rates),
        "batches": rows_data(found.batches),
        "fit": {name: value if value == value else None for name, value in asdict(found.fit).items()},
        "notes": [note.value for note in found.notes],
    }


def serving_parts(found: Serving, width: int) -> list[Text | Table]:
    """Format an answer as texts and tables."""
    tables = [_rates(found.rates, width), _batches(found.batches, width)]
    notes = [Text(_SENTENCES[note]) for note in found.notes]
    return [*(Text(printable(line)) for line in _head(found)), Text(""), *tables, *notes]


def _head(found: Serving) -> list[str]:
    lines = [
        f"At most {row['max_batch']:,} sequences at once: {_rate(row['capacity'])} requests/s at most "
        f"({_rate(row['capacity_low'])} to {_rate(row['capacity_high'])}), {number(row['tokens_per_second'])} tokens/s."
        for row in found.capacity.iter_rows(named=True)
    ]
    fit = found.fit
    parts = [f"{duration(fit.base_ns)} + {duration(fit.sequence_ns)} per sequence"]
    if fit.cached_token_ns:
        parts.append(f"{duration(fit.cached_token_ns)} per cached token")
    lines.append(f"A step that decodes takes {' + '.join(parts)}, with a spread of {percent(fit.spread)}.")
    if fit.prompt_base_ns == fit.prompt_base_ns:
        takes = f"{duration(fit.prompt_base_ns)} + {duration(fit.prompt_token_ns)} per token"
        lines.append(f"A step that reads prompts takes {takes}.")
    left = f"; {fit.left_out:,} others do not state their batch" if fit.left_out else ""
    lines.append(f"From {fit.steps:,} steps{left}. Policy: {found.policy.value}.")
    lines.append(f"Prompt tokens: {found.prompt_tokens}; output tokens: {found.output_tokens}.")
    lines.append("TTFT: time to the first token; TPOT: time per output token of a request after it.")
    return lines


def _rates(rates: pl.DataFrame, width: int) -> Table:
    heads = (
        *(Head("max batch"), Head("requests/s"), Head("load"), Head("queue grows", "left")),
        *(Head("mean batch", rank=1), Head("TTFT p50"), Head("p95"), Head("p99", rank=2)),
        *(Head("TPOT p50"), Head("p95"), Head("p99", rank=2), Head("tokens/s", rank=1)),
    )
    several = rates.get_column("max_batch").n_unique() > 1
    rows = [_rate_cells(row, several) for row in rates.iter_rows(named=True)]
    return fitted_table("By arrival rate", heads, rows, width, kept=4)


def _rate_cells(row: Mapping[str, Any], several: bool) -> list[str]:
    times = [
        "" if row[f"{name}_p{p}_ns"] is None else duration(row[f"{name}_p{p}_ns"])
        for name in ("ttft", "tpot")
        for p in (50, 95, 99)
    ]
    return [
        f"{row['max_batch']:,}" if several else "",
        _rate(row["rate"]),
        percent(row["load"]),
        _QUEUE[row["queue_grows"]],
        "" if row["mean_batch"] is None else f"{row['mean_batch']:.1f}",
        *times,
        "" if row["tokens_per_second"] is None else number(row["tokens_per_second"]),
    ]


def _batches(batches: pl.DataFrame, width: int) -> Table:
    """Tabulate the step by its batch: a few sizes, of many each about as many times the one before."""
    last = batches.height
    sizes = {round(last ** (place / (_BATCHES - 1))) for place in range(_BATCHES)}
    sizes |= set(range(1, last + 1)) if last <= _BATCHES else set()
    rows = [
        [
            f"{row['batch']:,}",
            f"{row['steps']:,}" if row["steps"] else "",
            "" if row["measured_ns"] is None else duration(row["measured_ns"]),
            duration(row["step_ns"]),
            f"{duration(row['step_low_ns'])} to {duration(row['step_high_ns'])}",
            number(row["tokens_per_second"]),
        ]
        for row in batches.filter(pl.col("batch").is_in(sorted(sizes))).iter_rows(named=True)
    ]
    heads = (Head("batch"), Head("steps"), Head("measured"), Head("predicted"), Head("80 % interval"))
    title = "Time per token by batch size"
    return fitted_table(title, (*heads, Head("tokens/s")), rows, width, kept=4)


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 1000 else f"{rate:.3g}"
