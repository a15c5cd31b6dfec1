"""Members of generated jobs, of which the truth is known: which member is of which collective."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tracebraid.model.collectives import text_of_ranks
from tracebraid.model.schema.links import MEMBERS, RANKS


@dataclass
class MadeJob:
    """A job whose ranks enter the same collectives, each on its own clock.

    Args:
        world: ranks of the job.
        seed: of what is random.
        offsets_ns: what each rank's clock is ahead by.
        drifts_ppm: how much faster each rank's clock goes.
        sequences: whether traces have numbers.
        communicators: whether they have ids of communicators.
    """

    world: int
    seed: int = 0
    offsets_ns: Sequence[int] = ()
    drifts_ppm: Sequence[float] = ()
    sequences: bool = False
    communicators: bool = False
    rows: list[dict[str, object]] = field(default_factory=list)
    count: int = 0
    now: int = 1_700_000_000_000_000_000

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.begin = self.now
        self.numbers: dict[str, int] = {}

    def collective(
        self,
        kind: str = "all_reduce",
        size: int = 1024,
        group: str = "0",
        ranks: Sequence[int] | None = None,
        gap_ns: int | None = None,
        step: int | None = None,
        renamed: bool = False,
    ) -> int:
        """A collective of a group, some time after the last; returns its number, the truth of its members."""
        of = list(range(self.world)) if ranks is None else list(ranks)
        self.now += int(self.random.integers(20_000, 2_000_000)) if gap_ns is None else gap_ns
        number = self.numbers[group] = self.numbers.get(group, 0) + 1
        for rank in of:
            start = self.now - int(self.random.integers(1_000, 15_000))
            end = self.now + int(self.random.integers(0, 2_000))
            self.rows.append(
                {
                    "truth": self.count,
                    "rank": rank,
                    "event_id": self.count,
                    "step": None if step is None else f"ProfilerStep#{step}",
                    "type": kind,
                    "name": kind,
                    "process_group": f"{group} on {rank}" if renamed and rank % 3 == 0 else group,
                    "communicator": f"comm-{group}" if self.communicators else None,
                    "group_ranks": text_of_ranks(of),
                    "group_size": len(of),
                    "sequence": number if self.sequences else None,
                    "dtype": "float",
                    "in_bytes": size,
                    "out_bytes": size,
                    "issued_ns": self._on(rank, start - 5_000),
                    "start_ns": self._on(rank, start),
                    "end_ns": self._on(rank, end),
                }
            )
        self.count += 1
        return self.count - 1

    def _on(self, rank: int, moment: int) -> int:
        offset = self.offsets_ns[rank] if self.offsets_ns else 0
        drift = self.drifts_ppm[rank] if self.drifts_ppm else 0.0
        return moment + offset + round((moment - self.begin) * drift / 1e6)

    def frame(self) -> pl.DataFrame:
        """`MEMBERS` of all ranks, with `truth`."""
        frame = pl.DataFrame(self.rows, infer_schema_length=None)
        members = MEMBERS.conform(frame, fill_missing=True)
        return members.with_columns(frame.get_column("truth")).sort("rank", "start_ns", "event_id")


def all_reduces(job: MadeJob, count: int, **options: object) -> None:
    """Many collectives of some sizes, as gradients' buckets are."""
    for number in range(count):
        job.collective(size=(1024, 4096, 1024, 65536)[number % 4], **options)  # type: ignore[arg-type]


def facts(ranks: Sequence[int], world: int) -> pl.DataFrame:
    """`RANKS`."""
    frame = pl.DataFrame({"rank": list(ranks), "world_size": [world] * len(ranks)})
    return RANKS.conform(frame, fill_missing=True)


def agreement(members: pl.DataFrame, truth: pl.DataFrame) -> tuple[int, int, int]:
    """How many members are in a collective with a member of another truth; how many that have company have none.

    Args:
        members: matched, in the order of `truth`.
        truth: with `truth`.

    Returns:
        Wrong, missed, and all that have company.
    """
    both = members.select("collective", "rank").with_columns(truth.get_column("truth"))
    company = both.group_by("truth").agg(pl.len().alias("there"))
    both = both.join(company, on="truth", how="left", maintain_order="left")
    matched = both.filter(pl.col("collective").is_not_null())
    mixed = matched.group_by("collective").agg((pl.col("truth") != pl.col("truth").mode().min()).sum())
    wrong = int(mixed.get_column("truth").sum())
    # A collective that was matched in parts is missed but for its largest.
    largest = matched.group_by("truth", "collective").len().group_by("truth").agg(pl.col("len").max())
    with_company = both.filter(pl.col("there") > 1)
    found = largest.filter(pl.col("truth").is_in(with_company.get_column("truth").unique().implode()))
    return wrong, with_company.height - int(found.get_column("len").sum()), with_company.height
