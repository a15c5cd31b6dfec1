"""An inference server under load: what is predicted, and what the prediction rests on."""

from __future__ import annotations

from enum import Enum

import polars as pl
from msgspec import Struct

from tracebraid.model import notebook
from tracebraid.model.answers.serving import SERVING_CAPACITY, SERVING_RATES
from tracebraid.model.finding import Finding


class ServingPolicy(Enum):
    """Rule by which a server composes its steps."""

    PREFILL_FIRST = "prefill-first"
    """Continuous batching: waiting prompts are read in a step of their own before others decode on."""
    MIXED = "mixed"
    """Continuous batching: a step reads waiting prompts and decodes all others."""
    STATIC = "static"
    """A batch of what waits runs to its longest output; then the next batch starts."""


class ServingNote(Enum):
    """Assumption of the answer that the trace does not prove."""

    ONE_BATCH = "one_batch"
    """All decode steps have one batch size: others take between the same time and a time in proportion to it."""
    ONE_PROMPT = "one_prompt"
    """All prompt steps have one number of tokens: others take between the same time and a time in proportion."""
    BEYOND_BATCH = "beyond_batch"
    """The maximum batch is larger than any in the trace."""
    CONTEXT_UNKNOWN = "context_unknown"
    """The trace does not state the tokens in the caches: a step does not grow with them."""
    MEAN_OUTPUT = "mean_output"
    """All outputs have the mean length of those in the trace, whose distribution is unknown."""


class StepFit(Struct, frozen=True):
    """Coefficients of a step's time, in ns, and what they rest on.

    Args:
        base_ns: a step that decodes, whatever its batch.
        sequence_ns: of each sequence that decodes.
        cached_token_ns: of each token in the caches of these; 0: unknown.
        prompt_base_ns: a step that reads prompts, whatever their length.
        prompt_token_ns: of each token of a prompt.
        spread: standard deviation of measured over fitted times, of steps that decode.
        steps: steps that were used.
        left_out: steps whose batch the trace does not state.
    """

    base_ns: float
    sequence_ns: float
    cached_token_ns: float
    prompt_base_ns: float
    prompt_token_ns: float
    spread: float
    steps: int
    left_out: int


class Serving(Struct, frozen=True, eq=False):
    """A server under load.

    Args:
        rates: `SERVING_RATES`.
        capacity: `SERVING_CAPACITY`.
        batches: `SERVING_BATCHES`.
        policy: how the server composes its steps.
        prompt_tokens: lengths of prompts, as text.
        output_tokens: lengths of outputs, as text.
        fit: the time of a step, as fitted.
        notes: what the answer rests on.
        findings: the findings.
    """

    rates: pl.DataFrame
    capacity: pl.DataFrame
    batches: pl.DataFrame
    policy: ServingPolicy
    prompt_tokens: str
    output_tokens: str
    fit: StepFit
    notes: tuple[ServingNote, ...] = ()
    findings: tuple[Finding, ...] = ()

    def __repr__(self) -> str:
        """Return a short description."""
        return (
            f"Serving(capacity={self.capacity.get_column('capacity').to_list()}, rates={self.rates.height})"
        )

    def _repr_html_(self) -> str:
        """Return HTML for a notebook."""
        facts = {
            "policy": self.policy.value,
            "prompt tokens": self.prompt_tokens,
            "output tokens": self.output_tokens,
            "steps": self.fit.steps,
            "notes": [note.value for note in self.notes] or None,
        }
        tables = [
            notebook.frame_html("Capacity", self.capacity, SERVING_CAPACITY),
            notebook.frame_html("Rates", self.rates, SERVING_RATES),
        ]
        return notebook.shown("Serving", notebook.facts_html(facts), *tables)
