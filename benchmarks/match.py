"""Rightness of links that are made without ids, against captures that have them; needs torch.

Programs are captured twice each, with ids; the bundled traces come beside them. Then the traces are
linked by alignment alone, which looks at no id: as they are, with 1 % of the events and nodes gone, with 1 % of the
events under another name, and the Execution Trace of one run with the Kineto trace of the other. Precision is the
share of the links that the ids confirm, recall that of the pairs by ids (where both are still there) that were found.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import polars as pl
import torch

import tracebraid
from benchmarks.inputs import Given
from benchmarks.measure import Row
from tracebraid import ExecutionTrace, LinkedTrace, Timeline

SHARE = 0.01


def mlp() -> Callable[[], object]:
    """Training of an MLP with Adam."""
    model = torch.nn.Sequential(*[torch.nn.Linear(32, 32) for _ in range(8)])
    return _training(model, torch.randn(8, 32))


def transformer() -> Callable[[], object]:
    """Training of two transformer layers."""
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    return _training(torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(2, 8, 32))


def compiled() -> Callable[[], object]:
    """The same, compiled."""
    model = torch.nn.Sequential(*[torch.nn.Linear(32, 32) for _ in range(8)])
    return _training(torch.compile(model, backend="aot_eager"), torch.randn(8, 32))


def threads() -> Callable[[], object]:
    """Three models of one kind and one of another, trained on a thread each, and a further one on the main thread."""
    own, steps = mlp(), [mlp(), mlp(), mlp(), transformer()]

    def step() -> None:
        running = [threading.Thread(target=one) for one in steps]
        for thread in running:
            thread.start()
        own()
        for thread in running:
            thread.join()

    return step


PROGRAMS = {"mlp": mlp, "transformer": transformer, "compiled": compiled, "threads": threads}


def _training(model: Callable[..., torch.Tensor], batch: torch.Tensor) -> Callable[[], object]:
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)  # type: ignore[attr-defined]

    def step() -> None:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def captured(program: Callable[[], Callable[[], object]], folder: Path) -> LinkedTrace:
    """Five steps of a program, linked by ids."""
    torch.manual_seed(0)
    step = program()
    step()
    et, kineto = folder / "torch_et_0.json", folder / "kineto_trace_0.json"
    observer = tracebraid.ExecutionTraceObserver("native").register_callback(et)
    of_all_threads = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    with torch.profiler.profile(
        record_shapes=True, execution_trace_observer=observer, experimental_config=of_all_threads
    ) as profiler:
        for _ in range(5):
            step()
            profiler.step()
    profiler.export_chrome_trace(str(kineto))
    return tracebraid.link(et, kineto, matching="exact")


def scored(program: str, condition: str, pair: tuple[ExecutionTrace, Timeline], truth: pl.DataFrame) -> Row:
    """Link without ids, and compare with the truth: `node_id`, `event_id`."""
    et, timeline = pair
    begin = time.perf_counter()
    linked = tracebraid.link(et, timeline, matching="approximate")
    seconds = time.perf_counter() - begin
    found = linked.host_links.drop_nulls("node_id").select("node_id", "event_id")
    there = truth.join(timeline.host_ops, on="event_id", how="semi").join(et.nodes, on="node_id", how="semi")
    right = found.join(there, on=["node_id", "event_id"], how="semi").height
    # Of what has no partner by ids, nothing says whether a link is right.
    judged = found.join(truth, on="node_id", how="semi").height
    ambiguous = linked.node_links.get_column("candidates").count()
    figures = {
        "nodes": float(there.height),
        "precision": right / max(judged, 1),
        "recall": right / max(there.height, 1),
        "ambiguous": float(ambiguous),
    }
    return Row("match", f"{program}, {condition}", seconds, figures=figures)


def damaged(linked: LinkedTrace, lost: float, renamed: float, seed: int) -> tuple[ExecutionTrace, Timeline]:
    """A pair of which some nodes and events are gone (half of each), or events have other names."""
    random = np.random.default_rng(seed)
    et, timeline = linked.et, linked.timeline
    assert et is not None
    nodes = et.nodes.filter(pl.col("is_root") | pl.Series(random.random(et.nodes.height) >= lost / 2))
    ops = timeline.host_ops.filter(pl.Series(random.random(timeline.host_ops.height) >= lost / 2))
    other = pl.Series(random.random(timeline.events.height) < renamed)
    name = pl.col("name").cast(pl.String)
    events = timeline.events.with_columns(
        pl.when(other)
        .then(pl.concat_str(pl.lit("renamed::"), name))
        .otherwise(name)
        .cast(pl.Categorical)
        .alias("name")
    )
    tables = {**timeline.tables, "events": events, "host_ops": ops}
    return replace(et, nodes=nodes), replace(timeline, tables=tables)


def truth_of(linked: LinkedTrace) -> pl.DataFrame:
    """The pairs by ids."""
    return linked.host_links.drop_nulls("node_id").select("node_id", "event_id")


def truth_across(one: LinkedTrace, other: LinkedTrace) -> pl.DataFrame:
    """Node of the one to event of the other: the same place on threads that run the same ops in both runs."""
    places = [_places(linked) for linked in (one, other)]
    rows = []
    for thread, ops in places[0].items():
        there = places[1].get(thread, pl.DataFrame())
        if ops.height == there.height and ops.get_column("name").equals(there.get_column("name")):
            rows.append(
                pl.DataFrame({"node_id": ops.get_column("node_id"), "event_id": there.get_column("event_id")})
            )
    return pl.concat(rows)


def _places(linked: LinkedTrace) -> dict[int, pl.DataFrame]:
    assert linked.et is not None
    name = pl.col("name").cast(pl.String).str.replace(r"#\d+$", "")
    ops = truth_of(linked).join(linked.et.nodes.select("node_id", "tid", name), on="node_id").sort("node_id")
    return {int(key[0]): part for key, part in ops.partition_by("tid", as_dict=True).items()}


def scores(program: str, runs: Sequence[LinkedTrace], seeds: int) -> list[Row]:
    """All conditions of one program."""
    one = runs[0]
    assert one.et is not None
    rows = [scored(program, "as it is", (one.et, one.timeline), truth_of(one))]
    for condition, lost, renamed in (
        ("1 % lost", SHARE, 0.0),
        ("1 % renamed", 0.0, SHARE),
        ("both", SHARE, SHARE),
    ):
        tried = [
            scored(program, condition, damaged(one, lost, renamed, seed), truth_of(one))
            for seed in range(seeds)
        ]
        rows.append(_mean(tried))
    if len(runs) > 1:
        rows.append(scored(program, "another run", (one.et, runs[1].timeline), truth_across(*runs[:2])))
    return rows


def match(given: Given) -> Iterator[Row]:
    """Rightness of links made without ids, against captures that have ids, which the linker is not shown.

    Precision is the share of the links that the ids confirm, recall that of the pairs by ids that were found. Each
    damage is done in as many seeds as there are rounds."""
    for rank in tracebraid.open(tracebraid.demo_path(), matching="exact"):
        yield from scores(f"bundled, rank {rank.rank}", [rank], given.rounds)
    for name, program in PROGRAMS.items():
        runs = []
        for run in range(2):
            place = given.folder / f"{name}_{run}"
            place.mkdir()
            runs.append(captured(program, place))
        yield from scores(name, runs, given.rounds)


def _mean(tried: Sequence[Row]) -> Row:
    figures = {name: fmean(one.figures[name] for one in tried) for name in tried[0].figures}
    return replace(tried[0], seconds=fmean(one.seconds or 0.0 for one in tried), figures=figures)
