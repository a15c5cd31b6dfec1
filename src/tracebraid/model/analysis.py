"""Analyses: the declaration that stands above the function of each, and the answers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import Struct, field

from tracebraid.model import notebook
from tracebraid.model.column import Table
from tracebraid.model.finding_code import FindingCode

if TYPE_CHECKING:
    import polars as pl

    from tracebraid.model.linked_ranks import Gather
    from tracebraid.model.linked_trace import LinkedTrace


F = TypeVar("F", bound=Callable[..., Any])

_ATTRIBUTE = "__analysis__"


class Family(Enum):
    """The subject of an analysis, in the order in which families are listed."""

    VALIDITY = "validity"
    TIME = "time"
    KERNELS = "kernels"
    OPS = "ops"
    LAUNCHES = "launches"
    EFFICIENCY = "efficiency"
    MEMORY = "memory"
    INFERENCE = "inference"
    COLLECTIVES = "collectives"
    """Over all ranks."""
    RANKS = "ranks"
    """Ranks of a job, compared with each other."""


class Switch(Enum):
    """Options of torch's profiler that not every version has: in code, and the first versions with and without it."""

    since: str
    until: str

    SYNC_EVENTS = "enable_cuda_sync_events=True", "2.1", ""
    COUNTERS = "profiler_metrics=[...]", "", "2.14"
    """torch 2.14 ignores it, with a warning."""

    def __new__(cls, code: str, since: str, until: str) -> Switch:
        """The member of an option, which is its value."""
        member = object.__new__(cls)
        member._value_ = code
        member.since, member.until = since, until
        return member

    @property
    def advice(self) -> str:
        """How to capture with it, and with which versions."""
        versions = [f"{self.since} or newer"] if self.since else []
        versions += [f"before {self.until}"] if self.until else []
        config = f"experimental_config=torch._C._profiler._ExperimentalConfig({self.value})"
        return f"Capture with torch {' and '.join(versions)}, and {config}"


