"""`tracebraid trace-link`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

from tracebraid.cli.commands import Group, command
from tracebraid.cli.link import Json, MinCoverage, Pairs, link_all, report
from tracebraid.cli.output import progress
from tracebraid.cli.parameters import Option
from tracebraid.errors import ArgumentError
from tracebraid.exporters.et_plus import write_trace_link_et
from tracebraid.model.matching import Matching
from tracebraid.model.op_schema import SUFFIX, is_arrow

_ZSTD = ".json.zst"

LogLevel: TypeAlias = Annotated[
    str | None, Option("--log-level", help="Taken, and changes nothing.", hidden=True)
]
"""The option that both of the linkers have that are replaced."""


@command(Group.REPLACEMENT, 1)
def trace_link(
    et_file: Annotated[
        Path,
        Option("--et-file", metavar="ET", help="The Execution Trace; <ET>_plus.json is written beside it."),
    ],
    kineto_file: Annotated[Path, Option("--kineto-file", metavar="KINETO", help="The Kineto trace.")],
    annotation: Annotated[
        str | None,
        Option(
            "--annotation", metavar="NAME", help="What marks an iteration, where one trace has more of them."
        ),
    ] = None,
    exact_match: Annotated[bool, Option("--exact-match", help="Taken, and changes nothing.")] = False,
    log_level: LogLevel = None,
    min_coverage: MinCoverage = None,
    json: Json = False,
) -> None:
    """Link traces and write <ET>_plus.json beside the Execution Trace, with the options of et_replay's trace_link."""
    paths = [str(et_file), str(kineto_file)]
    pairs = Pairs(paths, plus_path(et_file), Matching(annotation=annotation), write_trace_link_et)
    with progress("linking") as update:
        links = link_all(pairs, update)
    report(links, min_coverage, json)


def plus_path(et: Path) -> Path:
    """Return trace_link's path for the ET+ of an Execution Trace: `x_plus.json` for `x.json`, likewise `.json.gz`.

    For `x.arrow.zip` and `x.json.zst` it is `x_plus.json`.

    Raises:
        ArgumentError: it is no file's name.
    """
    if str(et) == "-" or not et.name:
        raise ArgumentError("--et-file must be a file, as its ET+ is written beside it")
    if is_arrow(et.name):
        return et.with_name(et.name[: -len(SUFFIX)] + "_plus.json")
    if et.name.endswith(_ZSTD) and et.name != _ZSTD:
        return et.with_name(et.name.removesuffix(_ZSTD) + "_plus.json")
    for ending in (".json", ".json.gz", ".gz"):
        if et.name.endswith(ending) and et.name != ending:
            stem, last = et.name.removesuffix(ending), ending if ".json" in ending else ".json" + ending
            return et.with_name(f"{stem}_plus{last}")
    return et.with_name(f"{et.name}_plus.json")
