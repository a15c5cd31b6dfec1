"""Verbs of changes, each declared above its function, and changes from text: `scale 0.5 family=gemm`."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from math import inf
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tracebraid.errors import ArgumentError
from tracebraid.model.amounts import BANDWIDTH_UNITS, BYTE_UNITS, NUMBER_AND_UNIT, TIME_UNITS_NS
from tracebraid.model.declared import declared
from tracebraid.model.graph import Change, Ring, Where
from tracebraid.simulation import changes


class Value(Enum):
    """Value of a verb: its name in help, a description with an example, and its units."""

    FACTOR = "FACTOR", "a factor, such as 0.5 or 50%", {"": 1.0, "%": 0.01, "x": 1.0}
    TIME = "TIME", "a duration, such as 10us or 1.5ms", TIME_UNITS_NS
    SIZE = "SIZE", "a size, such as 25MB", BYTE_UNITS
    BANDWIDTH = "BANDWIDTH", "a bandwidth, such as 50GB/s or 100Gbit/s", BANDWIDTH_UNITS
    COUNT = "N", "a count, such as 2", {"": 1.0}
    STREAM = "STREAM", "the number of a stream, such as 7", {"": 1.0}
    SIZES = "FROM->TO", "the size that the traces show and the new one, such as 24->36", {"": 1.0}

    def __init__(self, metavar: str, example: str, units: Mapping[str, float]) -> None:
        self.metavar = metavar
        self.example = example
        self.units = units

    def text(self, number: float) -> str:
        """Write a number in the unit that makes the shortest text; a factor or a count without one."""
        named = {unit: size for unit, size in self.units.items() if unit.isalpha() and unit != "x"}
        return min(
            (f"{number / size:.15g}{unit}" for unit, size in named.items()), key=len, default=f"{number:.15g}"
        )


class On(Enum):
    """Activities that a verb changes, of those that are selected."""

    ALL = "all"
    COMMUNICATION = "communication"
    TRANSFERS = "transfers"
    """Communication, by what its latency and its size cost."""
    SHAPES = "shapes"
    """All that depends on a size of the model or the job; nothing can be selected."""


class Verb(Struct, frozen=True):
    """A kind of change.

    The first line of its function's docstring is its description, the rest states its assumptions.

    Args:
        name: first word of its changes.
        value: value that it takes; None: none.
        apply: takes a graph, the mask of selected activities, the value, and the factor if one is given; returns the
            changed graph. Of a change of shape, the graph, the size before if it takes one, the value, and the network
            if it takes one; returns a `Reshaped`.
        default: its value if none is given; None: it must be given.
        from_zero: whether its value may be 0.
        on: activities that it changes.
        factor: whether it takes `factor=`.
        network: whether it takes `network=`: it changes how many ranks are in a group.
        stages: whether ranks become stages of a pipeline.
        error: standard deviation of gains of such changes around the predicted, as a share of the predicted. Chosen so
            that intervals hold on the development half of `benchmarks/whatif_pairs`; not measured by kind of change.
        unexported: why a job after it cannot be exported to simulators; empty: it can.
    """

    name: str
    value: Value | None
    apply: Callable[..., Any]
    default: float | None
    from_zero: bool
    on: On
    factor: bool
    network: bool
    stages: bool
    error: float
    unexported: str

    @property
    def usage(self) -> str:
        """Its name and what it takes, such as `scale FACTOR`."""
        metavar = "" if self.value is None else self.value.metavar
        parts = (
            self.name,
            metavar if self.default is None else f"[{metavar}]",
            "[factor=F]" if self.factor else "",
            "[network=BANDWIDTH,LATENCY]" if self.network else "",
        )
        return " ".join(filter(None, parts))

    @property
    def takes(self) -> str:
        """Describe its value."""
        return "nothing" if self.value is None else self.value.example

    @property
    def docs(self) -> tuple[str, str]:
        """Its description, and its assumptions on one line."""
        description, _, rest = (inspect.getdoc(self.apply) or "").partition("\n")
        return description, " ".join(rest.split())


def verb(
    name: str,
    value: Value | None = None,
    *,
    default: float | None = None,
    from_zero: bool = False,
    on: On = On.ALL,
    factor: bool = False,
    network: bool = False,
    stages: bool = False,
    error: float = 0.15,
    unexported: str = "",
) -> Callable[[Callable[..., Any]], Verb]:
    """Declare a verb above the function that applies it: see `Verb`."""
    return lambda apply: Verb(
        name, value, apply, default, from_zero, on, factor, network, stages, error, unexported
    )


@cache
def verbs() -> dict[str, Verb]:
    """Return the verbs that modules of this package declare, by name."""
    found = {each.name: each for each in declared(changes, Verb)}
    return dict(sorted(found.items()))


def divides(change: Change) -> bool:
    """Return whether each rank becomes several, in groups that the traces lack: from 1 on."""
    named = verb_named(change.verb)
    return change.before == 1 and (named.network or named.stages)


def checked_together(changes: Sequence[Change]) -> None:
    """Raise if changes exclude each other: stages of a pipeline have no stages."""
    made = [text_of(change) for change in changes if verb_named(change.verb).stages]
    if len(made) > 1:
        raise ArgumentError(f"{made[0]} and {made[1]} both make stages: give one of them")


def verb_named(name: str) -> Verb:
    """Return the verb of a name."""
    if name not in verbs():
        raise ArgumentError(f"there is no change {name}; there are {', '.join(verbs())}")
    return verbs()[name]


_MOST_COUNT = 2**31 - 1
"""Far more than there are streams, ranks or kernels, and few enough for every kind of integer."""

_KEY = re.compile(r"([a-z]+)=(.*)", re.DOTALL)
_KEYS = Where.__struct_fields__


def change_of(text: str) -> Change:
    """A change from its text: a verb, its value, and keys of `Where`."""
    try:
        words = _words(text)
    except ValueError as error:
        raise ArgumentError(f"{text}: {error}") from error
    if not words:
        raise ArgumentError("a change is empty; give a verb, such as scale 0.5 family=gemm")
    named = verb_named(words[0])
    given = [match for match in map(_KEY.fullmatch, words[1:]) if match is not None]
    values = [word for word in words[1:] if _KEY.fullmatch(word) is None]
    keys: dict[str, str] = {}
    for match in given:
        if match[1] in keys:
            raise ArgumentError(f"{text}: {match[1]}= is given twice; give a list: {match[1]}=A,B")
        keys[match[1]] = match[2]
    factor, network = keys.pop("factor", None), keys.pop("network", None)
    unknown = [key for key in keys if key not in _KEYS]
    if unknown:
        raise ArgumentError(f"{text}: there is no key {unknown[0]}; there are {', '.join(_KEYS)}")
    if len(values) > 1 or (values and named.value is None):
        raise ArgumentError(
            f"{text}: {named.name} takes {named.takes}, then keys such as name=...; not {values[-1]}"
        )
    before, value = None, None
    if values and named.value is Value.SIZES:
        before, value = _sizes(text, values[0])
    elif values and named.value is not None:
        value = _number(text, values[0], named.value)
    share = None if factor is None else _number(text, factor, Value.FACTOR)
    links = None if network is None else _network(text, network)
    return checked(Change(named.name, value, Where(**keys), share, before, links))


def text_of(change: Change) -> str:
    """A change as text, in the grammar of `--change`."""
    kind = verb_named(change.verb).value
    value = [] if change.value is None or kind is None else [kind.text(change.value)]
    if value and kind is not None and change.before is not None:
        value = [f"{kind.text(change.before)}->{value[0]}"]
    factor = [] if change.factor is None else [f"factor={change.factor:.15g}"]
    network = [] if change.network is None else [f"network={_network_text(change.network)}"]
    where = [f"{key}={_quoted(value)}" for key, value in change.where.given.items()]
    return " ".join([change.verb, *value, *factor, *network, *where])


def checked(change: Change) -> Change:
    """Return the change, with the default value if it has none."""
    named = verb_named(change.verb)
    value = named.default if change.value is None else change.value
    if (value is None) != (named.value is None) or (change.before is None) != (
        named.value is not Value.SIZES
    ):
        raise ArgumentError(f"{named.name} takes {named.takes}")
    if named.on is On.SHAPES and change.where.given:
        raise ArgumentError(
            f"{named.name} concerns the whole job: it takes no key such as {next(iter(change.where.given))}="
        )
    if change.factor is not None and not named.factor:
        others = ", ".join(each.name for each in verbs().values() if each.factor)
        raise ArgumentError(f"{named.name} does not accept factor=; these do: {others}")
    if change.network is not None and not named.network:
        others = ", ".join(each.name for each in verbs().values() if each.network)
        raise ArgumentError(f"{named.name} does not accept network=; these do: {others}")
    for number in (value, change.factor, change.before):
        low_enough = named.from_zero or number is change.factor
        if number is not None and not (0 < number < float("inf") or (number == 0 and low_enough)):
            raise ArgumentError(f"{text_of(change)}: {number:g} is invalid; {named.name} takes {named.takes}")
    counts = (value, change.before) if named.value in (Value.COUNT, Value.STREAM, Value.SIZES) else ()
    if not all(number is None or _is_count(number) for number in counts):
        raise ArgumentError(f"{text_of(change)}: {named.name} takes whole numbers up to {_MOST_COUNT:,}")
    links = change.network
    if links is not None and not (0 <= links.latency_ns < inf and 0 < links.bytes_per_s < inf):
        raise ArgumentError(f"{text_of(change)}: a network needs a bandwidth above 0, and a latency")
    return replace(change, value=value)


def _is_count(value: float) -> bool:
    return value <= _MOST_COUNT and value == int(value)


def _sizes(text: str, word: str) -> tuple[float, float]:
    before, arrow, after = word.partition("->")
    if not arrow:
        raise ArgumentError(f"{text}: {word} is not {Value.SIZES.example}")
    return _number(text, before, Value.SIZES), _number(text, after, Value.SIZES)


def _network(text: str, word: str) -> Ring:
    bandwidth, _, latency = word.partition(",")
    if not latency:
        raise ArgumentError(f"{text}: network={word} is not a bandwidth and a latency, such as 50GB/s,5us")
    return Ring(_number(text, bandwidth, Value.BANDWIDTH), _number(text, latency, Value.TIME))


def _network_text(network: Ring) -> str:
    return f"{Value.SIZE.text(network.bytes_per_s)}/s,{Value.TIME.text(network.latency_ns)}"


def _words(text: str) -> list[str]:
    """The words of a text; quotes hold those with blanks together, backslashes belong to regular expressions."""
    reader = shlex.shlex(text, posix=True)
    reader.whitespace_split, reader.escape, reader.commenters = True, "", ""
    return list(reader)


def _quoted(value: str) -> str:
    if not any(letter.isspace() or letter in "'\"" for letter in value):
        return value
    return f'"{value}"' if "'" in value else f"'{value}'"


def _number(text: str, word: str, takes: Value) -> float:
    match = NUMBER_AND_UNIT.fullmatch(word)
    if match is None or match[2] not in takes.units:
        raise ArgumentError(f"{text}: {word} is not {takes.example}")
    return float(match[1]) * takes.units[match[2]]
