"""Anti-patterns between the ranks of a job."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.antipatterns.evidence import evidence_of
from tracebraid.analysis.collectives.members import members
from tracebraid.analysis.collectives.transfers import waits
from tracebraid.analysis.device import device_events_by_step
from tracebraid.analysis.ranks.lateness import arrivals, late_ranks, with_causes
from tracebraid.analysis.ranks.segments import rank_segments
from tracebraid.analysis.time.breakdown import HOST, compute_cover, cover_of
from tracebraid.analysis.time.step_windows import step_windows, windows_of
from tracebraid.model.answers.job import EVIDENCE, LateCause
from tracebraid.model.collectives import BETWEEN_TWO, CollectiveType
from tracebraid.model.device_peaks import COMPUTE
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions import JobDetector, Removal, Wrapper
from tracebraid.model.user_frame import without_object


def step_compute(linked: LinkedTrace) -> pl.DataFrame:
    """One row per step; without steps one of the whole trace: rank, step, length_ns, compute_ns.

    `compute_ns` is the time in which something computes that was launched in the step; without device work, in which
    an op computes on the host.
    """
    has_steps = not step_windows(linked).is_empty()
    windows = windows_of(linked, per_step=has_steps)
    first, last = linked.timeline.span_ns or (0, 0)
    starts = np.maximum(windows.get_column("start_ns").to_numpy(), min(first, last))
    ends = np.minimum(windows.get_column("end_ns").to_numpy(), max(first, last))
    work = device_events_by_step(linked).filter(pl.col("kind") == COMPUTE)
    if linked.timeline.has_device:
        own = [
            work.filter(pl.col("step").eq_missing(pl.lit(step, dtype=pl.String))) if has_steps else work
            for step in windows.get_column("step").to_list()
        ]
        compute = [_length(rows) for rows in own]
        # Where the device is behind the host, its span of a step is the longer one.
        ends = np.maximum(ends, starts + np.array([_span(rows) for rows in own], dtype=np.int64))
    else:
        compute = compute_cover(linked, HOST).within(starts, np.maximum(starts, ends)).tolist()
    return windows.select(
        pl.lit(linked.rank, dtype=pl.Int64).alias("rank"),
        "step",
        pl.Series("length_ns", np.maximum(ends - starts, 0), dtype=pl.Int64),
        pl.Series("compute_ns", compute, dtype=pl.Int64),
    )


def _length(work: pl.DataFrame) -> int:
    starts, durations = (work.get_column(name).to_numpy() for name in ("ts_ns", "dur_ns"))
    return cover_of(starts, starts + durations).length


def _span(work: pl.DataFrame) -> int:
    """From the first start to the last end."""
    if work.is_empty():
        return 0
    starts, durations = (work.get_column(name).to_numpy() for name in ("ts_ns", "dur_ns"))
    return int((starts + durations).max() - starts.min())


def collective_sites(linked: LinkedTrace) -> pl.DataFrame:
    """One row of `EVIDENCE` per member of a collective that has a length, on the rank's own clock.

    `saving_ns` is its duration, for a detector to lessen; `subject` is null.
    """
    found = members(linked).select(
        "start_ns", "end_ns", (pl.col("end_ns") - pl.col("start_ns")).alias("saving_ns"), "event_id"
    )
    events = device_events_by_step(linked).select("event_id", host_event="op_event")
    found = found.join(events, on="event_id", how="left", maintain_order="left")
    found = found.with_columns(pl.coalesce("host_event", "event_id"))
    return EVIDENCE.conform(evidence_of(linked, found))


LEAST_LATE_NS = 100_000
"""Lateness of a rank in a step below which it is left out: what some late launches take; a chosen value."""

_COMPUTES = (LateCause.LONGER_KERNEL, LateCause.MORE_KERNELS)
_ELSEWHERE = (
    *(LateCause.INHERITED, LateCause.BEFORE_RECORDING),
    *(LateCause.PIPELINE_ORDER, LateCause.LONGER_TRANSFER),
)
"""Lateness that another rank, the start of the recording, the schedule or the network makes."""

_SENTENCES = {
    LateCause.LONGER_KERNEL: "its kernels take longer",
    LateCause.MORE_KERNELS: "it runs more kernels",
    LateCause.LONGER_HOST_OP: "ops take longer",
    LateCause.HOST_WITHOUT_EVENTS: "its host is in nothing that is recorded",
    LateCause.DATA_LOADER: "it waits for its data",
    LateCause.GARBAGE_COLLECTION: "it collects garbage",
    LateCause.PYTHON: "it runs Python",
    LateCause.QUEUE_DELAY: "what it launched starts late",
    LateCause.UNEXPLAINED: "nothing recorded explains it",
}
_BY_CHANCE = 3
"""A rank computes more if it is late by so many times as much as the median rank: each is late at times."""
LEAST_SHARE = 0.05
"""How far the most compute is above the mean of the ranks, or of the stages of a step, as a share of it, for an
imbalance: devices of one kind differ by 2 to 3 % on the same work."""
_NO_SHARE = 10
"""A function of autograd in Python, or another op without a library, that takes a rank so many times as long as the
others is no share of work that they could take: it waits, reads or logs."""
_APART = 0.2
"""From this share of a rank's lateness on, computing and other causes are told apart."""
_BY_NAMES = 0.5
"""A thing is named if it is the cause of so much of the rank's lateness."""


