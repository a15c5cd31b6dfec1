"""The options of every command that opens a job: which of its ranks, and how the work over them runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_type_hints

import typer

from tracebraid import api
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


def with_job_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameter `job_options: JobOptions` stands for an option for each member of these."""
    hints = get_type_hints(command, include_extras=True)
    given = get_type_hints(JobOptions, include_extras=True)
    names = [member.name for member in fields(JobOptions)]
    signature = inspect.signature(command)
    of_job = [
        inspect.Parameter(
            member.name, inspect.Parameter.KEYWORD_ONLY, default=member.default, annotation=given[member.name]
        )
        for member in fields(JobOptions)
    ]
    own = [
        parameter.replace(annotation=hints[name])
        for name, parameter in signature.parameters.items()
        if name != "job_options"
    ]

    @functools.wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        options = JobOptions(**{name: kwargs.pop(name) for name in names})
        command(*args, **kwargs, job_options=options)

    wrapper.__signature__ = signature.replace(parameters=[*own, *of_job], return_annotation=None)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *of_job)}
    return wrapper
