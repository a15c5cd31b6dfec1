"""The options of every command that opens a job: which of its ranks, and how the work over them runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from tracebraid import api
from tracebraid.cli.option_members import with_option_members
from tracebraid.errors import ArgumentError
from tracebraid.model.engine import Engine
from tracebraid.model.job import Job
from tracebraid.model.matching import Matching

__all__ = [
    "Address",
    "EngineName",
    "JobOptions",
    "OptionalTracePath",
    "TracePath",
    "engine_named",
    "path_or_url",
    "with_job_options",
]


def path_or_url(text: str) -> str:
    """A path as `pathlib` writes it; a URL as it is given."""
    return text if "://" in text else str(Path(text))


TracePath: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="PATH", help="A folder of traces, or one Kineto trace.", parser=path_or_url),
]

OptionalTracePath: TypeAlias = Annotated[
    str | None,
    typer.Argument(metavar="PATH", help="A folder of traces, or one Kineto trace.", parser=path_or_url),
]
"""Of a command that may be asked for a list instead."""


EngineName: TypeAlias = Annotated[
    str, typer.Option("--engine", metavar="|".join(api.ENGINES), help="How the work over the ranks runs.")
]

Address: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="With --engine ray the cluster; else RAY_ADDRESS, one on this machine, or a new one.",
    ),
]


@dataclass(frozen=True)
class JobOptions:
    """How a job is opened; each member is an option of the commands that `with_job_options` marks."""

    window: Annotated[
        int | None,
        typer.Option(
            "--window", help="Of a capture with several windows only this, from 0; by default the last."
        ),
    ] = None
    ranks: Annotated[
        str | None,
        typer.Option(
            "--ranks", metavar="0,8-15", help="Open only these ranks of the job: numbers and ranges."
        ),
    ] = None
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            min=1,
            metavar="N",
            help="Open only N ranks, of all hosts and parallel groups in proportion.",
        ),
    ] = None
    engine: EngineName = api.AUTO
    address: Address = None
    cache: Annotated[
        bool, typer.Option("--cache", help="Keep what is read beside the traces, and take it from there.")
    ] = False

    def open(self, path: str, matching: Matching | str = "auto") -> Job:
        """Open a path as these options say.

        Raises:
            InputError: there is no Kineto trace.
            BadParameter: an option has no such value.
        """
        try:
            return api.open(
                path,
                matching=matching,
                window=self.window,
                engine=api.engine_of(self.engine, self.address),
                ranks=self.ranks,
                sample=self.sample,
                cache=self.cache,
            )
        except ArgumentError as error:
            raise typer.BadParameter(str(error)) from error


def engine_named(name: str, address: str | None) -> Engine:
    """The engine that options name.

    Raises:
        BadParameter: there is none, or it takes no address.
    """
    try:
        return api.engine_of(name, address)
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error


with_job_options = with_option_members("job_options", JobOptions)
"""A command whose parameter `job_options: JobOptions` stands for an option for each member of these."""
