"""Steps: those of one profiler, where a program calls `step()` of another as well."""

from __future__ import annotations

from pathlib import Path

import tracebraid
from tests.builders import Json, kineto_text, op, write
from tests.cases import cases
from tracebraid import analyses
from tracebraid.model.finding_code import FindingCode


def step(number: int, start: float, length: float, tid: int = 1) -> Json:
    return op(f"ProfilerStep#{number}", start, length, tid=tid, cat="user_annotation")


OWN = [step(7, 0, 6000), step(8, 6000.5, 4000), step(9, 10_001, 4000)]
MICRO_BATCHES = [step(28 + i, 100 + 1500 * i, 1450) for i in range(9)]
"""The third begins in the first step and ends in the second."""
LAST = step(37, 13_900, 5000)
"""Still open when the recording stopped."""
SEVEN_AGAIN = [step(5 + i, 200 + 1500 * i, 1000) for i in range(9)]

NAMES = [f"ProfilerStep#{number}" for number in (7, 8, 9)]
WORK = [op("aten::mm", 50 + 500 * i, 300) for i in range(27)]

CASES: dict[str, tuple[list[Json], list[int] | None, list[str]]] = {
    "one profiler, whose steps meet": (OWN, None, NAMES),
    "rounded to µs, so that one ends in the next": ([step(7, 0, 6001), *OWN[1:]], None, NAMES),
    "another within them": ([*OWN, *MICRO_BATCHES], None, NAMES),
    "another that goes on behind them": ([*OWN, *MICRO_BATCHES, LAST], None, NAMES),
    "the manifest names the inner ones": (
        [*OWN, *MICRO_BATCHES],
        [28, 29],
        ["ProfilerStep#28", "ProfilerStep#29"],
    ),
    "the same numbers in both": ([*OWN, *SEVEN_AGAIN], [7, 8, 9], NAMES),
    "a manifest of other steps": ([*OWN, *MICRO_BATCHES], [70], NAMES),
    "steps of several threads": (
        [step(0, 0, 900), step(1, 1000, 900), step(0, 100, 900, tid=2), step(1, 1100, 900, tid=2)],
        None,
        ["ProfilerStep#0", "ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#1"],
    ),
}


@cases("marks, manifest, expected", CASES)
def test_steps_are_those_of_one_profiler_in_every_answer(
    marks: list[Json], manifest: list[int] | None, expected: list[str], tmp_path: Path
) -> None:
    header = {} if manifest is None else {"tracebraid": {"steps": [{"step": number} for number in manifest]}}
    path = write(tmp_path / "trace_rank0.json", kineto_text([*marks, *WORK], header))
    job = tracebraid.open(path)
    assert analyses.steps(job).get_column("step").to_list() == expected
    of_rows = analyses.breakdown(job).get_column("step").drop_nulls().unique(maintain_order=True)
    assert of_rows.to_list() == [*dict.fromkeys(expected)]
    [linked] = job.each(lambda linked: linked)
    graph = tracebraid.dependency_graph(linked)
    assert set(graph.steps.get_column("step").to_list()) == set(expected)
    checked = tracebraid.check(path)
    [rank] = checked.ranks
    assert list(rank.steps) == expected
    said = [
        d.finding.details["others"] for d in checked.diagnoses if d.finding.code is FindingCode.STEPS_OF_TWO
    ]
    assert said == [len(marks) - len(expected)] * (len(marks) > len(expected))
