"""Any transformer that can be divided: no rank waits in a circle, members agree, sends match receives."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.chakra.generating.synthetic import DEVICE, bytes_by, checked
from tracebraid.model.chakra.workloads import (
    MessageJob,
    MessagePattern,
    Parallelism,
    TrainingSteps,
    Transformer,
    TransformerJob,
)

MOST_RANKS = 16


@st.composite
def transformer_jobs(draw: st.DrawFn) -> TransformerJob:
    experts = draw(st.sampled_from([0, 4]))
    degrees = draw(
        st.tuples(
            st.integers(1, 4),
            st.sampled_from([1, 2, 4]),
            st.sampled_from([1, 2, 3, 6]),
            st.sampled_from([1, 2, 4]) if experts else st.just(1),
        ).filter(lambda each: 2 <= each[0] * each[1] * each[2] * each[3] <= MOST_RANKS)
    )
    training = TrainingSteps(
        sequence=draw(st.integers(1, 64)),
        sequences=draw(st.integers(1, 3)),
        micro_batches=draw(st.integers(1, 5)),
        steps=draw(st.integers(1, 2)),
        recompute=draw(st.booleans()),
        bucket_bytes=draw(st.integers(1, 2**22)),
    )
    model = Transformer(
        6, hidden=64, heads=8, vocab=128, ffn=draw(st.sampled_from([None, 96])), experts=experts
    )
    return TransformerJob(model, training, DEVICE, Parallelism(*degrees, fully_sharded=draw(st.booleans())))


@settings(max_examples=40, deadline=None)
@given(transformer_jobs())
def test_no_transformer_can_hang(job: TransformerJob) -> None:
    ranks = checked(job)
    of_stage = job.ranks // job.parallelism.pipeline
    for rank in ranks:
        assert bytes_by(rank) == bytes_by(ranks[rank.rank // of_stage * of_stage])
    operations = sum(rank.nodes.get_column("num_ops").sum() for rank in ranks)
    assert operations > 0


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(MessagePattern), st.integers(2, 20), st.integers(20, 1000), st.integers(1, 3))
def test_no_messages_can_hang(pattern: MessagePattern, ranks: int, size_bytes: int, repeats: int) -> None:
    checked(MessageJob(pattern, ranks, size_bytes, repeats))
