"""Under a blindfold an answer is the true one, or says that it is not; see `benchmarks.blindfolds`."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from benchmarks.blindfolds.blindfolds import BLINDFOLDS, Blindfold, blindfolded
from benchmarks.blindfolds.jobs import JOBS, Ranks
from benchmarks.blindfolds.verdicts import Answers, Verdict, answers_of, compared


@lru_cache(maxsize=1)
def truth_of(job: str, folder: Path) -> tuple[Ranks, Answers]:
    ranks = JOBS[job]()
    return ranks, answers_of(ranks, folder)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("blindfold", BLINDFOLDS[::-1], ids=lambda blindfold: blindfold.name)
@pytest.mark.parametrize("job", ["one device", "pipeline"])
def test_no_answer_is_silently_wrong(
    job: str, blindfold: Blindfold, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ranks, truth = truth_of(job, tmp_path_factory.getbasetemp())
    changed = blindfolded(blindfold, ranks)
    if changed is None:
        pytest.skip("the job has nothing of the kind")
    verdicts = compared(truth, answers_of(changed, tmp_path))
    silent = {answer: how for answer, (verdict, how) in verdicts.items() if verdict is Verdict.SILENT}
    assert silent == {}
