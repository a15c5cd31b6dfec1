"""What is compared of a run: all its ranks together, on the steps that are counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.compare.profiles.op_positions import KEY
from tracebraid.analysis.compare.profiles.rank_profile import RankProfile

__all__ = ["RunProfile", "run_profile"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RunProfile:
    """Ranks together. A sample is a step: what it takes is summed over all ranks, in integers.

    Args:
        ranks: the ranks, in order.
        has_steps: whether samples are steps; if not, there is one: the whole trace.
        has_device: whether any work ran on a device.
        samples: number of steps that are counted.
        left_out: number of steps that are not.
        spans: ranks x samples: lengths of the steps.
        positions: where ops are called, each once, in the order of first calls.
        ops: by position and sample, see `RankProfile`.
        kernels: the same.
        parts: the same.
    """

    ranks: tuple[int, ...]
    has_steps: bool
    has_device: bool
    samples: int
    left_out: int
    spans: _Ints
    positions: pl.DataFrame
    ops: pl.DataFrame
    kernels: pl.DataFrame
    parts: pl.DataFrame

    @property
    def divisor(self) -> int:
        """By what a sum over all is divided for the mean of a step and rank."""
        return max(1, self.samples * len(self.ranks))


def run_profile(
    ranks: Sequence[RankProfile], with_shapes: bool, with_modules: bool, with_doubtful: bool
) -> RunProfile:
    """Ranks as one run.

    A step counts that is in all ranks, by its name and occurrence, else by its number, and that is neither warm-up nor
    doubtful in any; where none is left, all count.

    Args:
        ranks: in order.
        with_shapes: whether shapes and types tell ops apart; if not, they are null.
        with_modules: the same of modules.
        with_doubtful: doubtful steps count, too.
    """
    chosen = _chosen(ranks, with_doubtful)
    samples = chosen[0].height if chosen else 0
    dropped = [] if with_shapes else ["input_dims", "input_types"]
    dropped += [] if with_modules else ["module"]
    positions, numbers = _numbered([rank.positions for rank in ranks], dropped)
    spans = [frame.get_column("span_ns").to_numpy() for frame in chosen]

    def summed(name: str, *keys: str) -> pl.DataFrame:
        frames = map(_moved, (getattr(rank, name) for rank in ranks), numbers, chosen)
        key = ["position", "sample", *keys]
        found = pl.concat(frames)
        values = [column for column in found.columns if column not in key]
        return found.group_by(key, maintain_order=True).agg(pl.col(*values).sum())

    return RunProfile(
        tuple(rank.rank for rank in ranks),
        all(rank.has_steps for rank in ranks),
        any(rank.has_device for rank in ranks),
        samples,
        max((rank.windows.height for rank in ranks), default=0) - samples,
        np.array(spans, dtype=np.int64).reshape(-1, samples),
        positions,
        summed("ops"),
        summed("kernels", "kernel", "kind"),
        summed("parts", "part", "cause", "host_activity"),
    )


def _numbered(frames: list[pl.DataFrame], dropped: list[str]) -> tuple[pl.DataFrame, list[pl.Series]]:
    """The positions of all ranks, each once, and for those of each rank their rows among them.

    Args:
        frames: positions of each rank.
        dropped: columns that do not tell positions apart.
    """
    frames = [
        frame.with_columns(pl.lit(None, dtype=pl.String).alias(name) for name in dropped) for frame in frames
    ]
    unique = pl.concat(frames).unique(KEY, keep="first", maintain_order=True)
    rows = unique.select(KEY).with_row_index("number").cast({"number": pl.Int64})
    found = [
        frame.join(rows, on=KEY, how="left", nulls_equal=True, maintain_order="left") for frame in frames
    ]
    return unique, [frame.get_column("number") for frame in found]


def _chosen(ranks: Sequence[RankProfile], with_doubtful: bool) -> list[pl.DataFrame]:
    """The windows of each rank that count, in an order that is the same for all."""
    counts = pl.lit(value=True) if with_doubtful else ~pl.col("doubtful")
    frames = [
        rank.windows.with_columns(
            pl.int_range(pl.len()).over("step").alias("occurrence"),
            (counts & ~pl.col("warmup")).alias("counts"),
        )
        for rank in ranks
    ]
    for key in (["step", "occurrence"], ["window"]):
        common = _in_all(frames, key)
        good = common
        for frame in frames:
            good = good.join(frame.filter("counts").select(key), on=key, how="semi", nulls_equal=True)
        common = common if good.is_empty() else good
        if not common.is_empty():
            return [
                common.join(frame, on=key, how="left", nulls_equal=True, maintain_order="left")
                for frame in frames
            ]
    return [frame.clear() for frame in frames]


def _in_all(frames: list[pl.DataFrame], key: list[str]) -> pl.DataFrame:
    common = frames[0].select(key) if frames else pl.DataFrame()
    for frame in frames[1:]:
        common = common.join(frame.select(key), on=key, how="semi", nulls_equal=True)
    return common


def _moved(frame: pl.DataFrame, number: pl.Series, windows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the windows that count, with their sample and the position's number in the run."""
    sample = windows.select("window").with_row_index("sample").cast({"sample": pl.Int64})
    found = frame.join(sample, on="window", how="inner", maintain_order="left").drop("window")
    position = found.get_column("position").to_numpy()
    of_run = np.r_[number.to_numpy(), -1].astype(np.int64)[position]
    return found.with_columns(pl.Series("position", of_run))
