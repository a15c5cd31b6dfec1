"""The modules that ops carry with them: TorchScript's module hierarchy, and the call stacks of old traces."""

from __future__ import annotations

import re
from itertools import pairwise

import polars as pl

from tracebraid.model.answers import ModuleSource
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.module_name import MODULE_PREFIX

__all__ = ["Module", "recorded_modules"]

Module = tuple[str, str | None]
"""Name and class; no class where it is unknown."""

_IN_HIERARCHY = re.compile(r"([^.()]*)\(([^()]*)\)::[^.()]*")
"""`layer1(Sequential)::forward`: the attribute, its class, and the method."""

_TOP, _SAME = "TOP", "SELF"
"""The outermost module, and another method of the same module."""

_FRAME = re.compile(r"^(?P<file>.*)\((?P<line>\d+)\): (?P<function>.*)$")
_CALLER = re.compile(r"torch[/\\]nn[/\\]modules[/\\]module\.py\(\d+\): ")
"""The frames of `nn.Module.__call__`: what they call is a module's forward function."""


def recorded_modules(linked: LinkedTrace) -> tuple[ModuleSource | None, pl.DataFrame, list[list[Module]]]:
    """What the modules are known from, the ops with their modules, and the modules, the outermost first.

    The frame has `event_id` and `modules`, a row of the list. A module of a call stack is called after the file of its
    forward function and the line that called it, `linear.py:forward@23`: neither class nor instance is known.
    """
    ops = linked.timeline.host_ops
    for column, source, read in (
        ("module_hierarchy", ModuleSource.MODULE_HIERARCHY, _of_hierarchy),
        ("call_stack", ModuleSource.STACKS, _of_stack),
    ):
        texts = ops.select(as_text(column).alias("text")).drop_nulls().get_column("text")
        unique = texts.unique(maintain_order=True).to_list()
        modules = {text: found for text in unique if (found := read(text))}
        if modules:
            number = pl.DataFrame(
                {"text": list(modules), "modules": range(len(modules))},
                schema={"text": pl.String, "modules": pl.Int64},
            )
            carried = ops.select("event_id", as_text(column).alias("text"))
            rows = carried.join(number, on="text", maintain_order="left")
            return source, rows.select("event_id", "modules"), list(modules.values())
    return None, pl.DataFrame(schema={"event_id": pl.Int64, "modules": pl.Int64}), []


def _of_hierarchy(text: str) -> list[Module]:
    """`TOP(Net)::forward.SELF(Net)::features.conv(Conv2d)::forward`: Net, and in it conv."""
    found = [(match[1], match[2]) for match in _IN_HIERARCHY.finditer(text)]
    return [(kind if name == _TOP else name, kind or None) for name, kind in found if name != _SAME]


def _of_stack(text: str) -> list[Module]:
    """Frames joined by semicolons, the innermost first; a later torch has module calls among them."""
    frames = [frame.strip() for frame in text.split(";")][::-1]
    marked = [frame[len(MODULE_PREFIX) :] for frame in frames if frame.startswith(MODULE_PREFIX)]
    if marked:
        return [(instance, re.sub(r"_\d+$", "", instance)) for instance in marked]
    found: list[Module] = []
    line = ""
    for before, frame in pairwise(frames):
        if not _CALLER.search(before) and (match := _FRAME.match(before)):
            line = match["line"]
        if _CALLER.search(before) and not _CALLER.search(frame) and (match := _FRAME.match(frame)):
            file = re.split(r"[/\\]", match["file"])[-1]
            found.append((f"{file}:{match['function']}" + (f"@{line}" if line else ""), None))
    return found
