"""The command line of et_replay's trace_link."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from tracebraid.compat.link_call import LinkCall
from tracebraid.exporters.et_plus import write_trace_link_et
from tracebraid.model.op_schema import SUFFIX, is_arrow

__all__ = ["Annotation", "EtFile", "ExactMatch", "KinetoFile", "call_of_trace_link", "plus_path"]

_ZSTD = ".json.zst"

EtFile: TypeAlias = Annotated[
    Path,
    typer.Option("--et-file", metavar="ET", help="The Execution Trace; <ET>_plus.json is written beside it."),
]
KinetoFile: TypeAlias = Annotated[
    Path, typer.Option("--kineto-file", metavar="KINETO", help="The Kineto trace.")
]
Annotation: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--annotation", metavar="NAME", help="What marks an iteration, where one trace has more of them."
    ),
]
ExactMatch: TypeAlias = Annotated[bool, typer.Option("--exact-match", help="Taken, and changes nothing.")]


def call_of_trace_link(et_file: Path, kineto_file: Path) -> LinkCall:
    """Arguments of trace_link.

    Raises:
        BadParameter: `et_file` is no file's name.
    """
    return LinkCall(et_file, kineto_file, plus_path(et_file), write_trace_link_et)


def plus_path(et: Path) -> Path:
    """Return trace_link's path for the ET+ of an Execution Trace: `x_plus.json` for `x.json`, likewise `.json.gz`.

    For `x.arrow.zip` and `x.json.zst` it is `x_plus.json`.

    Raises:
        BadParameter: it is no file's name.
    """
    if str(et) == "-" or not et.name:
        raise typer.BadParameter("--et-file must be a file, as its ET+ is written beside it")
    if is_arrow(et.name):
        return et.with_name(et.name[: -len(SUFFIX)] + "_plus.json")
    if et.name.endswith(_ZSTD) and et.name != _ZSTD:
        return et.with_name(et.name.removesuffix(_ZSTD) + "_plus.json")
    for ending in (".json", ".json.gz", ".gz"):
        if et.name.endswith(ending) and et.name != ending:
            stem, last = et.name.removesuffix(ending), ending if ".json" in ending else ".json" + ending
            return et.with_name(f"{stem}_plus{last}")
    return et.with_name(f"{et.name}_plus.json")
