"""Jobs and captures, each twice: as they are, and in another form that means the same."""

from __future__ import annotations

from pathlib import Path

from tools.fuzz.calls.same_answers import SAME_ANSWERS, SAME_TABLES
from tools.fuzz.formats.job import FORMAT as JOB
from tools.fuzz.model import Format, Sample
from tools.fuzz.mutations.same_meaning import SAME_MEANING, in_pairs
from tools.fuzz.sample_traces import demo_rank, gpu_rank


def _samples(folder: Path) -> list[Sample]:
    made = [*JOB.samples(folder)]
    for name, ranks in (("gpu", [gpu_rank(0), gpu_rank(1)]), ("demo", [demo_rank(0), demo_rank(1)])):
        files = {
            path: data
            for rank, traces in enumerate(ranks)
            for path, data in {
                f"kineto_trace_{rank}.json": traces.kineto,
                f"torch_et_{rank}.json": traces.et,
            }.items()
        }
        made.append(Sample(name, files))
    return [Sample(sample.name, in_pairs(dict(sample.files))) for sample in made]


FORMAT = Format("same_meaning", _samples, SAME_MEANING, [SAME_TABLES], SAME_ANSWERS)
