"""Collectives: their types, names and rules, and how they are matched and their transfer is known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from math import prod

import msgspec
import polars as pl
from msgspec import Struct


class CollectiveType(str, Enum):
    """Type of communication."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    GATHER = "gather"
    SCATTER = "scatter"
    BARRIER = "barrier"
    SEND = "send"
    RECEIVE = "recv"
    SEND_RECEIVE = "send_recv"
    """Sends and receives in a single kernel."""


BETWEEN_TWO = (CollectiveType.SEND, CollectiveType.RECEIVE, CollectiveType.SEND_RECEIVE)
"""Types that do not involve all ranks of a group."""


class MatchMethod(str, Enum):
    """Method by which the members of a collective were matched, most certain first."""

    COMMUNICATOR_SEQUENCE = "communicator and sequence"
    GROUP_SEQUENCE = "process group and sequence"
    GROUP_ORDER = "process group and order"
    """Type and size agree all along the order."""
    ALIGNED_ORDER = "process group and aligned order"
    """Windows differ, or members are missing: order, type and size were aligned."""
    TIME = "time"
    """Several orders fit; the times decide."""


class GroupEvidence(str, Enum):
    """Evidence of a collective's process group, best first."""

    PROCESS_GROUP = "process group"
    """The recorder read the process group that the op was given."""
    GROUP_NAME = "group name"
    """The arguments of the functional op name it."""
    ARGUMENTS = "arguments"
    """The arguments of `record_param_comms`, or of the kernel."""
    ONLY_GROUP = "only group"
    """The trace lists no other."""
    CONFLICT = "conflict"
    """Evidence disagrees: the group is left unknown."""


class ClockMethod(str, Enum):
    """Method by which the offset of a rank's clock is known."""

    REFERENCE = "reference"
    """All others are compared with it."""
    SAME_HOST = "same host"
    """It shares the host of the reference, or of a rank with known offset."""
    COLLECTIVES = "collectives"
    """From the ends of matched collectives."""
    UNKNOWN = "unknown"
    """Nothing allows an estimate; its times are used as they are."""


SAME_CLOCK_NS = 100_000
"""Maximum apparent offset of ranks with one clock: events are recorded before and after the exchange, and a device's
times are
converted to its host's clock."""

UNKNOWN_GROUP = "unknown"
"""Name of an unknown group."""

USUAL_DRIFT_PPM = 100.0
"""Maximum unmeasured drift: the tolerance of an oscillator."""


GROUP_OF_RANK = "{} of rank {}"
"""Name of a group of the ranks that a traced one becomes, by what makes it several."""


class Division(Struct, frozen=True):
    """A change by which each rank of a job becomes several, which communicate in a group of their own.

    Args:
        name: of the groups.
        ranks: how many each becomes.
        is_inner: whether these are next to each other; else all ranks are there once more behind the others.
        are_stages: whether they are stages of a pipeline, in order.
    """

    name: str
    ranks: int
    is_inner: bool = False
    are_stages: bool = False

    def group_of(self, rank: int) -> str:
        """The group of those that a traced rank becomes."""
        return GROUP_OF_RANK.format(self.name, rank)


def ranks_of(divisions: Iterable[Division]) -> int:
    """How many ranks each becomes by all of them."""
    return prod(division.ranks for division in divisions)


class Subject(Enum):
    """Subject of a rule."""

    OP = "op"
    """An operator on the host."""
    RANGE = "range"
    """An operator or an annotation on the host."""
    KERNEL = "kernel"
    """A kernel."""


class Says(Enum):
    """Conclusion of a rule."""

    COMMUNICATES = "communicates"
    MAY_COMMUNICATE = "may-communicate"
    """The name suggests communication, but belongs to no library: the launching op decides."""
    COMPUTES = "computes"
    """It computes, even if its name or op suggests otherwise."""
    ASK_KERNEL = "ask-kernel"
    """The op launches kernels of both kinds: their own names decide."""


