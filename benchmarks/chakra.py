"""Chakra traces: work on .et files, and simulated steps of real jobs against measured ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

import tracebraid
from benchmarks.inputs import DEMO, Given, find_real_traces
from benchmarks.measure import Row, Target, in_process, row_of
from tracebraid.api.exports.chakra import planned_parts
from tracebraid.api.graphing import dependency_graph, rank_of_graph
from tracebraid.chakra import (
    ChakraRank,
    ChakraRun,
    CollectiveSettings,
    Detail,
    Dialect,
    Feeder,
    Lanes,
    MissingRanks,
    Network,
    NodeDeps,
)
from tracebraid.chakra.exporting.rank_nodes import rank_nodes
from tracebraid.chakra.plan.job_plan import plan_job
from tracebraid.chakra.plan.world import JobPlan, PlanOptions
from tracebraid.chakra.running.meetings import Groups
from tracebraid.chakra.running.run_ranks import run_ranks
from tracebraid.chakra.schema import CHAKRA_NODES
from tracebraid.chakra.wire.messages import messages
from tracebraid.chakra.wire.reading import open_frames
from tracebraid.linking.ranks.clocks import link_ranks
from tracebraid.model.engine import Job
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import ActivityKind, DependencyGraph, RankGraph
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.simulation.replay import job_step_times, replay_error, replay_errors, step_moments

ROUNDS = 5
NODES = 200_000
COLLECTIVE_EVERY = 20
"""Nodes of a made rank from one collective to the next."""
LEAST_NODES_PER_S = {"write": 200_000, "read": 200_000, "json": 200_000, "check": 200_000}
"""The project's targets, on one core."""


def made_rank(nodes: int) -> ChakraRank:
    """A rank of kernels and collectives in a chain, where each node waits for a second one further up, too."""
    row = np.arange(nodes)
    is_collective = row % COLLECTIVE_EVERY == 0
    texts = pl.DataFrame({"row": row}).select(
        name=pl.format("kernel_{}<float, at::native::vectorized_elementwise>", pl.col("row") % 300),
        op=pl.format("aten::op_{}", pl.col("row") % 50),
        module=pl.format("model.layers.{}.mlp", pl.col("row") % 48),
        shapes=pl.format("[[{},4096],[4096,{}]]", pl.col("row") % 64, pl.col("row") % 32),
    )
    frame = texts.with_columns(
        node_id=pl.Series(row),
        type=pl.when(pl.Series(is_collective)).then(pl.lit("COMM_COLL_NODE")).otherwise(pl.lit("COMP_NODE")),
        duration_micros=pl.Series(row % 97),
        duration_ns=pl.Series(row % 97 * 1000 + 3),
        is_cpu_op=pl.lit(False),
        comm_type=pl.when(pl.Series(is_collective)).then(pl.lit("ALL_REDUCE")),
        comm_size=pl.when(pl.Series(is_collective)).then(pl.lit(1 << 20)),
        num_ops=pl.Series(row * 1000),
        tensor_size=pl.Series(row * 128),
        kind=pl.lit("kernel"),
        et_node_id=pl.Series(row + 7),
        event_id=pl.Series(row + 9),
        step=pl.lit("ProfilerStep#4"),
        stream=pl.lit(7),
    )
    further = 7
    before, after = np.concatenate([row[:-1], row[:-further]]), np.concatenate([row[1:], row[further:]])
    deps = NodeDeps.of_pairs(before, after, row)
    return ChakraRank(
        0, "0.0.4", (), CHAKRA_NODES.conform(frame, fill_missing=True), deps, NodeDeps.none(nodes)
    )


def _parsed(path: Path) -> None:
    node = messages().node
    for batch in open_frames(path).batches():
        for start, stop in zip(batch.messages.start.tolist(), batch.messages.stop.tolist(), strict=True):
            if batch.first or start != batch.messages.start[0]:
                node.FromString(batch.data[start:stop])


def _absent(path: Path) -> Path:
    path.unlink(missing_ok=True)
    return path


