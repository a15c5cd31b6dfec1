"""What were the runs made with, and in what do they differ?"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracebraid.analysis.compare.profiles.rank_profile import RankProfile
from tracebraid.analysis.compare.profiles.run_profile import RunProfile
from tracebraid.model.answers import DIFF_SETTINGS, DiffPart, DiffSetting, IdleCause
from tracebraid.model.printable import encodable

__all__ = ["diff_settings", "host_late_share"]

_MEANS = (DiffSetting.HOST_EVENTS, DiffSetting.OVERHEAD)
"""Numbers: the mean of the ranks."""


def diff_settings(ranks: Sequence[Sequence[RankProfile]], runs: Sequence[RunProfile]) -> pl.DataFrame:
    """A row for each setting: `model.answers.DIFF_SETTINGS`.

    Args:
        ranks: of both runs the ranks that are compared.
        runs: the two runs.
    """
    found = [_of_run(some, run) for some, run in zip(ranks, runs, strict=True)]
    rows = [
        {
            "setting": setting.value,
            "a": found[0][setting],
            "b": found[1][setting],
            "differs": None not in (found[0][setting], found[1][setting])
            and found[0][setting] != found[1][setting],
        }
        for setting in DiffSetting
    ]
    return pl.DataFrame(rows, schema=DIFF_SETTINGS.polars_schema())


def host_late_share(run: RunProfile) -> float:
    """Share of the steps in which the device is idle because the host is late; 0 where there is no device."""
    late = run.parts.filter(
        pl.col("part") == DiffPart.IDLE.value, pl.col("cause") == IdleCause.HOST_LATE.value
    )
    whole = int(run.spans.sum())
    return int(late.get_column("ns").sum()) / whole if whole and run.has_device else 0.0


def _of_run(ranks: Sequence[RankProfile], run: RunProfile) -> dict[DiffSetting, str | None]:
    found: dict[DiffSetting, str | None] = {}
    for setting in DiffSetting:
        values = [value for rank in ranks if (value := rank.settings.get(setting)) is not None]
        if setting in _MEANS:
            found[setting] = str(round(sum(map(int, values)) / len(values))) if values else None
        else:
            found[setting] = encodable(", ".join(dict.fromkeys(values))) or None
    found[DiffSetting.STEPS] = str(run.samples if run.has_steps else 0)
    found[DiffSetting.HOST_LATE] = f"{host_late_share(run):.4f}"
    return found
