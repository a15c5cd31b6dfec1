"""Find the window of the longer trace that matches the shorter one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct, field
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.linking.alignment.op_sequences import OpSequence, codes_of, threads_of
from tracebraid.linking.alignment.sequences import NONE, align
from tracebraid.model.coverage import ChoiceReason
from tracebraid.model.matching import BEST, MEDIAN, ChosenIterations, Matching
from tracebraid.model.schema import ITERATIONS
from tracebraid.model.step import PROFILER_STEP

_Ints = NDArray[np.int64]

ANNOTATIONS = (PROFILER_STEP, "DataLoader", "## LOOP")
"""Default annotations of iterations; the first that a trace has more than once."""


class Iterations(Struct, frozen=True):
    """The iterations of one trace, in order.

    Args:
        marks: the annotation of the iterations.
        names: of each; with `#` and its number where its annotation has one.
        of_row: for each row of the trace its iteration; -1 before the first.
    """

    marks: str
    names: tuple[str, ...]
    of_row: _Ints

    def __len__(self) -> int:
        return len(self.names)


def marked(sequence: OpSequence, annotation: str | None) -> Iterations | None:
    """The iterations that an annotation begins, or the first of `ANNOTATIONS`; None if it is not there."""
    for mark in (annotation,) if annotation is not None else ANNOTATIONS:
        begins = sequence.rows.filter(pl.col("title").str.contains(mark, literal=True)).sort("order")
        # Of annotations inside each other the outer one counts.
        begins = begins.filter(~pl.col("parent").is_in(begins.get_column("id").implode()).fill_null(False))
        if begins.height > (annotation is None):
            names = begins.get_column("title").to_list()
            return _split(sequence, mark, names, begins.get_column("order").to_numpy())
    return None


def recurring(longer: OpSequence, shorter: OpSequence) -> Iterations | None:
    """The iterations of a trace that holds another one several times, found by what recurs; None if it does not.

    Most names recur in it as often as the shorter trace has iterations fit into it. Of the names that the shorter one
    has once, the first to start is the mark; the iteration begins as many ops before it as the shorter trace does.
    """
    counts = _counts(shorter).join(_counts(longer), on="name", suffix="_longer")
    ratios = counts.with_columns(times=pl.col("count_longer") / pl.col("count"))
    times = (
        ratios.group_by("times")
        .agg(pl.col("count").sum())
        .sort("count", "times")
        .get_column("times")
        .to_list()
    )
    if not times or times[-1] < 2 or times[-1] != int(times[-1]):
        return None
    once = ratios.filter((pl.col("count") == 1) & (pl.col("times") == times[-1])).select("name")
    ordered = shorter.rows.sort("order").with_columns(position=pl.int_range(pl.len()).over("thread"))
    first = ordered.join(once, on="name", how="semi", maintain_order="left").head(1)
    if first.is_empty():
        return None
    (name,), (position,) = first.get_column("name"), first.get_column("position")
    placed = longer.rows.sort("thread", "order").with_columns(position=pl.int_range(pl.len()).over("thread"))
    marks = placed.filter(pl.col("name") == name).select("thread", pl.col("position") - position)
    begins = placed.join(marks, on=["thread", "position"], how="semi").sort("order")
    names = [f"iteration {number}" for number in range(begins.height)]
    return _split(longer, f"what recurs {begins.height} times", names, begins.get_column("order").to_numpy())


def numbered(iterations: Iterations, number: int) -> int | None:
    """The index of an iteration by the number of its annotation, else by its index; None if there is none."""
    suffix = f"#{number}"
    for position, name in enumerate(iterations.names):
        if name.endswith(suffix):
            return position
    has_numbers = any(name.rpartition("#")[2].isdigit() for name in iterations.names)
    return number if not has_numbers and 0 <= number < len(iterations) else None


def _counts(sequence: OpSequence) -> pl.DataFrame:
    return sequence.rows.group_by("name").agg(pl.len().cast(pl.Int64).alias("count"))


def _split(sequence: OpSequence, marks: str, names: list[str], begins: _Ints) -> Iterations:
    of_row = np.searchsorted(begins, sequence.rows.get_column("order").to_numpy(), side="right") - 1
    return Iterations(marks, tuple(names), of_row)


_MUCH_LONGER = 1.5
"""Ratio of numbers of ops below which traces have the same content."""
_EQUAL = 1e-9
"""Shares of ops that differ by less are equal: far below one op of any trace, far above rounding."""
_SAME_RUN = 0.5
"""Share of the shorter trace's sequence numbers found in the longer from which both are of one run."""
_NEARLY = 0.01
"""Tolerance in agreement within which iterations count as equal, if the median length is requested."""


