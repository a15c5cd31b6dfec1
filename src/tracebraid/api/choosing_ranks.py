"""Select ranks of a job: by a list, or as a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from msgspec import Struct
from msgspec.structs import force_setattr

from tracebraid.errors import ArgumentError
from tracebraid.importers.sampling import StrataBy, strata_of, stratified
from tracebraid.model.engine import Job
from tracebraid.model.finding import Finding, FindingCase
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.quantities import missing_from, number_ranges, numbers_text
from tracebraid.model.rank_files import RankFiles, RankOrigin

_CASES = {
    (True, True): FindingCase.SAMPLED_BY_HOST_AND_GROUP,
    (True, False): FindingCase.SAMPLED_BY_HOST,
    (False, True): FindingCase.SAMPLED_BY_GROUP,
    (False, False): FindingCase.SAMPLED_EVENLY,
}
"""Sampling method, by whether hosts and groups distinguish ranks."""


class RankChoice(Struct, frozen=True):
    """Selection of ranks of a job; by default all.

    Args:
        ranks: numbers, or a list as text (`0,8-15,32-`).
        sample: the number of ranks, proportional over hosts and parallel groups.

    Raises:
        ArgumentError: both are given, or one is invalid.
    """

    ranks: str | Iterable[int] | None = None
    sample: int | None = None

    def __post_init__(self) -> None:
        if self.ranks is not None and self.sample is not None:
            raise ArgumentError("ranks and sample contradict each other: give one of them")
        if self.sample is not None and self.sample < 1:
            raise ArgumentError(f"a sample has 1 rank at least, not {self.sample}")
        if self.ranks is not None:
            force_setattr(self, "ranks", _as_ranges(self.ranks))


_Origins = Callable[[Sequence[RankFiles]], Sequence[RankOrigin]]


def with_chosen_ranks(job: Job, choice: RankChoice, origins: _Origins) -> Job:
    """Restrict the job to the selected ranks, and add a finding; findings about other ranks are dropped."""
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
    about = [found for found in job.of_files if found.details.get("rank", chosen[0].rank) in numbers]
    finding = _finding(job.path, numbers, len(there), case)
    return replace(job, files=tuple(chosen), of_files=(*about, finding))


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
    details: dict[str, object] = {"selected": len(numbers), "ranks": ranks, "shown": numbers_text(numbers)}
    if case is not None:
        details["case"] = case
    return Finding(FindingCode.RANKS_CHOSEN, path, details=details)


def _as_ranges(ranks: str | Iterable[int]) -> tuple[range, ...]:
    """Parse a list of ranks into ranges."""
    if isinstance(ranks, str):
        return number_ranges(ranks, "ranks")
    found = tuple(ranks)
    wrong = [rank for rank in found if type(rank) is not int or rank < 0]
    if not found or wrong:
        problem = f"{wrong[0]!r} is no rank" if wrong else "no rank is given"
        raise ArgumentError(f"{problem}: give numbers, or a list as text, such as '0,8-15'")
    return tuple(range(rank, rank + 1) for rank in found)