class Need(Enum):
    """Data that an analysis may need: a code, the sentence where it is missing, and how to capture it."""

    missing: str
    capture: str

    EVENTS = (
        "events",
        "the trace has no events",
        "Capture again while the program runs",
    )
    """Anything at all."""
    HOST_OPS = (
        "host ops",
        "the trace has no host op",
        "Capture with ProfilerActivity.CPU",
    )
    KNOWN_OPS = (
        "known ops",
        "no op of the trace is one of PyTorch's, whose costs and effects are known",
        "Formulas and rules are for those (`aten::mm`), and not for ops of other names",
    )
    DEVICE_WORK = (
        "device work",
        "the trace has no device work",
        "Capture on a machine with an accelerator, with its ProfilerActivity",
    )
    LAUNCHES = (
        "launches",
        "no device work is joined with the call that launched it",
        "Capture with ProfilerActivity.CPU beside that of the device, and keep the argument `correlation`",
    )
    KNOWN_KERNELS = (
        "known kernels",
        "no kernel has a name that says what it computes",
        "Keep the kernels' names as the device's libraries give them",
    )
    KNOWN_CALLS = (
        "known calls",
        "no call of the runtime has a name that says what it does",
        "Keep the names of the runtime's calls (`cudaLaunchKernel`)",
    )
    STEPS = (
        "steps",
        "no annotation marks steps",
        "Call step() of the capture or profiler after each iteration, or name another annotation: --annotation",
    )
    SHAPES = (
        "shapes",
        "no shapes were recorded",
        "Capture with record_shapes=True, as `tracebraid capture` does",
    )
    SHAPES_OF_EITHER = (
        "shapes in either trace",
        "no shapes were recorded",
        "Capture with record_shapes=True, as `tracebraid capture` does, or an Execution Trace beside it",
    )
    """Shapes of ops, in the Kineto trace or the Execution Trace."""
    STACKS = (
        "stacks",
        "no Python frames were recorded",
        "Capture with `tracebraid capture --stacks`, or with_stack=True",
    )
    MODULES = (
        "modules",
        "no calls of nn.Module were recorded",
        "Capture with `tracebraid capture --stacks`, or with_stack=True",
    )
    ANNOTATIONS = (
        "annotations",
        "no annotations were recorded",
        "Mark its parts with torch.profiler.record_function",
    )
    ALLOCATIONS = (
        "allocations, or an execution trace",
        "neither allocations nor an Execution Trace were recorded",
        "Capture with `tracebraid capture --memory`, or profile_memory=True",
    )
    MEMORY = (
        "allocations",
        "no allocations were recorded",
        "Capture with `tracebraid capture --memory`, or profile_memory=True",
    )
    SYNC_EVENTS = (
        "sync events",
        "no synchronisation events of the device were recorded",
        f"{Switch.SYNC_EVENTS.advice}, as `tracebraid capture` does",
    )
    COMMUNICATION = (
        "communication",
        "no communication was recognised in the trace",
        "Capture a program that runs on several ranks",
    )
    """Anything that communicates, on a device or the host."""
    KNOWN_COMMUNICATION = (
        "known communication",
        "no communication was recognised, and kernels that nobody knows may be it",
        FindingCode.COMMUNICATION_UNSEEN.advice,
    )
    COLLECTIVES = (
        "collectives",
        "no collective's kernel carries its group, type and sizes",
        "Capture with a torch that writes them: 2.2 or newer, over NCCL",
    )
    """Arguments of collectives."""
    COUNTERS = (
        "counters",
        "no hardware counters were recorded",
        Switch.COUNTERS.advice,
    )
    GRAPH_LAUNCHES = (
        "graph launches",
        "no launch of a graph was recognised",
        "Capture while CUDA or HIP graphs are replayed",
    )
    EXECUTION_TRACE = (
        "execution trace",
        "the rank has no Execution Trace",
        "Capture with `tracebraid capture`, which records both traces",
    )
    DEVICE_PEAKS = (
        "device peaks",
        "the trace names no device with known peaks",
        "Pass --device NAME, such as 'A100 SXM 80GB', 'H100 SXM' or MI300X (a wrong name lists all); of a CPU or "
        "another device its peaks: --peak-flops and --peak-bandwidth",
    )
    INFERENCE_ITERATIONS = (
        "inference iterations",
        "no iteration of a language model's inference was recognised",
        "Capture a serving engine, which annotates them; or with record_shapes=True; or annotate `prefill`, `decode`",
    )
    """Annotations of a serving engine or by hand (`prefill`, `decode`), or shapes of attention outside training."""
    LOST = (
        "what the trace lost",
        "the program launched work that the trace does not have",
        FindingCode.DEVICE_EVENTS_MISSING.advice,
    )
    """Work that the program launched and the trace does not have: see `Gap.hides`."""
    SEVERAL_RANKS = (
        "several ranks",
        "the traces are of one rank",
        "Give the folder with the traces of all ranks of the job",
    )
    """Traces of more than one rank of a job."""

    def __new__(cls, code: str, missing: str, capture: str) -> Need:
        """The member of a code, which is its value."""
        member = object.__new__(cls)
        member._value_ = code
        member.missing, member.capture = missing, capture
        return member


class Rows(IntEnum):
    """Most rows of an analysis that a page keeps, of all ranks together."""

    TABLE_ROWS = 2_000
    """About 100 KB of the page."""
    LONG_TABLE_ROWS = 500
    """Rows of a table with a row for each event."""
    SERIES_ROWS = 8_000
    """Points of a series: more than any screen has pixels across."""
    JOB_ROWS = 5_000
    """Rows of a table of the whole job."""


