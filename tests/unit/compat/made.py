"""A trace as HTA holds it, made by hand: its class is not needed for the tests that every machine runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.builders import Json, et_text, kineto_text, op, process_node, thread_node, write
from tests.builders import node as et_node
from tracebraid.compat.hta import Trace

__all__ = ["et_node", "files", "op", "trace_of", "without_files"]


def files(folder: Path, events: list[Json], nodes: list[Json]) -> tuple[str, str]:
    """Paths of the Kineto trace and of the Execution Trace of rank 0."""
    kineto = write(folder / "kineto_trace_0.json", kineto_text(events))
    et = write(folder / "torch_et_0.json", et_text([process_node(), thread_node(), *nodes]))
    return str(kineto), str(et)


def trace_of(kineto: str) -> Trace:
    """A trace with the attributes and the columns that HTA's has."""
    return Trace({0: kineto})


def without_files(trace: Trace) -> Any:
    """The same trace, whose file is gone."""
    trace.trace_files = {}
    return trace