def chakra(given: Given) -> Iterator[Row]:
    """Nodes a second that are written, read, parsed by bare protobuf, made JSON and back, checked, counted and fed."""
    folder = given.folder / "et"
    folder.mkdir()
    rank = tracebraid.chakra.read(given.paths[0]) if given.paths else made_rank(given.nodes)
    et, text, again = (folder / name for name in ("job.0.et", "job.json", "again.0.et"))
    subjects: dict[str, Callable[[], object]] = {
        "write": lambda: tracebraid.chakra.write(_absent(et), rank),
        "protobuf": lambda: _parsed(et),
        "read": lambda: tracebraid.chakra.read(et),
        "json": lambda: tracebraid.chakra.to_json(et, _absent(text)),
        "back": lambda: tracebraid.chakra.from_json(text, _absent(again)),
        "check": lambda: tracebraid.chakra.check(et),
        "stats": lambda: tracebraid.chakra.stats(et),
        "feed": lambda: sum(1 for _ in Feeder(et)),
    }
    for name, took in in_process(subjects, given.rounds).items():
        speed, least = rank.nodes.height / took.seconds, LEAST_NODES_PER_S.get(name)
        target = None if least is None else Target(f"{least:,} nodes/s", speed >= least)
        yield row_of("chakra", name, took, {"nodes_per_s": speed, "MB": et.stat().st_size / 1e6}, target)


JOBS = ("pairs/dlrm_v100_8rank", "pairs/simple_add_a100", "pairs/linear_2080ti", "kineto/sampled_2_of_128")
SINGLE = ("a100_ddp_nccl_rank0of2", "v100_rank1of2_54MB", "a100_alexnet_cuda_sync", "h100_qwen_stack_memory")
"""Kineto traces of one rank."""
MOST_ERROR = 0.02
"""Error of a step with the lanes of ASTRA-sim, beyond the graph's own error, at the detail that is made for them."""
MOST_ERROR_WITHOUT_LANES = 0.001


@dataclass(frozen=True, eq=False)
class TracedJob:
    """A job, and what becomes nodes."""

    graph: DependencyGraph  # of all its ranks
    parts: Mapping[int, RankGraph]  # the graph of each rank, by rank
    ranks: LinkedRanks  # the ranks, linked with each other
    plan: JobPlan  # what is simulated


def traced_job(path: Path | str, *, single_lane: bool = False) -> TracedJob:
    """Read a job; ranks that are missing are left out, a single rank is simulated twice."""
    job = tracebraid.open(path)
    linked = [job] if isinstance(job, LinkedTrace) else list(_ranks(job))
    taken = [rank_of_graph(rank) for rank in linked]
    ranks = link_ranks([planned_parts(rank) for rank in linked])
    alone = PlanOptions(MissingRanks.REPLICATE, Dialect.ASTRA_SIM, world_size=2, single_lane=single_lane)
    several = PlanOptions(MissingRanks.SHRINK, Dialect.ASTRA_SIM, single_lane=single_lane)
    plan = plan_job(str(path), ranks, several if len(taken) > 1 else alone)
    return TracedJob(dependency_graph(job), {rank.graph.rank: rank.graph for rank in taken}, ranks, plan)


def _ranks(job: Job) -> list[LinkedTrace]:
    return list(job)


def nodes_of(job: TracedJob, detail: Detail) -> list[ChakraRank]:
    """The nodes of all simulated ranks, which begin when the job does."""
    begins = _begins(job)
    return [
        rank_nodes(job.parts[rank.source], job.plan.communication_of(rank.rank), detail, begins[rank.source])
        for rank in job.plan.ranks
    ]


def _begins(job: TracedJob) -> dict[int, int]:
    """Return the first moment of the job on the clock of each rank."""
    first = {
        rank: int(graph.times_ns[np.r_[graph.edges.before, graph.edges.after]].min())
        for rank, graph in job.parts.items()
    }
    own = pl.DataFrame({"rank": list(first), "time_ns": list(first.values())})
    aligned = job.ranks.aligned(own, "time_ns").get_column("time_ns")
    ahead = (aligned - int(aligned.to_numpy().min())).to_list()
    return {rank: time - late for (rank, time), late in zip(first.items(), ahead, strict=True)}


def run_of(job: TracedJob, nodes: Sequence[ChakraRank], lanes: Lanes) -> ChakraRun:
    """Run it with communication at its measured times."""
    files = [(f"job.{rank.rank}.et", nodes[rank.rank]) for rank in job.plan.ranks]
    groups = Groups("", {name: tuple(ranks) for name, ranks in job.plan.comm_groups().items()})
    return run_ranks(files, groups, [Network("measured", ())], CollectiveSettings(), lanes)


