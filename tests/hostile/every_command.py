"""Every command of the command line, in every form of its output: a new command or format is among them by itself."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tracebraid.cli.commands import COMMANDS
from tracebraid.cli.parameters import parameters_of
from tracebraid.model.export_format import ExportFormat

JOB = ("{job}",)
NODES = ("{nodes}",)
BASES: dict[str, tuple[tuple[str, ...], ...]] = {
    "check": (JOB,),
    "info": (JOB,),
    "link": (JOB, ("{et}", "{kineto}")),
    "summary": (JOB,),
    "analyze": (("kernels", *JOB), ("memory_at_peak", *JOB)),
    "advise": (JOB,),
    "metrics": (JOB,),
    "diff": ((*JOB, *JOB),),
    "critical-path": (JOB,),
    "what-if": ((*JOB, "--sweep"), (*JOB, "--stragglers")),
    "report": ((*JOB, "--no-critical-path"),),
    "export": tuple((*JOB, "--to", form.value) for form in ExportFormat),
    "sql": ((*JOB, "select * from kernels"),),
    "pack": (JOB,),
    "cache": (JOB,),
    "demo": ((),),
    "trace-link": (("--et-file", "{et}", "--kineto-file", "{kineto}"),),
    "chakra-trace-link": (("--chakra-host-trace", "{et}", "--chakra-device-trace", "{kineto}"),),
    "chakra-converter": (("PyTorch", "--input", "{plus}"),),
    "chakra-jsonizer": (("--input_filename", *NODES),),
    "chakra-visualizer": (("--input_filename", *NODES),),
    "chakra check": (NODES,),
    "chakra run": (NODES,),
    "chakra stats": (NODES,),
    "chakra show": (NODES,),
    "chakra json": (NODES,),
    "chakra generate": (("chain", "--chain", "ALL_REDUCE 1KiB", "--ranks", "2"),),
    "chakra convert": (("{plus}",),),
}
"""What each command is asked, without the options of its output."""

ENDED_BY_OTHERS = {
    "capture": "runs a program: tests/integration/test_capture_*.py",
    "build-recorder": "compiles: tests/integration/test_build_recorder.py",
    "view": "serves the page of `report` until it is ended: tests/integration/test_report_commands.py",
    "serving": "reads steps of a server, and shows none of their names: tests/unit/simulation/test_serving.py",
    "chakra-generator": "takes no path, and writes into the working folder",
}
"""Commands without a form here, and why."""

WRITES_UNASKED = ("report",)
"""Commands that write a page into the working folder where they are asked for nothing else."""

PRINTED = ("--text", "--json", "--csv")
OUTPUTS = ("--output", "--output-file", "--output_filename")
SUFFIXES = {
    "analyze": (".csv", ".json", ".parquet"),
    "advise": (".csv", ".json", ".parquet"),
    "metrics": (".csv", ".json", ".parquet"),
    "sql": (".csv", ".json", ".parquet"),
    "diff": (".html", ".json"),
    "report": (".html", ".json"),
    "critical-path": (".json", ".json.gz"),
    "chakra show": (".svg", ".dot", ".graphml"),
    "chakra-visualizer": (".svg", ".dot", ".graphml"),
    "chakra-jsonizer": (".json",),
    "chakra json": (".json", ".json.gz"),
    "chakra convert": (".et",),
    "chakra-converter": (".et",),
    "chakra-trace-link": (".json",),
    "pack": (".tbstore",),
}
"""Ends of the names of what `-o` names; "" of a folder."""


@dataclass(frozen=True)
class Form:
    """A command line.

    Args:
        command: its name: `export`, `chakra show`.
        arguments: with `{job}`, `{et}`, `{kineto}`, `{plus}`, `{nodes}` for its inputs, and `{out}`.
        suffix: how the name of what it writes ends; None where it prints.
    """

    command: str
    arguments: tuple[str, ...]
    suffix: str | None = None

    def line(self, inputs: dict[str, Path], out: Path | None = None) -> list[str]:
        """The command line."""
        values = {**inputs, "out": out}
        return [
            *self.command.split(),
            *(str(values[part[1:-1]]) if part.startswith("{") else part for part in self.arguments),
        ]

    def __str__(self) -> str:
        return " ".join([self.command, *self.arguments, self.suffix or ""]).strip()


def named_commands() -> list[str]:
    """The names of all commands."""
    own = COMMANDS["chakra"].own
    return [*(name for name in COMMANDS if name != "chakra"), *(f"chakra {name}" for name in own)]


def forms(name: str) -> Iterator[Form]:
    """All command lines of a command, by the options that it has."""
    for base in BASES.get(name, ()):
        options = options_of(name)
        output = next((option for option in OUTPUTS if option in options), None)
        printed = [option for option in PRINTED if option in options]
        must_write = output is not None and options[output]
        if not must_write:
            yield from (Form(name, (*base, option)) for option in printed)
            if name not in WRITES_UNASKED:
                yield Form(name, base)
        if output is not None:
            also = printed if must_write else ()
            yield from (Form(name, (*base, *also, output, "{out}"), end) for end in suffixes(name, base))


def suffixes(name: str, base: tuple[str, ...]) -> tuple[str, ...]:
    if name == "export":
        return next(form for form in ExportFormat if form.value == base[-1]).suffixes[:1]
    if name == "link":
        return (".json",) if len(base) == 2 else ("",)
    return SUFFIXES.get(name, ("",))


def options_of(name: str) -> dict[str, bool]:
    """The options of a command, and whether each is required."""
    package, _, own = name.rpartition(" ")
    module = own.replace("-", "_")
    home = f"tracebraid.cli.{package}.{module}" if package else f"tracebraid.cli.{module}"
    declared = parameters_of(getattr(importlib.import_module(home), module))
    return {option: item.required for item in declared for option in item.opts}