class Interval(Struct, frozen=True):
    """Parts of both traces to match.

    Args:
        nodes: the nodes in scope.
        ops: the ops in scope.
        longer: the whole longer trace, and `of_row` the iteration of each of its rows; None if all is in scope.
        chosen: the first iteration of the longer trace that is in scope.
        count: how many iterations are.
        table: the iterations of the longer trace, `model.schema.ITERATIONS`.
        choice: the selection and its reason; None if all is in scope.
    """

    nodes: OpSequence
    ops: OpSequence
    longer: OpSequence | None = None
    of_row: _Ints | None = None
    chosen: int = 0
    count: int = 0
    table: pl.DataFrame = field(default_factory=ITERATIONS.empty)
    choice: ChosenIterations | None = None


def choose_interval(nodes: OpSequence, ops: OpSequence, matching: Matching) -> Interval:
    """The iterations of the longer trace that agree best with the shorter one; all where both are about as long.

    The shorter one's iterations must lie within the longer one's, in a row. Of equally good positions the one with
    the same sequence numbers is taken (it is the same run), else the one with the same numbers in its annotations,
    else the one of median length.
    """
    sizes = nodes.rows.height, ops.rows.height
    ops_are_longer = sizes[1] >= sizes[0]
    shorter, longer = (nodes, ops) if ops_are_longer else (ops, nodes)
    many = marked(longer, matching.annotation)
    if min(sizes) == 0 or not (matching.chooses_iteration or _hold_other_iterations(shorter, longer, many)):
        return Interval(nodes, ops)
    if matching.annotation is not None and many is None:
        raise ArgumentError(f"no op of the longer trace has {matching.annotation!r} in its name")
    few = None if many is None else marked(shorter, many.marks)
    many = many or recurring(longer, shorter)
    if many is None or len(many) < 2:
        return Interval(nodes, ops)
    if few is None or (len(few) == 1 and matching.annotation is None):
        # All of it is one iteration, wherever in it the mark stands.
        name = "the whole" if few is None else few.names[0]
        few = Iterations(many.marks, (name,), np.zeros(shorter.rows.height, dtype=np.int64))
    if len(few) > len(many):
        return Interval(nodes, ops)
    positions = _Positions(shorter, few, longer, many)
    agreement = positions.agreement()
    choice = _choose(positions, agreement, matching)
    chosen = choice.position
    kept = OpSequence(shorter.rows.filter(pl.Series(few.of_row >= 0)))
    within = (many.of_row >= chosen) & (many.of_row < chosen + len(few))
    part = OpSequence(longer.rows.filter(pl.Series(within)))
    return Interval(
        kept if ops_are_longer else part,
        part if ops_are_longer else kept,
        longer,
        many.of_row,
        chosen,
        len(few),
        _table(positions, agreement, chosen, ops_are_longer),
        _described(choice, positions, agreement, ops_are_longer),
    )


def _hold_other_iterations(shorter: OpSequence, longer: OpSequence, many: Iterations | None) -> bool:
    """Return whether one has much more ops than the other, or both have several iterations, and not the same number."""
    if longer.rows.height >= _MUCH_LONGER * shorter.rows.height:
        return True
    few = None if many is None else marked(shorter, many.marks)
    return few is not None and many is not None and 1 < len(few) < len(many)


class _Positions:
    """The shorter trace's iterations, and where in the longer trace they could lie."""

    def __init__(self, shorter: OpSequence, few: Iterations, longer: OpSequence, many: Iterations) -> None:
        self.few, self.many = few, many
        self.shorter, self.longer = shorter.rows, longer.rows
        middle = len(many) // 2
        example = OpSequence(
            self.longer.filter(pl.Series((many.of_row >= middle) & (many.of_row < middle + len(few))))
        )
        codes = codes_of(shorter, longer)
        self._codes = codes[0].names, codes[1].names
        self._threads = threads_of(shorter, example, codes_of(shorter, example))
        self._known: dict[tuple[bytes, bytes], int] = {}

    def __len__(self) -> int:
        return len(self.many) - len(self.few) + 1

    def agreement(self) -> NDArray[np.float64]:
        """For each position the share of the shorter trace's ops that have the same name in the same order there."""
        size = max(int((self.few.of_row >= 0).sum()), 1)
        parts = [self._parts(self.shorter, self.few, self._codes[0], member=0)]
        parts.append(self._parts(self.longer, self.many, self._codes[1], member=1))
        return np.array(
            [
                sum(
                    self._matches(parts[0].get((step, pair), b""), parts[1].get((position + step, pair), b""))
                    for step in range(len(self.few))
                    for pair in range(len(self._threads))
                )
                / size
                for position in range(len(self))
            ]
        )

    def same_numbers(self) -> NDArray[np.float64]:
        """For each position the share of the shorter trace's sequence numbers that its ops have there too."""
        numbers = self.shorter.filter(pl.col("seq").is_not_null()).select("name", "seq").unique()
        found = (
            self.longer.with_columns(pl.Series("iteration", self.many.of_row))
            .filter(pl.col("seq").is_not_null() & (pl.col("iteration") >= 0))
            .select("iteration", "name", "seq")
            .unique()
            .join(numbers, on=["name", "seq"], how="semi")
            .group_by("iteration")
            .len()
        )
        counts = np.zeros(len(self.many))
        counts[found.get_column("iteration").to_numpy()] = found.get_column("len").to_numpy()
        return np.convolve(counts, np.ones(len(self.few)), "valid") / max(numbers.height, 1)

    def lengths(self) -> NDArray[np.float64]:
        """For each position how long it is, in the unit of the longer trace's order."""
        spans = (
            self.longer.with_columns(pl.Series("iteration", self.many.of_row))
            .filter(pl.col("iteration") >= 0)
            .group_by("iteration")
            .agg((pl.col("order").max() - pl.col("order").min()).alias("span"))
        )
        # Of annotations that start at the same time all but the last begin an iteration without ops.
        lengths = np.zeros(len(self.many))
        lengths[spans.get_column("iteration").to_numpy()] = spans.get_column("span").to_numpy()
        return np.convolve(lengths, np.ones(len(self.few)), "valid")

    def _parts(
        self, rows: pl.DataFrame, iterations: Iterations, codes: _Ints, member: int
    ) -> dict[tuple[int, int], bytes]:
        """The codes of each iteration and pair of threads."""
        threads = rows.get_column("thread").to_numpy()
        parts = {}
        for number, pair in enumerate(self._threads):
            in_thread = threads == pair[member]
            iteration, own_codes = iterations.of_row[in_thread], codes[in_thread]
            begins = np.flatnonzero(np.diff(iteration, prepend=-2))
            for begin, part in zip(begins, np.split(own_codes, begins[1:]), strict=True):
                parts[int(iteration[begin]), number] = part.tobytes()
        return parts

    def _matches(self, left: bytes, right: bytes) -> int:
        if (left, right) not in self._known:
            matched = align(np.frombuffer(left, np.int64), np.frombuffer(right, np.int64)).unambiguous
            self._known[left, right] = int((matched != NONE).sum())
        return self._known[left, right]