def rank_imbalance(ranks: LinkedRanks) -> pl.DataFrame:
    """Time of ranks that compute more than the others, before collectives in which the others wait for them.

    With equal work each of n ranks takes the mean: of what one computes more than the others, L, L (1 - 1/n) is saved.
    """
    return _evidence(ranks, pl.col("computes"), 1 - 1 / pl.col("members"))


def late_for_another_reason(ranks: LinkedRanks) -> pl.DataFrame:
    """Time of ranks that do not compute more, before collectives in which the others wait for them."""
    return _evidence(ranks, ~pl.col("computes"), pl.lit(1.0))


def _evidence(ranks: LinkedRanks, chosen: pl.Expr, share: pl.Expr) -> pl.DataFrame:
    """Rows of `EVIDENCE`, of which a share is saved."""
    late = _late(ranks).filter(chosen)
    sites = ranks.of(collective_sites).drop("subject", "end_ns", "saving_ns")
    rows = sites.join(late, on=["rank", "event_id"], how="inner")
    return EVIDENCE.conform(
        rows.with_columns(
            (pl.col("start_ns") - pl.col("lateness_ns")).alias("start_ns"),
            pl.col("start_ns").alias("end_ns"),
            (pl.col("lateness_ns") * share).floor().cast(pl.Int64).alias("saving_ns"),
        ).sort("rank", "start_ns", "event_id")
    )


