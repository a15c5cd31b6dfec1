"""No damage to files: a folder with one of each kind, and commands whose arguments are odd."""

from __future__ import annotations

import random
from pathlib import Path

import tracebraid
from tools.fuzz.calls.arguments import ARGUMENT_CALLS
from tools.fuzz.formats.job import FORMAT as JOB
from tools.fuzz.model import Files, Format, Sample
from tracebraid import ExportOptions
from tracebraid.chakra import ChakraOptions, SimulatorOptions

_JOBS = ("training", "nccl")


def _samples(folder: Path) -> list[Sample]:
    """Jobs with what is made of them: ET+, .et files, files of a simulator, tables."""
    return [_with_more(sample, folder) for sample in JOB.samples(folder) if sample.name in _JOBS]


def _with_more(sample: Sample, folder: Path) -> Sample:
    job = folder / sample.name
    job.mkdir()
    for name, data in sample.files.items():
        (job / name).write_bytes(data)
    opened = tracebraid.open(job)
    for part, detail in (("plain", ChakraOptions()), ("astra", ChakraOptions(simulator=SimulatorOptions()))):
        made = folder / f"{sample.name}_{part}"
        try:
            tracebraid.export(opened, made, "chakra", ExportOptions(chakra=detail))
        except tracebraid.InputError:
            continue  # A single rank is nothing for ASTRA-sim.
        for path in made.rglob("*"):
            if (path.is_file() and "astra-sim" in path.parts) or path.suffix == ".et":
                target = job / part / path.name
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(path.read_bytes())
    et, kineto = job / "torch_et_0.json", job / "kineto_trace_0.json"
    tracebraid.write_et_plus(tracebraid.link(et, kineto), job / "plus.json")
    found = (path for path in sorted(job.rglob("*")) if path.is_file())
    return Sample(sample.name, {str(path.relative_to(job)): path.read_bytes() for path in found})


def as_it_is(files: Files, _: random.Random) -> Files:
    """Nothing is changed."""
    return files


FORMAT = Format("arguments", _samples, (as_it_is,), ARGUMENT_CALLS)
