"""Of the ranks of a job those that are asked for: by a list, or as a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from tracebraid.errors import ArgumentError
from tracebraid.importers.sampling.strata import StrataBy, strata_of
from tracebraid.importers.sampling.stratified import stratified
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.model.job import Job
from tracebraid.model.number_ranges import missing_from, number_ranges, numbers_text
from tracebraid.model.rank_files import RankFiles
from tracebraid.model.rank_origin import RankOrigin

__all__ = ["RankChoice", "with_chosen_ranks"]

_CASES = {
    (True, True): FindingCase.SAMPLED_BY_HOST_AND_GROUP,
    (True, False): FindingCase.SAMPLED_BY_HOST,
    (False, True): FindingCase.SAMPLED_BY_GROUP,
    (False, False): FindingCase.SAMPLED_EVENLY,
}
"""How the sample was taken, by whether hosts, and whether groups, tell ranks apart."""


@dataclass(frozen=True)
class RankChoice:
    """Which ranks of a job are opened; all, where nothing is given.

    Args:
        ranks: numbers, or a list as text (`0,8-15`).
        sample: how many ranks, of all hosts and parallel groups in proportion.

    Raises:
        ArgumentError: both are given, or one makes no sense.
    """

    ranks: str | Iterable[int] | None = None
    sample: int | None = None

    def __post_init__(self) -> None:
        if self.ranks is not None and self.sample is not None:
            raise ArgumentError("ranks and sample contradict each other: give one of them")
        if self.sample is not None and self.sample < 1:
            raise ArgumentError(f"a sample has 1 rank at least, not {self.sample}")
        if self.ranks is not None:
            object.__setattr__(self, "ranks", _as_ranges(self.ranks))


_Origins = Callable[[Sequence[RankFiles]], Sequence[RankOrigin]]


def with_chosen_ranks(job: Job, choice: RankChoice, origins: _Origins) -> Job:
    """The job with the ranks that are asked for, and a finding that says so; those about other ranks are left out.

    Args:
        job: all ranks.
        choice: which are asked for.
        origins: says where ranks ran.

    Raises:
        ArgumentError: a rank is asked for that has no Kineto trace.
    """
    if choice.ranks is None and choice.sample is None:
        return job
    there = [rank for rank in job.files if rank.kineto is not None]
    case = None
    if choice.sample is None:
        chosen = _listed(job.path, there, choice)
    else:
        chosen, case = _sampled(there, choice.sample, origins)
    if len(chosen) == len(there):
        return job
    numbers = {rank.rank for rank in chosen}
    about = [found for found in job.findings if found.details.get("rank", chosen[0].rank) in numbers]
    finding = _finding(job.path, numbers, len(there), case)
    return replace(job, files=tuple(chosen), findings=(*about, finding))


def _listed(path: str, there: Sequence[RankFiles], choice: RankChoice) -> list[RankFiles]:
    asked: tuple[range, ...] = choice.ranks  # type: ignore[assignment]
    known = [rank.rank for rank in there]
    missing = missing_from(asked, known)
    if missing:
        raise ArgumentError(
            f"{path} has no Kineto trace of rank {missing}; it has ranks {numbers_text(known)}"
        )
    return [rank for rank in there if any(rank.rank in numbers for numbers in asked)]


def _sampled(
    there: Sequence[RankFiles], size: int, origins: _Origins
) -> tuple[list[RankFiles], FindingCase | None]:
    if size >= len(there):
        return list(there), None
    strata = strata_of(origins(there))
    by = {division.by for division in strata}
    case = _CASES[StrataBy.HOST in by, StrataBy.GROUP in by]
    return [there[position] for position in stratified(strata, len(there), size)], case


def _finding(path: str, numbers: set[int], ranks: int, case: FindingCase | None) -> Finding:
    details: dict[str, object] = {"asked": len(numbers), "ranks": ranks, "shown": numbers_text(numbers)}
    if case is not None:
        details["case"] = case
    return Finding(FindingCode.RANKS_CHOSEN, path, details=details)


def _as_ranges(ranks: str | Iterable[int]) -> tuple[range, ...]:
    """The ranges of a list of ranks.

    Raises:
        ArgumentError: it is empty, or something in it is no rank.
    """
    if isinstance(ranks, str):
        return number_ranges(ranks, "ranks")
    found = tuple(ranks)
    wrong = [rank for rank in found if type(rank) is not int or rank < 0]
    if not found or wrong:
        problem = f"{wrong[0]!r} is no rank" if wrong else "no rank is given"
        raise ArgumentError(f"{problem}: give numbers, or a list as text, such as '0,8-15'")
    return tuple(range(rank, rank + 1) for rank in found)