def _late(ranks: LinkedRanks) -> pl.DataFrame:
    """Late arrivals: rank, event_id, lateness_ns, members (of the collective), computes, subject.

    Where nearly all of a rank's lateness has causes of one sort, all of it has.
    """
    arrived = arrivals(ranks)
    late = late_ranks(arrived).filter(
        ~pl.col("paired") & (pl.col("caused_ns") > 0) & (pl.col("lateness_ns") > 0)
    )
    step = ["rank", "step"]
    unsure = pl.col("clock_width_ns").max().over(step).fill_null(0)
    late = late.filter(pl.col("lateness_ns").sum().over(step) >= pl.max_horizontal(unsure, LEAST_LATE_NS))
    # A recording that begins late makes the rank late for all of that step.
    begins_late = (pl.col("cause") == LateCause.BEFORE_RECORDING.value).any().over(step)
    found = with_causes(late, arrived, ranks.of(rank_segments)).filter(
        ~begins_late & ~pl.col("cause").is_in([cause.value for cause in _ELSEWHERE])
    )
    members = arrived.group_by("collective").agg(pl.len().alias("members"))
    is_own = ~pl.col("name").str.contains("::", literal=True) & (
        pl.col("time_ns") >= _NO_SHARE * pl.col("others_ns").fill_null(0)
    )
    on_host = pl.col("cause") == LateCause.LONGER_HOST_OP.value
    by_compute = pl.col("cause").is_in(_computing(ranks)) & ~(on_host & is_own.fill_null(value=False))
    late_ns = pl.col("lateness_ns").sum().over("rank")
    share = pl.col("lateness_ns").filter(by_compute).sum().over("rank") / late_ns
    computes = (by_compute | (share > 1 - _APART)) & (share >= _APART)
    found = found.with_columns(computes.alias("computes"), late_ns.alias("late_ns"))
    return (
        found.join(members, on="collective", how="left", maintain_order="left")
        .filter(~pl.col("computes") | (pl.col("late_ns") >= _uneven_ns(found, ranks)))
        .join(_subjects(found), on=["rank", "computes"], how="left", maintain_order="left")
        .select("rank", "event_id", "lateness_ns", "members", "computes", "subject")
    )


