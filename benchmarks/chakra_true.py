"""How true Chakra traces of real jobs are: simulated step times against measured ones, and what they hold of the work.

    python -m benchmarks.chakra_true [TRACE ...] [--traces DIR] [--json]

Each trace is exported in memory at each detail and run by `chakra run`'s engine, with communication at its measured
transfer times: without lanes (nodes wait for their dependencies alone), and with the lanes of ASTRA-sim (of each rank
one of compute, one of communication, one of the host). Errors are shares of the measured times: `step` the largest of
all steps, `end` that of the whole. A step is measured as the run counts it: from the end of the one before to that of
all that was issued in it. `graph` is the median error of our own replay with modelled latencies, which uses no
measured start. Without TRACE it is the demo, and all jobs and pairs of the real traces. Ranks that are missing are left
out; a single rank is simulated beside a replica of its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

import tracebraid
from benchmarks.inputs import find_real_traces
from benchmarks.table import Row, Target, as_json, as_table
from tracebraid.api.chakra.planning import plan_of_ranks
from tracebraid.api.graphing import dependency_graph, rank_of_graph
from tracebraid.exporters.chakra.nodes.rank_nodes import rank_nodes
from tracebraid.linking.ranks.link_ranks import link_ranks
from tracebraid.model.chakra.chakra_rank import ChakraRank
from tracebraid.model.chakra.chakra_run import ChakraRun
from tracebraid.model.chakra.codes import Detail, Dialect, MissingRanks
from tracebraid.model.chakra.job_plan import JobPlan, PlanOptions
from tracebraid.model.chakra.network import CollectiveSettings, Lanes, Network
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import ActivityKind
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.graph.rank_graph import RankGraph
from tracebraid.model.job import Job
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.simulation.chakra.meetings import Groups
from tracebraid.simulation.chakra.run_ranks import run_ranks
from tracebraid.simulation.reproduction import replay_error, replay_errors
from tracebraid.simulation.step_times import job_step_times, step_moments

__all__ = ["TracedJob", "errors_of", "measured_steps", "nodes_of", "run_of", "traced_job"]

DEMO = Path(tracebraid.__file__).parent / "demo_traces" / "ddp_cpu_2rank"
JOBS = ("pairs/dlrm_v100_8rank", "pairs/simple_add_a100", "pairs/linear_2080ti", "kineto/sampled_2_of_128")
SINGLE = ("a100_ddp_nccl_rank0of2", "v100_rank1of2_54MB", "a100_alexnet_cuda_sync", "h100_qwen_stack_memory")
"""Kineto traces of one rank."""
MOST_ERROR = 0.02
"""Of a step with the lanes of ASTRA-sim, beyond the graph's own error, at the detail that is made for them."""
MOST_ERROR_WITHOUT_LANES = 0.001


@dataclass(frozen=True, eq=False)
class TracedJob:
    """A job, and what becomes nodes.

    Args:
        graph: of all its ranks.
        parts: the graph of each rank, by rank.
        ranks: the ranks, linked with each other.
        plan: what is simulated.
    """

    graph: DependencyGraph
    parts: Mapping[int, RankGraph]
    ranks: LinkedRanks
    plan: JobPlan


def traced_job(path: Path | str) -> TracedJob:
    """Read a job; ranks that are missing are left out, a single rank is simulated twice."""
    job = tracebraid.open(path)
    linked = [job] if isinstance(job, LinkedTrace) else list(_ranks(job))
    taken = [rank_of_graph(rank) for rank in linked]
    ranks = link_ranks([rank.parts for rank in taken])
    alone = PlanOptions(MissingRanks.REPLICATE, Dialect.ASTRA_SIM, world_size=2)
    several = PlanOptions(MissingRanks.SHRINK, Dialect.ASTRA_SIM)
    plan = plan_of_ranks(str(path), ranks, several if len(taken) > 1 else alone)
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
    """When the first moment of the job is, on the clock of each rank."""
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
    return found.select("step", measured_ns=end - end.shift().fill_null(pl.col("start_ns").first()))


def errors_of(job: TracedJob, run: ChakraRun) -> tuple[float | None, float]:
    """The largest relative error of a step, and that of the whole; None: the trace has no steps."""
    simulated = run.steps.filter(pl.col("rank").is_null()).select("step", "duration_ns")
    steps = measured_steps(job.graph).drop_nulls("step").join(simulated, on="step", how="left")
    found = (steps.get_column("duration_ns") / steps.get_column("measured_ns") - 1).abs().max()
    whole = int(np.ptp(job.graph.moments.time_ns)) if len(job.graph.moments) else 0
    end = run.runs.get_column("end_ns")[0] / whole - 1 if whole else 0.0
    return (float(found) if isinstance(found, float) else None), float(end)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", nargs="*", type=Path)
    parser.add_argument("--traces", type=Path, default=None)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    rows = [row for path in given.trace or _all_of(given.traces) for row in rows_of(path)]
    print(as_json(rows) if given.json else as_table(rows))


def _all_of(folder: Path | None) -> list[Path]:
    found = find_real_traces(folder)
    if found is None:
        return [DEMO]
    return [
        DEMO,
        *(found / name for name in JOBS),
        *(found / "kineto" / f"{name}.json.gz" for name in SINGLE),
    ]


def rows_of(path: Path) -> list[Row]:
    """The rows of one trace."""
    job = traced_job(path)
    own = replay_error(replay_errors(job.graph)).median
    rows = []
    for detail in Detail:
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


if __name__ == "__main__":
    main()
