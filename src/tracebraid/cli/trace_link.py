"""What the options of trace_link and of chakra_trace_link mean for `tracebraid link`, so that scripts can keep them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from tracebraid import api
from tracebraid.model.coverage import Coverage
from tracebraid.model.et_arrow import SUFFIX, is_arrow
from tracebraid.model.finding import Finding
from tracebraid.model.linked_trace import LinkedTrace

__all__ = [
    "Call",
    "ChakraTraceLink",
    "DeviceTrace",
    "EtFile",
    "ExactMatch",
    "HostTrace",
    "KinetoFile",
    "LogLevel",
    "Options",
    "OutputFile",
    "Rank",
    "TraceLink",
    "call_of",
    "plus_path",
]

_TRACE_LINK, _CHAKRA = "As trace_link", "As chakra_trace_link"
EtFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--et-file",
        metavar="ET",
        help="Link it, and write <ET>_plus.json beside it.",
        rich_help_panel=_TRACE_LINK,
    ),
]
KinetoFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--kineto-file", metavar="KINETO", help="The Kineto trace.", rich_help_panel=_TRACE_LINK),
]
ExactMatch: TypeAlias = Annotated[
    bool, typer.Option("--exact-match", help="Taken, and changes nothing.", rich_help_panel=_TRACE_LINK)
]
HostTrace: TypeAlias = Annotated[
    Path | None,
    typer.Option("--chakra-host-trace", metavar="ET", help="The Execution Trace.", rich_help_panel=_CHAKRA),
]
DeviceTrace: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--chakra-device-trace", metavar="KINETO", help="The Kineto trace.", rich_help_panel=_CHAKRA
    ),
]
Rank: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--rank", min=0, help="Their rank, where the Kineto trace tells none.", rich_help_panel=_CHAKRA
    ),
]
OutputFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--output-file", metavar="FILE", help="Write ET+ there.", rich_help_panel=_CHAKRA),
]
LogLevel: TypeAlias = Annotated[
    str | None, typer.Option("--log-level", help="Taken for both, and changes nothing.", hidden=True)
]


@dataclass(frozen=True)
class TraceLink:
    """The options that trace_link has."""

    et_file: Path | None = None
    kineto_file: Path | None = None
    exact_match: bool = False


@dataclass(frozen=True)
class ChakraTraceLink:
    """The options that chakra_trace_link has."""

    chakra_host_trace: Path | None = None
    chakra_device_trace: Path | None = None
    rank: int | None = None
    output_file: Path | None = None


@dataclass(frozen=True)
class Options:
    """All options of which a form of `tracebraid link` has some and another has not.

    Args:
        paths: our own.
        output: our own too.
        trace_link: trace_link's.
        chakra: chakra_trace_link's.
        log_level: of both; it changes nothing.
    """

    paths: list[Path] | None = None
    output: Path | None = None
    trace_link: TraceLink = field(default_factory=TraceLink)
    chakra: ChakraTraceLink = field(default_factory=ChakraTraceLink)
    log_level: str | None = None


@dataclass(frozen=True)
class Call:
    """What is to be linked, and where its ET+ goes, in whichever form that was said.

    Args:
        paths: a pair, or one folder or Kineto trace.
        out: where ET+ goes; None for nowhere.
        write: writes it.
        rank: the rank that was named; None where none was.
    """

    paths: list[Path]
    out: Path | None
    write: Callable[[LinkedTrace, Path], None] = api.write_et_plus
    rank: int | None = None

    def named(
        self, ledger: list[tuple[int, Coverage]], findings: list[Finding]
    ) -> tuple[list[tuple[int, Coverage]], list[Finding]]:
        """Both with the rank that was named, where the trace tells none; a finding more where it tells another."""
        if self.rank is None or not ledger:
            return ledger, findings
        unknown = [finding for finding in findings if finding.code == "rank-unknown"]
        if unknown:
            kept = [finding for finding in findings if finding.code != "rank-unknown"]
            return [(self.rank, coverage) for _, coverage in ledger], kept
        told = ledger[0][0]
        if told != self.rank:
            text = f"this is rank {told} by the trace, and rank {self.rank} by --rank; taken as rank {told}"
            findings = [*findings, Finding("ranks-differ", text, str(self.paths[-1]))]
        return ledger, findings


def call_of(options: Options) -> Call:
    """What the options ask for.

    Raises:
        BadParameter: options of two forms, or too few of one.
    """
    own = _given({"paths": options.paths, "output": options.output})
    of_trace_link, of_chakra = _given(asdict(options.trace_link)), _given(asdict(options.chakra))
    forms = [given for given in (of_trace_link, of_chakra, own) if given]
    if options.log_level is not None and not (of_trace_link or of_chakra):
        forms.append(["--log-level"])
    if len(forms) > 1:
        raise typer.BadParameter(f"{', '.join(forms[1])} cannot stand beside {', '.join(forms[0])}")
    if of_trace_link:
        return _trace_link_call(options.trace_link)
    if of_chakra:
        return _chakra_call(options.chakra)
    if not options.paths or len(options.paths) > 2:
        raise typer.BadParameter("give an Execution Trace and a Kineto trace, or one folder")
    return Call(options.paths, options.output)


def _trace_link_call(given: TraceLink) -> Call:
    if given.et_file is None or given.kineto_file is None:
        raise typer.BadParameter("give --et-file and --kineto-file")
    paths = [given.et_file, given.kineto_file]
    out = plus_path(given.et_file)
    return Call(paths, out, api.write_trace_link_et)


def _chakra_call(given: ChakraTraceLink) -> Call:
    if given.chakra_host_trace is None or given.chakra_device_trace is None or given.output_file is None:
        raise typer.BadParameter("give --chakra-host-trace, --chakra-device-trace and --output-file")
    return Call([given.chakra_host_trace, given.chakra_device_trace], given.output_file, rank=given.rank)


def _given(options: dict[str, object]) -> list[str]:
    """The options that are given, as they are written."""
    names = [
        name for name, value in options.items() if value is not None and value is not False and value != []
    ]
    return ["the paths" if name == "paths" else "--" + name.replace("_", "-") for name in names]


def plus_path(et: Path) -> Path:
    """Where trace_link writes the ET+ of an Execution Trace: `x_plus.json` for `x.json`, and so with `.json.gz`.

    For `x.arrow.zip` it is `x_plus.json`.

    Raises:
        BadParameter: it is no file's name.
    """
    if str(et) == "-" or not et.name:
        raise typer.BadParameter("--et-file must be a file, as its ET+ is written beside it")
    if is_arrow(et.name):
        return et.with_name(et.name[: -len(SUFFIX)] + "_plus.json")
    for ending in (".json", ".json.gz", ".gz"):
        if et.name.endswith(ending) and et.name != ending:
            stem, last = et.name.removesuffix(ending), ending if ".json" in ending else ".json" + ending
            return et.with_name(f"{stem}_plus{last}")
    return et.with_name(f"{et.name}_plus.json")
