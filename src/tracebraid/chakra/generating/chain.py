"""Chains of computation and collectives: their text, and their nodes."""

from __future__ import annotations

from tracebraid.chakra.generating.limits import check_nodes, check_ranks
from tracebraid.chakra.generating.program import Program, Work
from tracebraid.errors import ArgumentError
from tracebraid.model.amounts import bytes_of_text, ns_of_text
from tracebraid.model.chakra.codes import CollectiveCommType
from tracebraid.model.chakra.workloads import ChainJob, CollectiveLink, ComputeLink

__all__ = ["SIMULATED", "chain_program", "links_of_text"]

SIMULATED = (
    CollectiveCommType.ALL_REDUCE,
    CollectiveCommType.ALL_GATHER,
    CollectiveCommType.REDUCE_SCATTER,
    CollectiveCommType.ALL_TO_ALL,
    CollectiveCommType.BROADCAST,
)
"""Collectives that ASTRA-sim has; it ends with an exception on any other."""

_COMPUTE = "COMP"
_FORM = "COMP 100us > ALL_REDUCE 1MiB > COMP 50us"


def links_of_text(text: str) -> tuple[ComputeLink | CollectiveLink, ...]:
    """The links of a chain from its text.

    Args:
        text: such as `COMP 100us > ALL_REDUCE 1MiB > BROADCAST 4KiB 10us`.

    Raises:
        ArgumentError: it is not of this form.
    """
    return tuple(_link_of_text(part.strip()) for part in text.split(">"))


def _link_of_text(text: str) -> ComputeLink | CollectiveLink:
    words = text.split()
    if len(words) == 2 and words[0].upper() == _COMPUTE:
        return ComputeLink(ns_of_text(words[1]))
    name = words[0].upper() if words else ""
    if name in CollectiveCommType.__members__ and 2 <= len(words) <= 3:
        took_ns = ns_of_text(words[2]) if len(words) == 3 else 0
        return CollectiveLink(CollectiveCommType[name], bytes_of_text(words[1]), took_ns)
    known = ", ".join(kind.name for kind in SIMULATED)
    raise ArgumentError(
        f"{text!r} is no link of a chain: write COMP and a time, or a collective ({known}), its size and perhaps "
        f"the time that it took, as in {_FORM!r}"
    )


def chain_program(chain: ChainJob) -> Program:
    """What each rank of a chain does.

    Raises:
        ArgumentError: the chain makes no sense.
    """
    _check(chain)
    program = Program()
    after: tuple[int, ...] = ()
    for repeat in range(chain.repeats):
        program.step = str(repeat)
        for position, link in enumerate(chain.links):
            if isinstance(link, ComputeLink):
                name = f"step {repeat}/compute {position}"
                after = (program.compute(name, Work(link.duration_ns), after),)
            else:
                name = f"step {repeat}/{link.type.name.lower()} {position}"
                after = (program.collective(name, link.type, link.size_bytes, None, after),)
                if link.duration_ns:
                    program.measured(after[0], link.duration_ns)
    return program


def _check(chain: ChainJob) -> None:
    if chain.ranks < 2:
        raise ArgumentError(
            f"a chain of {chain.ranks} ranks has nobody to communicate with: give two or more"
        )
    if chain.repeats < 1 or not chain.links:
        raise ArgumentError("a chain needs a link at least, and one repeat at least")
    check_ranks(chain.ranks)
    check_nodes(chain.repeats * len(chain.links))
    for link in chain.links:
        if isinstance(link, ComputeLink):
            if link.duration_ns < 0:
                raise ArgumentError(f"computation of {link.duration_ns:,} ns cannot be: give 0 or more")
        elif link.type not in SIMULATED:
            known = ", ".join(kind.name for kind in SIMULATED)
            raise ArgumentError(
                f"no simulator does {link.type.name} of Chakra's collectives: give one of {known}"
            )
        elif link.size_bytes < 1 or link.duration_ns < 0:
            raise ArgumentError(f"{link.type.name} of {link.size_bytes:,} bytes cannot be: give 1 or more")