class OnPage(Struct, frozen=True):
    """Inclusion of an analysis in a page.

    Args:
        rows: most rows that are kept; None: all.
        by: those with the largest sum of these columns are kept; without columns the first. Of a series the column
            whose extremes are kept.
        is_series: rows are points of series over `ts_ns`.
        of_every_rank: computed for every rank, however many there are.
        section: the section of tables that shows it, such as `tables-ops`; None: a section names it itself.
    """

    rows: Rows | None = None
    by: tuple[str, ...] = ()
    is_series: bool = False
    of_every_rank: bool = False
    section: str | None = None


class Stored(Enum):
    """Condition for computing the answer while a rank is packed."""

    NEVER = "never"
    OF_FEW_EVENTS = "of-few-events"
    """Stored for all traces: a small answer that is slow on large traces."""
    ALWAYS = "always"
    """Stored for all traces: a small answer that takes at most 0.02 s for a trace of 54 MB."""


class Analysis(Struct, frozen=True):
    """An analysis of one rank.

    Args:
        name: its name, that of its function.
        family: its subject.
        answer: the function; takes a linked trace and options by keyword.
        table: the schema of the DataFrame that it returns.
        needs: data without which the answer is empty.
        uses: data without which the answer is incomplete.
        shown: columns shown to people, separated by blanks, in order: the subject of a row, then figures, the most
            important first. A narrow terminal omits the last. A column of zeros is omitted unless `!` follows its name.
        picked_by: where rows are in the order of time or of a tree: those with the largest sum of these columns are
            shown, and not the first; ties are broken by the next sum.
        when_empty: meaning of an answer without rows.
        formula: how the figures are computed.
        on_page: inclusion in pages; None: not included.
        stored: condition for inclusion in stores.
    """

    name: str
    family: Family
    answer: Callable[..., pl.DataFrame]
    table: Table
    needs: tuple[Need, ...] = ()
    uses: tuple[Need, ...] = ()
    shown: str = ""
    picked_by: tuple[str, ...] = ()
    when_empty: str = ""
    formula: str = ""
    on_page: OnPage | None = None
    stored: Stored = Stored.NEVER

    def answer_of(self, linked: LinkedTrace, **options: object) -> pl.DataFrame:
        """Answer for a rank; a store may contain the answer with default options."""
        if self.is_hidden(linked):
            return self.table.empty()
        defaults = inspect.signature(self.answer).parameters
        if any(value != defaults[name].default for name, value in options.items()):
            return self.answer(linked, **options)
        return linked.answered(self.key, self.answer, self.table)

    def is_hidden(self, linked: LinkedTrace) -> bool:
        """Return whether a gap hides what it needs or uses: then it has no answer."""
        return not linked.hidden.isdisjoint((*self.needs, *self.uses))

    @property
    def key(self) -> str:
        """The name under which stores keep the answer with default options."""
        return f"analysis.{self.name}"

    @property
    def question(self) -> str:
        """The question that it answers: the first line of the function's docstring."""
        return (inspect.getdoc(self.answer) or "").partition("\n")[0]

    @property
    def options(self) -> tuple[str, ...]:
        """The names of its options: the function's parameters after the first."""
        return tuple(inspect.signature(self.answer).parameters)[1:]

    @property
    def shown_columns(self) -> tuple[str, ...]:
        """The columns shown to people; all if none are declared."""
        return tuple(self.shown.split()) or tuple(column.name for column in self.table.columns)


class JobAnalysis(Analysis, frozen=True, kw_only=True):
    """An analysis over the ranks of a job.

    Each rank is read once and released; the tables of `gathers` are kept. Then the ranks are linked, and
    `answer` takes the `LinkedRanks` and options by keyword.

    Args:
        gathers: functions of the tables that it needs of each rank, besides members of collectives.
    """

    gathers: tuple[Gather, ...] = ()


