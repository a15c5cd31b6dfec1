"""Jobs of a few collectives and sends, from which plans are made."""

from __future__ import annotations

from tests.unit.linking.ranks.made_members import MadeJob
from tracebraid.model.finding_code import FindingCode


def job_of(*kinds: str, world: int = 4, size: int = 4096, **options: object) -> MadeJob:
    job = MadeJob(world)
    for kind in kinds:
        job.collective(kind, size, **options)  # type: ignore[arg-type]
    return job


def with_bytes(job: MadeJob, given: int | None, got: int | None) -> MadeJob:
    for row in job.rows:
        row["in_bytes"], row["out_bytes"] = given, got
    return job


def send(job: MadeJob, source: int, destination: int, size: int = 512, group: tuple[int, ...] = ()) -> None:
    """A rank sends to another one."""
    job.collective("send", size, ranks=group or tuple(range(job.world)))
    rows = [
        row for row in job.rows[-len(group or range(job.world)) :] if row["rank"] in (source, destination)
    ]
    del job.rows[-len(group or range(job.world)) :]
    for row in rows:
        row |= {"source": source, "destination": destination}
        if row["rank"] == destination:
            row["type"] = row["name"] = "recv"
    job.rows += rows


def codes(plan: object) -> set[FindingCode]:
    return {finding.code for finding in plan.findings}  # type: ignore[attr-defined]


# --- types and sizes ------------------------------------------------------------------------------
