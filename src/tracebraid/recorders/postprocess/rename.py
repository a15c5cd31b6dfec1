"""Other names for events or nodes of a trace that is still text."""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Mapping

from tracebraid.recorders.postprocess.escape_names import Edit

__all__ = ["rename_events"]


def rename_events(text: bytes | mmap.mmap, renamed: Mapping[str, str]) -> list[Edit]:
    """The edits that give events, or nodes, other names.

    Args:
        text: a Kineto trace or an Execution Trace.
        renamed: new names by the old ones.
    """
    edits = []
    for old, new in renamed.items():
        name = re.compile(rb'"name":\s*(' + re.escape(json.dumps(old).encode()) + rb")")
        edits += [Edit(*found.span(1), json.dumps(new).encode()) for found in name.finditer(text)]
    return edits