def analysis(
    table: Table,
    family: Family,
    *,
    needs: tuple[Need, ...] = (),
    uses: tuple[Need, ...] = (),
    shown: str = "",
    picked_by: tuple[str, ...] = (),
    when_empty: str = "",
    formula: str = "",
    on_page: OnPage | None = None,
    stored: Stored = Stored.NEVER,
) -> Callable[[F], F]:
    """Declare a function as an analysis of one rank; the arguments are those of `Analysis`."""
    given = {name: value for name, value in locals().items() if name not in ("table", "family")}

    def declare(answer: F) -> F:
        @wraps(answer)
        def known(linked: LinkedTrace, *arguments: Any, **options: Any) -> pl.DataFrame:
            if declared.is_hidden(linked):
                return table.empty()
            found: pl.DataFrame = answer(linked, *arguments, **options)
            return found

        declared = Analysis(answer.__name__, family, known, table, **given)
        setattr(known, _ATTRIBUTE, declared)
        return cast(F, known)

    return declare


def job_analysis(
    table: Table,
    family: Family,
    *,
    gathers: tuple[Gather, ...] = (),
    needs: tuple[Need, ...] = (),
    uses: tuple[Need, ...] = (),
    shown: str = "",
    picked_by: tuple[str, ...] = (),
    when_empty: str = "",
    formula: str = "",
    on_page: OnPage | None = None,
) -> Callable[[F], F]:
    """Declare a function as an analysis over the ranks of a job; the arguments are those of `JobAnalysis`."""
    given = {name: value for name, value in locals().items() if name not in ("table", "family")}

    def declare(answer: F) -> F:
        setattr(answer, _ATTRIBUTE, JobAnalysis(answer.__name__, family, answer, table, **given))
        return answer

    return declare


def declaration_of(answer: object) -> Analysis | None:
    """The declaration above a function; None of a function that is no analysis."""
    found: Analysis | None = getattr(answer, _ATTRIBUTE, None)
    return found


class Answer(Struct, frozen=True):
    """Answer of an analysis, with the missing data of the traces.

    Args:
        analysis: the analysis, of a rank or of a whole job.
        frame: the answer, a table of `analysis.table`.
        lacks: unmet members of `analysis.needs` and `analysis.uses` by rank.
        starts: start of each rank's trace in ns; of an answer over all ranks, that of the first.
        is_matched: whether any collective is matched between ranks; True for an analysis of a rank.
    """

    analysis: Analysis
    frame: pl.DataFrame
    lacks: Mapping[int, tuple[Need, ...]]
    starts: Mapping[int, int] = field(default_factory=dict)
    is_matched: bool = True

    @property
    def is_unanswerable(self) -> bool:
        """Return whether no rank meets the needs of the analysis, so that an empty frame means nothing."""
        needed = {Need.LOST, *self.analysis.needs}
        return all(needed.intersection(lacks) for lacks in self.lacks.values())

    @property
    def ranks_by_need(self) -> dict[Need, list[int]]:
        """Return the unmet needs, required before optional, with the affected ranks."""
        return {
            need: ranks
            for need in (Need.LOST, *self.analysis.needs, *self.analysis.uses)
            if (ranks := [rank for rank, lacks in self.lacks.items() if need in lacks])
        }

    def __repr__(self) -> str:
        """Return a short description."""
        lacks = [need.value for need in self.ranks_by_need]
        return (
            f"Answer({self.analysis.name}, rows={self.frame.height}, ranks={len(self.lacks)}, lacks={lacks})"
        )

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: its first rows, and what the traces lack for it."""
        lacks = [_lack_html(need, ranks, len(self.lacks)) for need, ranks in self.ranks_by_need.items()]
        rows = notebook.frame_html(self.analysis.question, self.frame, self.analysis.table)
        return notebook.shown(self.analysis.name, rows, *lacks)


def _lack_html(need: Need, ranks: list[int], total: int) -> str:
    """Format a line about missing data."""
    which = "" if len(ranks) == total else f" on {len(ranks):,} of {total:,} ranks"
    return notebook.note_html(f"the traces lack {need.value}{which}")
