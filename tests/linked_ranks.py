"""The ranks of traces, linked with each other."""

from __future__ import annotations

from tracebraid.api.job_answers import gather_questions, linked_with_parts, parts_of
from tracebraid.model.engine import Job
from tracebraid.model.linked_ranks import Gather, LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace


def linked_ranks(traces: LinkedTrace | Job, gathers: tuple[Gather, ...] = ()) -> LinkedRanks:
    """Link the ranks in one pass, with what some functions gather from each."""
    job = Job.of(traces)
    return linked_with_parts(job, [parts_of(taken, gathers) for taken in job.take(gather_questions(gathers))])