def _uneven_ns(late: pl.DataFrame, ranks: LinkedRanks) -> float:
    """From which lateness on a rank computes more than the others.

    Each is late at times: as the lower median over all ranks is. Equal work takes some ranks a little longer.
    """
    totals = late.group_by("rank").agg(pl.col("lateness_ns").sum()).get_column("lateness_ns").to_list()
    every = sorted([*totals, *[0] * (ranks.ranks.height - len(totals))])
    by_chance_ns = every[(len(every) - 1) // 2] if every else 0
    compute_ns = int(ranks.of(step_compute).get_column("compute_ns").sum())
    return max(_BY_CHANCE * by_chance_ns, LEAST_SHARE * compute_ns / max(ranks.ranks.height, 1))


def _computing(ranks: LinkedRanks) -> list[str]:
    """The causes that are computing: where no rank has a device, ops of the host compute."""
    on_device = bool((ranks.members.get_column("device") != HOST).any())
    on_host = () if on_device else (LateCause.LONGER_HOST_OP,)
    return [cause.value for cause in (*_COMPUTES, *on_host)]


def _subjects(late: pl.DataFrame) -> pl.DataFrame:
    """For each late rank what makes it late, for people, by computing and by other causes: `subject`."""
    sentence = pl.col("cause").replace_strict(
        {cause.value: text for cause, text in _SENTENCES.items()}, return_dtype=pl.String
    )
    by = ["rank", "computes"]
    total = pl.col("lateness_ns").sum().over(by)
    things = late.group_by(*by, "cause", "name").agg(pl.col("lateness_ns").sum())
    causes = things.with_columns(
        pl.col("lateness_ns").sum().over(*by, "cause").alias("of_cause_ns"), total.alias("total_ns")
    ).sort("of_cause_ns", "cause", "lateness_ns", "name", descending=[True, False, True, False])
    name = without_object(pl.col("name"))
    named = pl.when(pl.col("lateness_ns") >= _BY_NAMES * pl.col("total_ns")).then(name)
    return (
        causes.with_columns(sentence.alias("sentence"), named.alias("named"))
        .group_by(by, maintain_order=True)
        .agg(pl.col("sentence", "named").first())
        .select(
            *by,
            pl.concat_str(
                pl.format("rank {} is late: {}", "rank", "sentence"),
                pl.format(" ({})", "named").fill_null(""),
            ).alias("subject"),
        )
    )


_IN_PIPELINE = (
    (
        Wrapper.PIPELINE,
        "Move layers between the stages of the pipeline until all take equally long (the embedding and the loss count "
        "as layers); use more microbatches, or an interleaved schedule",
    ),
)

RANKS_DETECTOR = JobDetector(
    "rank-imbalance",
    "ranks wait for one that computes more",
    "Give all ranks equal work: batches of equal tokens (sort or pack by length), even shards and"
    " experts. If the work is equal, look for a slow device: its clocks, temperature and "
    "neighbours",
    rank_imbalance,
    (collective_sites, rank_segments, step_compute),
    generality=2,
    change_with=_IN_PIPELINE,
    removes=Removal.RANK,
)

LATE_DETECTOR = JobDetector(
    "late-rank",
    "ranks wait for one that is late without computing more",
    "Look for what only that rank does (reading, logging, saving, garbage collection), and for a "
    "slow host: `tracebraid analyze late_arrivals` lists each collective",
    late_for_another_reason,
    (collective_sites, rank_segments, step_compute),
    generality=2,
    removes=Removal.RANK,
)


MICROBATCHES_PER_STAGE = 4
"""So many leave a fifth of the step to bubbles in GPipe and 1F1B (Narayanan et al., SC 2021: (stages - 1) of
(microbatches + stages - 1))."""


def stage_imbalance(ranks: LinkedRanks) -> pl.DataFrame:
    """Waiting for what other stages send, in steps in which one computes `LEAST_SHARE` more than the mean of them.

    Of m microbatches the first passes all stages, one after another, and the slowest stage sets the pace of the others:
    the step takes sum C / m + (m - 1) / m x max C. Equal stages have the same sum, so a step saves at most
    (m - 1) / m x (max C - mean C), and a rank at most its waits. Ranks that send to or receive from others are stages.
    """
    waiting = _waits_of_stages(ranks)
    steps = _steps_of_stages(waiting, ranks)
    uneven = (pl.col("mean_ns") > 0) & (pl.col("most_ns") > (1 + LEAST_SHARE) * pl.col("mean_ns"))
    later = 1 - 1 / pl.col("microbatches")
    at_most = pl.min_horizontal(
        pl.col("length_ns") * (1 - pl.col("mean_ns") / pl.col("most_ns")),
        later * (pl.col("most_ns") - pl.col("mean_ns")),
    )
    subject = pl.format("rank {} computes most", "busiest")
    return _of_steps(waiting, steps.filter(uneven).with_columns(at_most_ns=at_most, subject=subject), ranks)


def few_microbatches(ranks: LinkedRanks) -> pl.DataFrame:
    """Waiting of stages that are in line, in steps of fewer than `MICROBATCHES_PER_STAGE` microbatches a stage.

    By the time of `stage_imbalance`, with as many microbatches. At most the busiest stage's time without compute.
    """
    waiting = _waits_of_stages(ranks)
    steps = _steps_of_stages(waiting, ranks)
    enough = MICROBATCHES_PER_STAGE * pl.col("stages")
    first = pl.col("mean_ns") * pl.col("stages") - pl.col("most_ns")
    at_most = pl.min_horizontal(
        first * (1 / pl.col("microbatches") - 1 / enough), pl.col("length_ns") - pl.col("most_ns")
    )
    subject = pl.format("{} on {} stages", _counted(pl.col("microbatches")), "stages")
    few = steps.filter(pl.col("in_line") & (pl.col("microbatches") < enough))
    return _of_steps(waiting, few.with_columns(at_most_ns=at_most, subject=subject), ranks)


def _counted(count: pl.Expr) -> pl.Expr:
    return pl.format("{} microbatch{}", count, pl.when(count == 1).then(pl.lit("")).otherwise(pl.lit("es")))


def _waits_of_stages(ranks: LinkedRanks) -> pl.DataFrame:
    """The matched sends and receives between ranks, with what each waits."""
    to_stages = pl.col("type").is_in([kind.value for kind in BETWEEN_TWO]).fill_null(value=False)
    return waits(ranks).filter(to_stages & pl.col("collective").is_not_null())


def _of_steps(waiting: pl.DataFrame, steps: pl.DataFrame, ranks: LinkedRanks) -> pl.DataFrame:
    """The waits of some steps as evidence, which together save at most what the step does."""
    found = (
        waiting.filter(pl.col("waiting_ns") > 0)
        .join(steps, on="step", how="inner", nulls_equal=True, maintain_order="left")
        .with_columns(pl.col("waiting_ns").sum().over("step", "rank").alias("all_ns"))
        .with_columns((pl.min_horizontal("at_most_ns", "all_ns") / pl.col("all_ns")).alias("share"))
        .select(
            "rank",
            "event_id",
            "waiting_ns",
            (pl.col("waiting_ns") * pl.col("share")).floor().cast(pl.Int64).alias("lost_ns"),
            "subject",
        )
    )
    return _at_sites(ranks.of(collective_sites), found)


def _steps_of_stages(waiting: pl.DataFrame, ranks: LinkedRanks) -> pl.DataFrame:
    """Steps of stages: step, stages, microbatches, in_line, busiest, most_ns and mean_ns (compute), length_ns."""
    compute = (
        waiting.select("step", "rank")
        .unique()
        .join(ranks.of(step_compute), on=["rank", "step"], how="inner", nulls_equal=True)
    )
    own = pl.col("compute_ns")
    steps = (
        compute.sort("step", "rank")
        .group_by("step", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("stages"),
            own.max().alias("most_ns"),
            own.mean().alias("mean_ns"),
            pl.col("length_ns").max(),
            pl.col("rank").get(own.arg_max()).alias("busiest"),
        )
    )
    return steps.join(_links(waiting), on="step", how="inner", nulls_equal=True, maintain_order="left")


def _links(waiting: pl.DataFrame) -> pl.DataFrame:
    """Of each step, microbatches (the most that one rank sends to another), and whether the ranks are in line.

    A send and receive that are one launch go both ways.
    """
    sends = pl.col("type") == CollectiveType.SEND.value
    pairs = waiting.group_by("step", "collective").agg(
        pl.col("rank").min().alias("low"),
        pl.col("rank").max().alias("high"),
        pl.col("rank").filter(sends).first().alias("sender"),
    )
    sent = pairs.group_by("step", "low", "high", "sender").agg(pl.len().cast(pl.Int64).alias("count"))
    ways = sent.group_by("step", "low", "high").agg(pl.col("count").max())
    ends = pl.concat([ways.select("step", "count", rank=side) for side in ("low", "high")])
    neighbours = ends.group_by("step", "rank").agg(pl.len().alias("neighbours"), pl.col("count").max())
    in_line = (pl.col("neighbours") <= 2).all() & ((pl.col("neighbours") == 1).sum() == 2)
    return neighbours.group_by("step").agg(
        pl.col("count").max().alias("microbatches"), in_line.alias("in_line")
    )


def _at_sites(sites: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """Waits as evidence, at the start of what waits."""
    rows = sites.drop("subject").join(found, on=["rank", "event_id"], how="inner")
    end = pl.col("start_ns") + pl.min_horizontal("waiting_ns", pl.col("end_ns") - pl.col("start_ns"))
    return EVIDENCE.conform(
        rows.with_columns(end.alias("end_ns"))
        .with_columns(pl.min_horizontal("lost_ns", pl.col("end_ns") - pl.col("start_ns")).alias("saving_ns"))
        .filter(pl.col("saving_ns") > 0)
        .sort("rank", "start_ns", "event_id")
    )


STAGES_DETECTOR = JobDetector(
    "stage-imbalance",
    "pipeline stages wait for one that computes more",
    "Move layers between stages until all take equally long; count the embedding and the loss as layers",
    stage_imbalance,
    (step_compute, collective_sites),
)

MICROBATCHES_DETECTOR = JobDetector(
    "few-microbatches",
    "pipeline stages wait for each other while few microbatches fill and drain the pipeline",
    f"Split the batch into more microbatches ({MICROBATCHES_PER_STAGE} for each stage), as long as each still fills "
    "the device; or use an interleaved or zero-bubble schedule",
    few_microbatches,
    (step_compute, collective_sites),
)
