"""The jobs of `job`, asked what takes longer: their graph, simulations, reports, and every format of exports."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from tools.fuzz.calls.chakra import CHAKRA_CALLS
from tools.fuzz.calls.exports import EXPORT_CALLS, REPORT_CALLS, VIEW_CALLS
from tools.fuzz.calls.graph import GRAPH_CALLS
from tools.fuzz.formats.job import FORMAT as JOB
from tools.fuzz.model import Call, Format, Sample
from tracebraid.errors import TracebraidError

_RARELY = 0.15
"""The share of draws in which a call of a second or more is asked."""


def _samples(folder: Path) -> list[Sample]:
    """Those of the job; each kind of call is asked once, so that code is compiled before the clock runs."""
    samples = list(JOB.samples(folder))
    for number, call in enumerate((*GRAPH_CALLS, *CHAKRA_CALLS)):
        mutant = folder / f"warm_{number}"
        mutant.mkdir()
        for name, data in samples[0].files.items():
            (mutant / name).write_bytes(data)
        with suppress(TracebraidError):
            call.ask(mutant, Random(0))
    return samples


def _rarely(call: Call) -> Call:
    ask: Callable[[Path, Random], object] = call.ask
    return Call(call.name, lambda folder, rng: ask(folder, rng) if rng.random() < _RARELY else None)


FORMAT = Format(
    "job_answers",
    _samples,
    JOB.mutations,
    (),
    (*GRAPH_CALLS, *GRAPH_CALLS, *CHAKRA_CALLS, *EXPORT_CALLS, *map(_rarely, (*REPORT_CALLS, *VIEW_CALLS))),
)