class _Choice(NamedTuple):
    """The iteration that was chosen, how many others agree as well, and why."""

    position: int
    as_good: int
    reason: ChoiceReason


def _described(
    choice: _Choice, positions: _Positions, agreement: NDArray[np.float64], ops_are_longer: bool
) -> ChosenIterations:
    names = positions.many.names
    return ChosenIterations(
        trace="Kineto Trace" if ops_are_longer else "Execution Trace",
        marks=positions.many.marks,
        iterations=len(positions.many),
        first=names[choice.position],
        last=names[choice.position + len(positions.few) - 1],
        agreement=float(agreement[choice.position]),
        as_good=choice.as_good,
        reason=choice.reason,
    )


def _choose(positions: _Positions, agreement: NDArray[np.float64], matching: Matching) -> _Choice:
    if isinstance(matching.iteration, int):
        asked = numbered(positions.many, matching.iteration)
        if asked is None or asked >= len(positions):
            raise ArgumentError(
                f"there is no iteration {matching.iteration}; there are {len(positions)}, "
                f"{positions.many.names[0]} to {positions.many.names[len(positions) - 1]}"
            )
        return _Choice(asked, 0, ChoiceReason.ASKED_FOR)
    best = np.flatnonzero(
        agreement >= agreement.max() - (_NEARLY if matching.iteration == MEDIAN else _EQUAL)
    )
    others = len(best) - 1
    if matching.iteration == BEST:
        same = positions.same_numbers()[best]
        if len(best) > 1 and same.max() > _SAME_RUN and np.count_nonzero(same == same.max()) == 1:
            return _Choice(int(best[same.argmax()]), others, ChoiceReason.SAME_SEQUENCE_NUMBERS)
        named = [
            position for position in best.tolist() if positions.many.names[position] == positions.few.names[0]
        ]
        if len(best) > 1 and len(named) == 1:
            return _Choice(named[0], others, ChoiceReason.SAME_NUMBER)
    lengths = positions.lengths()[best]
    median = int(best[np.argsort(lengths, kind="stable")[(len(lengths) - 1) // 2]])
    return _Choice(median, others, ChoiceReason.MEDIAN_LENGTH if others else ChoiceReason.BEST)


def _table(
    positions: _Positions, agreement: NDArray[np.float64], chosen: int, is_timed: bool
) -> pl.DataFrame:
    rows = positions.longer.with_columns(pl.Series("iteration", positions.many.of_row)).filter(
        pl.col("iteration") >= 0
    )
    found = rows.group_by("iteration").agg(
        pl.col("order").min().alias("start_ns") if is_timed else pl.lit(None).alias("start_ns"),
        pl.len().cast(pl.Int64).alias("ops"),
    )
    whole = pl.DataFrame({"iteration": range(len(positions.many)), "name": positions.many.names}).join(
        found, on="iteration", how="left"
    )
    within = pl.col("iteration").is_between(chosen, chosen + len(positions.few) - 1)
    agrees = pl.Series(
        "agreement", [*agreement.tolist(), *[None] * (len(positions.few) - 1)], dtype=pl.Float64
    )
    table = whole.sort("iteration").with_columns(agrees, within.alias("is_chosen"))
    return ITERATIONS.conform(table)
