"""Which ops and kernels communicate: one table of rules for all libraries.

A rule names the library, what it matches (the name of the op that launches, or that of the kernel) and what it says.
To support another library, add its rows here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import cache

__all__ = ["RULES", "Collective", "Rule", "Says", "Subject", "rule_of"]


class Subject(Enum):
    """Whose name a rule matches."""

    OP = "an operator on the host"
    RANGE = "an operator or an annotation on the host"
    KERNEL = "a kernel"


class Says(Enum):
    """What a rule says about what it matches."""

    COMMUNICATES = "it communicates"
    MAY_COMMUNICATE = (
        "its name sounds like it, but belongs to no library: the op that launches it has the last word"
    )
    COMPUTES = "it computes, whatever else its name or its op sounds like"
    ASK_KERNEL = "an op that launches kernels of both kinds: their own names decide"


class Collective(Enum):
    """What is communicated."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    SEND_RECV = "send_recv"
    BARRIER = "barrier"


@dataclass(frozen=True)
class Rule:
    """One row of the table.

    Args:
        library: who wrote what it matches.
        subject: whose name it matches.
        pattern: a regular expression, searched for in the name.
        says: what it says.
        collective: what is communicated; None where that differs from call to call (a kernel's arguments and
            names say it), or nothing is.
    """

    library: str
    subject: Subject
    pattern: str
    says: Says
    collective: Collective | None = None


_OP, _RANGE, _KERNEL = Subject.OP, Subject.RANGE, Subject.KERNEL
_YES, _MAYBE, _NO, _ASK = Says.COMMUNICATES, Says.MAY_COMMUNICATE, Says.COMPUTES, Says.ASK_KERNEL
_ALL_REDUCE, _ALL_TO_ALL = Collective.ALL_REDUCE, Collective.ALL_TO_ALL
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
    """The first rule of these subjects that fits a name; None where none does."""
    return next((rule for rule, pattern in _of_subjects(*subjects) if pattern.search(name)), None)
