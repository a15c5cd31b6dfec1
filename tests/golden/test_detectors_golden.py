"""Detectors of communication, products, tensors and ranks on real traces: what is known to be in them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import polars as pl
import pytest

from tracebraid.analysis.antipatterns.catalog import DETECTORS
from tracebraid.analysis.antipatterns.ranks.catalog import DETECTORS as BETWEEN_RANKS
from tracebraid.analysis.collectives.members.members import members
from tracebraid.analysis.ranks.rank_facts import rank_facts
from tracebraid.api import link
from tracebraid.linking.ranks.link_ranks import link_ranks
from tracebraid.model.linked_ranks import RankParts
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

pytestmark = pytest.mark.traces

V100, QWEN, DDP = "v100_rank1of2_54MB", "h100_qwen_stack_memory", "a100_ddp_nccl_rank0of2"


@cache
def linked(path: Path) -> LinkedTrace:
    return link(None, path, processes=1)


@cache
def found(path: Path) -> dict[str, pl.DataFrame]:
    return {detector.name: detector.detect(linked(path), PROFILER_STEP) for detector in DETECTORS}


def kineto(folder: Path, name: str) -> Path:
    return folder / "kineto" / f"{name}.json.gz"


def test_evidence_of_every_trace_fits(real_traces: Path) -> None:
    paths = [*real_traces.glob("kineto/**/*.json.gz"), *real_traces.glob("pairs/*/kineto_trace_*.json.gz")]
    assert paths
    for path in paths:
        for rows in found(path).values():
            saving = rows.get_column("saving_ns")
            assert (saving > 0).all()
            assert (saving <= rows.get_column("end_ns") - rows.get_column("start_ns")).all()


def test_a_training_in_fp32_with_an_optimizer_by_parameter_is_told_so(real_traces: Path) -> None:
    rows = found(kineto(real_traces, V100))
    assert rows["unfused-optimizer"].get_column("step").n_unique() == 5
    products = rows["full-precision-products"].get_column("subject")
    assert products.str.contains("sgemm").all()
    assert rows["small-collectives"].height > 100
    assert rows["unaligned-products"].is_empty()


def test_a_prefill_in_bfloat16_copies_layouts_for_its_attention(real_traces: Path) -> None:
    rows = found(kineto(real_traces, QWEN))
    copies = rows["layout-copies"]
    assert copies.height == 96
    assert copies.get_column("call_site").str.contains("sdpa_attention").all()
    for name in ("dtype-bounces", "unaligned-products", "tiny-products", "eager-attention"):
        assert rows[name].is_empty()


def test_convolutions_in_nchw_are_laid_out_anew(real_traces: Path) -> None:
    rows = found(kineto(real_traces, DDP))
    assert rows["layout-copies"].get_column("subject").str.contains("(?i)nchw|nhwc").all()
    assert rows["unfused-optimizer"].is_empty()
    assert rows["hidable-communication"].is_empty()


def test_evidence_between_the_dlrm_ranks_fits_their_collectives(real_traces: Path) -> None:
    paths = sorted((real_traces / "pairs" / "dlrm_v100_8rank").glob("kineto_trace_*.json.gz"))
    gathers = {gather for detector in BETWEEN_RANKS for gather in detector.gathers}
    parts = [
        RankParts(
            rank_facts(linked(path)),
            members(linked(path)),
            {gather: gather(linked(path), PROFILER_STEP) for gather in gathers},
        )
        for path in paths
    ]
    ranks = link_ranks(parts)
    for detector in BETWEEN_RANKS:
        rows = detector.detect(ranks)
        assert (rows.get_column("saving_ns") <= rows.get_column("end_ns") - rows.get_column("start_ns")).all()
