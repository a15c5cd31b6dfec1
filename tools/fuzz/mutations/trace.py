"""All changes of what the traces of a job say."""

from __future__ import annotations

from tools.fuzz.model import Mutation
from tools.fuzz.mutations.trace_args import ARGS
from tools.fuzz.mutations.trace_files import in_one_et, in_one_trace
from tools.fuzz.mutations.trace_ids import IDS
from tools.fuzz.mutations.trace_nodes import NODES
from tools.fuzz.mutations.trace_ranks import FILES, RANKS
from tools.fuzz.mutations.trace_steps import STEPS
from tools.fuzz.mutations.trace_times import TIMES

__all__ = ["TRACE_MUTATIONS"]

TRACE_MUTATIONS: tuple[Mutation, ...] = (
    *(in_one_trace(change) for change in (*TIMES, *IDS, *ARGS, *RANKS, *STEPS)),
    *(in_one_et(change) for change in NODES),
    *FILES,
)