class Collective(Enum):
    """Type of communication."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    SEND_RECV = "send_recv"
    BARRIER = "barrier"


class Rule(Struct, frozen=True):
    """One row of the table.

    Args:
        library: who wrote what it matches.
        subject: whose name it matches.
        pattern: a regular expression, searched for in the name.
        says: what it says.
        collective: what is communicated; None if that differs from call to call (a kernel's arguments and
            names say it), or nothing is.
    """

    library: str
    subject: Subject
    pattern: str
    says: Says
    collective: Collective | None = None


_OP = Subject.OP
_RANGE = Subject.RANGE
_KERNEL = Subject.KERNEL
_YES = Says.COMMUNICATES
_MAYBE = Says.MAY_COMMUNICATE
_NO = Says.COMPUTES
_ASK = Says.ASK_KERNEL
_ALL_REDUCE = Collective.ALL_REDUCE
_ALL_TO_ALL = Collective.ALL_TO_ALL
_GEMM = r"(?i:gemm|matmul|(?:^|_)mm(?:_|$)|nvjet|cutlass|cublas)"
_FUNCTION = r"^(?:[^<(]|<unnamed>|\(anonymous namespace\))*"
"""A kernel's name up to its template arguments and parameters, which may name anything."""
_COLLECTIVE = r"(?i:all_?reduce|all_?gather|reduce_?scatter|all_?to_?all)"

