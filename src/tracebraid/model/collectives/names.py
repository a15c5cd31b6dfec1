"""What a collective's name says: which type it is, whose, and which of NCCL's algorithms and protocols it runs.

To support another library, add its words here and its rules to `model.collectives.communication_rules`.
"""

from __future__ import annotations

import re
from functools import cache

from tracebraid.model.collectives.codes import CollectiveType
from tracebraid.model.collectives.communication_rules import Subject, rule_of

__all__ = ["algorithm_of", "library_of", "protocol_of", "type_of"]

_TYPE = CollectiveType

_TYPES: tuple[tuple[str, CollectiveType], ...] = (
    (r"coalesced_?(?:p2p)?$|sendrecv|send_recv|batch_isend", _TYPE.SEND_RECEIVE),
    (r"reduce_?scatter", _TYPE.REDUCE_SCATTER),
    (r"all_?gather|fcollect", _TYPE.ALL_GATHER),
    (
        r"all_?to_?all|alltoallv?|all2all|a2a|deep_ep|\bmori::|ep(?:dispatch|combine)|\bpplx::",
        _TYPE.ALL_TO_ALL,
    ),
    (
        r"all_?reduce|cross_device_reduce|quickreduce|custom_ar|allreduce_prototype|_shot_car_",
        _TYPE.ALL_REDUCE,
    ),
    (r"hybridcubemesh", _TYPE.ALL_REDUCE),
    (r"multimem_(?:one_shot_)?reduce", _TYPE.ALL_REDUCE),
    (r"broadcast|(?:^|[:_])bcast", _TYPE.BROADCAST),
    (r"barrier", _TYPE.BARRIER),
    (r"(?:^|[:_])i?recv(?:_?any_?source)?(?:_|\b)", _TYPE.RECEIVE),
    (r"(?:^|[:_])i?send(?:_|\b)|put_signal", _TYPE.SEND),
    (r"wait_signal", _TYPE.RECEIVE),
    (r"scatter", _TYPE.SCATTER),
    (r"gather", _TYPE.GATHER),
    (r"reduce(?!_?op)", _TYPE.REDUCE),
)
"""The first pattern that is found in the name, in lower case, counts."""

_COALESCED = re.compile(r"(?<=\w)_coalesced_?$")
"""A collective of several tensors at a time is of the type of each of them."""

_LIBRARIES = (("rccl", "RCCL"), ("gloo", "gloo"), ("nccl", "NCCL"), ("mpi", "MPI"), ("ucc", "UCC"))
"""Backends by the prefix of their ranges: `gloo:all_reduce`."""

_ALGORITHM = re.compile(r"_(RING|TREE|COLLNET_DIRECT|COLLNET_CHAIN|COLLNET|NVLS_TREE|NVLS|PAT)(?:_|$|\()")
_PROTOCOL = re.compile(r"_(LL128|LL|SIMPLE)(?:_|$|\()")


@cache
def type_of(name: str) -> str | None:
    """The type (`CollectiveType`) that a collective's, an op's or a kernel's name says; None: none.

    Args:
        name: `allreduce`, `nccl:_all_gather_base`, `c10d::alltoall_base_`, a kernel's name, mangled or not.
    """
    plain = _COALESCED.sub("", name.partition("(")[0]).lower()
    return next((kind.value for pattern, kind in _TYPES if re.search(pattern, plain)), None)


@cache
def library_of(kernel: str) -> str | None:
    """Whose a kernel or a host's range is; None: unknown.

    A range of a backend is of that backend, an op of `c10d` of none.

    Args:
        kernel: its name.
    """
    prefix, colon, rest = kernel.partition(":")
    if colon and not rest.startswith(":"):
        named = next((library for word, library in _LIBRARIES if prefix.lower() == word), None)
        if named is not None:
            return named
    rule = rule_of(kernel, Subject.KERNEL) or rule_of(kernel, Subject.OP)
    return None if rule is None or rule.library in ("any", "unknown") or "c10d" in kernel else rule.library


@cache
def algorithm_of(kernel: str) -> str | None:
    """NCCL's algorithm in a kernel's name (RING, TREE, NVLS, ...); None: it does not say."""
    return _first(_ALGORITHM, kernel)


@cache
def protocol_of(kernel: str) -> str | None:
    """NCCL's protocol in a kernel's name (LL, LL128, SIMPLE); None: it does not say."""
    return _first(_PROTOCOL, kernel)


def _first(pattern: re.Pattern[str], kernel: str) -> str | None:
    found = pattern.search(kernel) if "nccl" in kernel.lower() else None
    return None if found is None else found.group(1)