def measured_steps(graph: DependencyGraph) -> pl.DataFrame:
    """`step` and `measured_ns` of each: to the end of all that was issued in it, communication of the host included."""
    moments = step_moments(graph.steps)
    times = job_step_times(graph.moments.time_ns, moments)
    communicates = as_text("kind") == ActivityKind.COMMUNICATION.value
    last = (
        graph.activities.select("rank", "stream", "kind", as_text("step"))
        .with_columns(pl.Series("end_ns", graph.moments.time_ns[graph.moment_of[:, 1]]))
        .filter(pl.col("rank").is_not_null(), communicates | pl.col("stream").is_not_null())
        .group_by("step")
        .agg(pl.col("end_ns").max().alias("last_ns"))
    )
    found = pl.DataFrame({"step": moments.names, "start_ns": times.start_ns, "end_ns": times.end_ns})
    found = found.cast({"step": pl.String}).join(last, on="step", how="left", maintain_order="left")
    end = pl.max_horizontal("end_ns", "last_ns")
    # Nodes begin with the first rank, also where the recordings of others begin later.
    begin = int(graph.moments.time_ns[moments.start[moments.step == 0]].min()) if len(moments.start) else 0
    return found.select("step", measured_ns=end - end.shift().fill_null(begin))


def errors_of(job: TracedJob, run: ChakraRun) -> tuple[float | None, float]:
    """The largest relative error of a step, and that of the whole; None: the trace has no steps."""
    simulated = run.steps.filter(pl.col("rank").is_null()).select("step", "duration_ns")
    steps = measured_steps(job.graph).drop_nulls("step").join(simulated, on="step", how="left")
    found = (steps.get_column("duration_ns") / steps.get_column("measured_ns") - 1).abs().max()
    whole = int(np.ptp(job.graph.moments.time_ns)) if len(job.graph.moments) else 0
    end = run.runs.get_column("end_ns")[0] / whole - 1 if whole else 0.0
    return (float(found) if isinstance(found, float) else None), float(end)


def true_rows(path: Path) -> list[Row]:
    """The rows of one trace."""
    several, merged = traced_job(path), traced_job(path, single_lane=True)
    own = replay_error(replay_errors(several.graph)).median
    rows = []
    for detail in Detail:
        job = merged if detail is Detail.MERGED else several
        nodes = nodes_of(job, detail)
        for lanes in (Lanes.UNLIMITED, Lanes.ASTRA_SIM):
            run = run_of(job, nodes, lanes)
            step, end = errors_of(job, run)
            figures = {
                "nodes": float(sum(rank.nodes.height for rank in nodes)),
                "end error": end,
                **({} if step is None else {"step error": step}),
                **({} if own is None else {"graph error": own}),
            }
            subject = f"{path.name.split('.')[0]}, {detail.value}, {lanes.value}"
            rows.append(
                Row("chakra_true", subject, figures=figures, target=_target(detail, lanes, step, end, own))
            )
    return rows


def _target(detail: Detail, lanes: Lanes, step: float | None, end: float, own: float | None) -> Target | None:
    error = abs(end) if step is None else step
    if lanes is Lanes.UNLIMITED and detail is not Detail.MERGED:
        return Target(f"at most {MOST_ERROR_WITHOUT_LANES:.1%}", error <= MOST_ERROR_WITHOUT_LANES)
    if detail is Detail.MERGED:
        most = MOST_ERROR + (own or 0.0)
        return Target(f"at most {most:.2%}", error <= most)
    return None


def chakra_true(given: Given) -> Iterator[Row]:
    """Chakra traces of real jobs, run by the engine of `chakra run`: simulated step times against measured ones.

    Each is exported in memory at each detail, with communication at its measured times; ranks that are missing are left
    out, a single rank is simulated beside a replica. `step error` is the largest of all steps, `end error` that of the
    whole, `graph error` the median error of our own replay with modelled latencies."""
    found = find_real_traces(given.traces)
    real = [] if found is None else [found / name for name in JOBS]
    real += [] if found is None else [found / "kineto" / f"{name}.json.gz" for name in SINGLE]
    for path in given.paths or [DEMO, *real]:
        yield from true_rows(path)