RULES: tuple[Rule, ...] = (
    # Ops. An op of ATen launches no communication itself; what it launches inside a collective is a copy.
    Rule("PyTorch", _OP, r"^aten::", _NO),
    Rule("PyTorch", _OP, r"^symm_mem::_?(?:fused_|async_input_mm)", _ASK),
    Rule("any", _OP, rf"^\w+::\w*{_GEMM}\w*", _ASK),
    Rule("PyTorch", _OP, r"^record_param_comms$", _YES),
    Rule("PyTorch", _OP, r"^_?c10d(?:_functional)?(?:_autograd)?::", _YES),
    Rule("PyTorch", _OP, r"^symm_mem::", _YES),
    Rule("PyTorch", _OP, r"^_dtensor::shard_dim_alltoall$", _YES, _ALL_TO_ALL),
    Rule("PyTorch", _RANGE, r"^(?:nccl|gloo|mpi|ucc|xccl|hccl|cncl|rccl):(?!:)", _YES),
    Rule("vLLM", _OP, r"^_C_custom_ar::", _YES, _ALL_REDUCE),
    Rule("vLLM", _OP, rf"^vllm::\w*{_COLLECTIVE}", _YES),
    Rule("SGLang", _OP, rf"^(?:sglang|sgl_kernel)::\w*(?:{_COLLECTIVE}|mscclpp)", _YES),
    Rule("FlashInfer", _OP, rf"^flashinfer::\w*(?:{_COLLECTIVE}|moe_a2a)", _YES),
    Rule("TensorRT-LLM", _OP, rf"^(?:trtllm|tensorrt_llm)::\w*(?:{_COLLECTIVE}|moe_a2a)", _YES),
    Rule("AITER", _OP, rf"^aiter::\w*{_COLLECTIVE}", _YES),
    Rule("FBGEMM", _OP, r"^fbgemm::(?:nccl_|(?:one|two)_shot_car_|car_)", _YES),
    Rule("DeepEP", _OP, r"^deep_ep::\w*(?:dispatch|combine)", _YES, _ALL_TO_ALL),
    # Kernels that only compute, although they run inside a collective's op, or bear its name.
    Rule("PyTorch", _KERNEL, r"^(?:void )?at(?:_cuda)?::|CatArrayBatchedCopy|^_ZN2at", _NO),
    Rule("PyTorch", _KERNEL, r"^triton_(?:poi|red|per|for|tem|mm|unk|helion)\w*_fused", _NO),
    Rule("DeepEP", _KERNEL, r"get_dispatch_layout", _NO),
    Rule("TensorRT-LLM", _KERNEL, r"lamport_?[iI]nitialize", _NO),
    Rule("any", _KERNEL, rf"{_FUNCTION}{_GEMM}", _NO),
    # Kernels by the names that libraries give them, mangled or not.
    Rule("RCCL", _KERNEL, r"(?i:\brccl)|mscclKernel|mscclpp", _YES),
    Rule("NCCL", _KERNEL, r"nccl(?:Sym)?(?:Dev)?Kernel|ncclSymk|ncclDevFunc", _YES),
    Rule("NCCL", _KERNEL, rf"{_FUNCTION}\bnccl(?:[A-Z_]|::)", _YES),
    Rule("oneCCL", _KERNEL, r"(?i:oneccl)|\bccl(?:::|_)", _YES),
    Rule("HCCL", _KERNEL, r"\bhcom(?:_|Aicpu)|(?i:\bhccl)|(?i:all\w{1,20}AicpuKernel)", _YES),
    Rule("NVSHMEM", _KERNEL, r"(?i:nvshmem)", _YES),
    Rule(
        "NVSHMEM",
        _KERNEL,
        r"(?:barrier|sync|alltoall|broadcast|fcollect|reduce)\w{0,30}_on_stream_kernel",
        _YES,
    ),
    Rule("rocSHMEM", _KERNEL, r"(?i:rocshmem)", _YES),
    Rule("vLLM", _KERNEL, r"cross_device_reduce_", _YES, _ALL_REDUCE),
    Rule("vLLM", _KERNEL, r"quickreduce|allreduce_prototype", _YES, _ALL_REDUCE),
    Rule("AITER", _KERNEL, r"reduce_scatter_cross_device", _YES),
    Rule("FlashInfer", _KERNEL, r"trtllm_allreduce|allreduce_fusion_kernel", _YES, _ALL_REDUCE),
    Rule("FlashInfer", _KERNEL, r"trtllm_mnnvl_allreduce|(?i:(?:one|two)shot_?allreduce)", _YES, _ALL_REDUCE),
    Rule("TensorRT-LLM", _KERNEL, r"lamport_style_\w{0,30}all_reduce", _YES, _ALL_REDUCE),
    Rule("TensorRT-LLM", _KERNEL, r"(?i:moe_?a2a|moe_?all_?to_?all)", _YES, _ALL_TO_ALL),
    Rule("Userbuffers", _KERNEL, r"userbuffers_", _YES),
    Rule("DeepEP", _KERNEL, r"deep_ep::|^_ZN7deep_ep", _YES, _ALL_TO_ALL),
    # UCCL's, Hybrid-EP and their like: expert parallelism by nodes, in a namespace of its own.
    Rule("expert parallelism", _KERNEL, r"ep::(?:inter|intra)_?node", _YES, _ALL_TO_ALL),
    Rule("expert parallelism", _KERNEL, r"\bhybrid_ep::\w{0,40}(?:dispatch|combine)", _YES, _ALL_TO_ALL),
    Rule("MORI", _KERNEL, r"\bmori::|Ep(?:Dispatch|Combine)\w{0,40}Kernel", _YES, _ALL_TO_ALL),
    Rule("pplx", _KERNEL, r"\bpplx::", _YES, _ALL_TO_ALL),
    Rule("PyTorch", _KERNEL, r"(?:one|two)_shot_all_reduce|hybridCubeMeshAllReduce", _YES, _ALL_REDUCE),
    Rule("PyTorch", _KERNEL, r"multimem_(?:one_shot_)?(?:all_)?reduce", _YES, _ALL_REDUCE),
    Rule("PyTorch", _KERNEL, r"multimem_all_gather", _YES, Collective.ALL_GATHER),
    Rule("PyTorch", _KERNEL, r"(?:put|wait)_signal_kernel", _YES, Collective.SEND_RECV),
    Rule("PyTorch", _KERNEL, r"(?:^|::|\s)barrier_kernel\b", _YES, Collective.BARRIER),
    # A collective's word in the name of a function of nobody's library.
    Rule("unknown", _KERNEL, rf"{_FUNCTION}(?:^|[\s:_]){_COLLECTIVE}", _MAYBE),
)
"""The first rule that fits counts."""


@cache
def _of_subjects(*subjects: Subject) -> tuple[tuple[Rule, re.Pattern[str]], ...]:
    return tuple((rule, re.compile(rule.pattern)) for rule in RULES if rule.subject in subjects)


def rule_of(name: str, *subjects: Subject) -> Rule | None:
    """The first rule of these subjects that fits a name; None if none does."""
    return next((rule for rule, pattern in _of_subjects(*subjects) if pattern.search(name)), None)


def text_of_ranks(ranks: Sequence[int] | None) -> str | None:
    """`group_ranks` of `MEMBERS`; None: unknown."""
    return None if ranks is None else msgspec.json.encode(ranks).decode()


