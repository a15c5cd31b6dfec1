"""The options of every command that opens a job: which of its ranks, and how the work over them runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

from msgspec import Struct

import tracebraid
from tracebraid.api.engines import AUTO, ENGINES, engine_of
from tracebraid.cli.parameters import Argument, Option, with_option_members
from tracebraid.model.engine import Job, Unreadable
from tracebraid.model.matching import Matching
from tracebraid.model.rank_files import Progress
from tracebraid.model.step import PROFILER_STEP


def path_or_url(text: str) -> str:
    """Normalise a path as `pathlib` does; leave a URL as it is."""
    return text if "://" in text else str(Path(text))


TracePath: TypeAlias = Annotated[
    str,
    Argument(metavar="PATH", help="A folder of traces, or one Kineto trace.", parser=path_or_url),
]

OptionalTracePath: TypeAlias = Annotated[
    str | None,
    Argument(metavar="PATH", help="A folder of traces, or one Kineto trace.", parser=path_or_url),
]
"""Path of a command that can print a list instead."""


EngineName: TypeAlias = Annotated[
    str,
    Option("--engine", metavar="|".join(ENGINES), help="Engine that runs the work over the ranks."),
]

Address: TypeAlias = Annotated[
    str | None,
    Option(
        "--address",
        metavar="HOST:PORT",
        help="Ray cluster for --engine ray; default: RAY_ADDRESS, a cluster on this machine, or a new one.",
    ),
]


class JobOptions(Struct, frozen=True):
    """Options for opening a job; each member is an option of commands with `with_job_options`."""

    window: Annotated[
        int | None,
        Option("--window", help="Window of a capture with several, from 0; by default the last."),
    ] = None
    ranks: Annotated[
        str | None,
        Option(
            "--ranks",
            metavar="0,8-15",
            help="Open only these ranks: numbers and ranges; 8- means from 8 on.",
        ),
    ] = None
    sample: Annotated[
        int | None,
        Option(
            "--sample",
            min=1,
            metavar="N",
            help="Open a sample of N ranks, proportional over hosts and parallel groups.",
        ),
    ] = None
    annotation: Annotated[
        str | None,
        Option(
            "--annotation",
            metavar="NAME",
            help=f"The annotation that marks a step; {PROFILER_STEP} by default.",
        ),
    ] = None
    engine: EngineName = AUTO
    address: Address = None
    cache: Annotated[
        bool, Option("--cache", help="Cache the parsed traces beside them, and reuse the cache.")
    ] = False

    device: Annotated[
        str | None,
        Option(
            "--device",
            metavar="NAME",
            help="The device that did the work, such as 'H100 SXM', where a trace does not name it; a wrong name lists "
            "all.",
        ),
    ] = None

    def open(self, path: str, progress: Progress | None, matching: Matching | str = "auto") -> Job:
        """Open a path with these options; ranks that cannot be read are skipped, with a finding.

        Raises:
            InputError: there is no Kineto trace.
            ArgumentError: an option has no such value.
        """
        return tracebraid.open(
            path,
            matching=matching,
            window=self.window,
            engine=engine_of(self.engine, self.address),
            ranks=self.ranks,
            sample=self.sample,
            cache=self.cache,
            device=self.device,
            annotation=self.annotation or PROFILER_STEP,
            unreadable=Unreadable.SKIP,
            progress=progress,
        )


with_job_options = with_option_members("job_options", JobOptions)
"""Decorate a command: its parameter `job_options: JobOptions` becomes one option for each member."""
