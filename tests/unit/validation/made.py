"""Small captures: a sound one, and folders of such ones with what a test changes about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.builders import Json, et_text, kineto_text, node, op, write
from tests.unit.linking.made import et_of
from tracebraid.model.check import Check, Diagnosis
from tracebraid.model.finding import Finding


def ran(name: str, ts: float, dur: float, rf_id: int, **more: Any) -> Json:
    """A host op with a record-function id."""
    return op(name, ts, dur, Record_function_id=rf_id, **more)


def step(number: int, ts: float = 0, dur: float = 1000, **more: Any) -> Json:
    """A step of the profiler."""
    return op(f"ProfilerStep#{number}", ts, dur, cat="user_annotation", **more)


EVENTS = (
    step(1, Record_function_id=10),
    ran("outer", 10, 500, 11),
    ran("inner", 20, 100, 12),
    ran("after", 600, 100, 13),
)
NODES = tuple(
    et_of(
        node(10, "ProfilerStep#1", 1001),
        node(11, "outer", 10),
        node(12, "inner", 11),
        node(13, "after", 10),
    )
)
"""The two traces of one step, which agree in everything."""


def shuffled(node_id: int, parent: int) -> list[Json]:
    """`NODES`, one with another parent."""
    return [{**one, "ctrl_deps": parent} if one["id"] == node_id else one for one in NODES]


def lay(
    folder: Path,
    rank: int = 0,
    events: Iterable[Json] | None = EVENTS,
    nodes: Sequence[Json] | None = NODES,
    info: Json | None = None,
) -> Path:
    """Write the traces of a rank into a folder, of one kind only where the other is None; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if nodes is not None:
        write(folder / f"torch_et_{rank}.json", et_text(list(nodes)))
    if events is not None:
        header = {"distributedInfo": {"rank": rank, **(info or {})}}
        write(folder / f"kineto_trace_{rank}.json", kineto_text(list(events), header))
    return folder


def codes(found: Check | Iterable[Finding]) -> list[str]:
    """The codes of all findings, in their order."""
    findings = [one.finding for one in found.diagnoses] if isinstance(found, Check) else found
    return [finding.code for finding in findings]


def diagnosis(check: Check, code: str) -> Diagnosis:
    """The one diagnosis with that code."""
    (one,) = [one for one in check.diagnoses if one.finding.code == code]
    return one