def ranks_in_text(text: str | None) -> tuple[int, ...]:
    """The ranks of a group, in the order of the group; none if they are unknown."""
    return () if text is None else msgspec.json.decode(text, type=tuple[int, ...])


COALESCED = "coalesced"
"""Name of several sends and receives that one kernel carries out."""

_PEERS = pl.List(pl.Struct({"type": pl.String(), "peer": pl.Int64(), "size_bytes": pl.Int64()}))


def text_of_peers(peers: Sequence[Mapping[str, object]] | None) -> str | None:
    """`peers` of `MEMBERS`; None: a single send or receive, or unknown ones."""
    return None if not peers else msgspec.json.encode(peers).decode()


def peers_listed() -> pl.Expr:
    """`peers` as a list of structs: type, peer (a global rank; null: unknown) and size_bytes (null: unknown)."""
    return pl.col("peers").cast(pl.String).str.json_decode(_PEERS).alias("peers")


def has_peer(kind: CollectiveType) -> pl.Expr:
    """Return whether there is a send, or a receive, among `peers`; false where there are none."""
    listed = peers_listed().list.eval(pl.element().struct.field("type") == kind.value)
    return listed.list.any().fill_null(value=False)


def ranks_listed(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows, whose `group_ranks` are lists; each text is decoded once."""
    texts = frame.select("group_ranks").unique()
    lists = texts.with_columns(
        pl.col("group_ranks").cast(pl.String).str.json_decode(pl.List(pl.Int64)).alias("_listed")
    )
    joined = frame.join(lists, on="group_ranks", how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(pl.col("_listed").alias("group_ranks")).drop("_listed")


HOST = "cpu"
"""The device of members on the host."""
PAIRED = (CollectiveType.SEND.value, CollectiveType.RECEIVE.value)
"""Types of which a member meets one of another rank."""


def is_between_two() -> pl.Expr:
    """Return whether a member is a send or a receive."""
    return pl.col("type").is_in(PAIRED).fill_null(value=False)


def is_pair_on_host() -> pl.Expr:
    """Return whether a member is a send or a receive of a backend of the host, which buffers."""
    return is_between_two() & (pl.col("device") == HOST).fill_null(value=False)


_TYPE = CollectiveType

_TYPES: tuple[tuple[str, CollectiveType], ...] = (
    (r"coalesced_?(?:p2p)?$|sendrecv|send_recv|batch_isend", _TYPE.SEND_RECEIVE),
    (r"reduce_?scatter", _TYPE.REDUCE_SCATTER),
    (r"all_?gather|fcollect", _TYPE.ALL_GATHER),
    (
        r"all_?to_?all|alltoallv?|all2all|a2a|deep_ep|ep::(?:inter|intra)_?node|\bhybrid_ep::|\bmori::|ep(?:dispatch|combine)|\bpplx::",
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

BACKEND_RANGE = r"^\w+:[^:]"
"""Names that backends give to the range in which they communicate: `gloo:all_reduce`; ops have `::`."""

_ALGORITHM = re.compile(r"_(RING|TREE|COLLNET_DIRECT|COLLNET_CHAIN|COLLNET|NVLS_TREE|NVLS|PAT)(?:_|$|\()")
_PROTOCOL = re.compile(r"_(LL128|LL|SIMPLE)(?:_|$|\()")


@cache
def type_of(name: str) -> str | None:
    """The type (`CollectiveType`) that a collective's, an op's or a kernel's name says; None: none."""
    plain = _COALESCED.sub("", name.partition("(")[0]).lower()
    return next((kind.value for pattern, kind in _TYPES if re.search(pattern, plain)), None)


@cache
def library_of(kernel: str) -> str | None:
    """Return the library of a kernel or host range; None: unknown.

    A range of a backend is of that backend, an op of `c10d` of none.
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


class TransferMethod(str, Enum):
    """Method of separating transfer from waiting in a collective, best first."""

    LAST_ARRIVAL = "last arrival"
    """From the last arrival on: the clocks of the members are sufficiently accurate."""
    SHORTEST_MEMBER = "shortest member"
    """The smallest duration of a member: clocks are unknown, too inaccurate, or contradict the order."""
    DURATION = "duration"
    """The whole duration, an upper bound: no other member is known."""
