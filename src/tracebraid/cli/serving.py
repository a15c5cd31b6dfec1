"""`tracebraid serving`."""

from __future__ import annotations

from typing import Annotated

import tracebraid
from tracebraid.cli.commands import Group, command
from tracebraid.cli.job_options import JobOptions, TracePath, with_job_options
from tracebraid.cli.output import end, findings_data, output_width, progress, say, say_json
from tracebraid.cli.parameters import Option
from tracebraid.cli.table_output import Format, Target, write_table
from tracebraid.errors import ArgumentError
from tracebraid.model.serving import ServingPolicy
from tracebraid.reports.serving import serving_data, serving_parts

_LENGTH = "64-512: any of these, '32,512': either, '~128': geometric with this mean"


def _numbers(text: str | None, option: str) -> list[float]:
    """Parse numbers with commas."""
    try:
        return [float(part) for part in text.split(",")] if text else []
    except ValueError as error:
        raise ArgumentError(f"{option} takes numbers with commas, not {text!r}") from error


@command(Group.COMPARE, 3)
@with_job_options
def serving(
    path: TracePath,
    job_options: JobOptions,
    rate: Annotated[
        str | None,
        Option(
            "--rate", metavar="5,10,20", help="Requests per second; by default a sweep up to the capacity."
        ),
    ] = None,
    max_batch: Annotated[
        str | None,
        Option(
            "--max-batch",
            metavar="8,32",
            help="Sequences that are served at once at most; by default the most in a step of the trace.",
        ),
    ] = None,
    prompt_tokens: Annotated[
        str | None,
        Option("--prompt-tokens", metavar="N", help=f"Length of prompts ({_LENGTH}); default: the trace's."),
    ] = None,
    output_tokens: Annotated[
        str | None,
        Option(
            "--output-tokens", metavar="N", help="Length of outputs alike; default: the mean of the trace."
        ),
    ] = None,
    policy: Annotated[
        ServingPolicy | None,
        Option(
            "--policy",
            help="How steps are composed: prompts in steps of their own, before others decode on; mixed with these; or "
            "batches that run to their end. By default mixed if steps of the trace are, else prefill-first.",
        ),
    ] = None,
    step_tokens: Annotated[
        int | None,
        Option(
            "--step-tokens",
            min=1,
            metavar="N",
            help="Prompt tokens of a step at most; by default the most in the trace.",
        ),
    ] = None,
    step_pattern: Annotated[
        str | None,
        Option(
            "--step-pattern",
            metavar="REGEX",
            help=r"Annotations that are steps, such as 'decode (?P<decode>\d+)|prefill (?P<prompt_tokens>\d+)'; also "
            "'prompts' and 'cached_tokens'. By default those of serving engines, or shapes.",
        ),
    ] = None,
    requests: Annotated[
        int, Option("--requests", min=100, metavar="N", help="Requests to simulate for each rate.")
    ] = 5000,
    scale: Annotated[float, Option("--scale", metavar="F", help="Factor on all measured times.")] = 1.0,
    seed: Annotated[int, Option("--seed", metavar="N", help="Seed of the random numbers.")] = 0,
    json: Annotated[bool, Option("--json", help="Print all of the answer as JSON.")] = False,
    csv: Annotated[bool, Option("--csv", help="Print the rows of all rates as CSV.")] = False,
) -> None:
    """Predict an inference server under load: time per token by batch size, latency by arrival rate, capacity."""
    if json and csv:
        raise ArgumentError("give one of --json and --csv")
    rates, batches = _numbers(rate, "--rate"), _numbers(max_batch, "--max-batch")
    if any(size != int(size) for size in batches):
        raise ArgumentError(f"--max-batch takes whole numbers, not {max_batch!r}")
    with progress("answering") as update:
        found = tracebraid.serving(
            job_options.open(path, update),
            rates=rates,
            max_batch=[int(size) for size in batches],
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            policy=None if policy is None else policy.value,
            step_tokens=step_tokens,
            step_pattern=step_pattern,
            requests=requests,
            scale=scale,
            seed=seed,
        )
    if json:
        say_json({**serving_data(found), **findings_data(found.findings)})
    elif csv:
        write_table(found.rates, Target(Format.CSV, None))
    else:
        say(*serving_parts(found, output_width()))
    end(found.findings)
