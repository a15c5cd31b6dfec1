"""Classify kernels into families: GEMM, attention, elementwise, ...

The kind of a device event decides first (`model.device_kind`: communication, copies and fills, waits), then the op that
launched the kernel, then the kernel's own name. The tables of rules are `model.kernel_family_rules`.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import cache

import polars as pl
from msgspec import Struct

from tracebraid.model.category import Role, categories_of
from tracebraid.model.device_peaks import COMMUNICATION, MEMORY, WAIT


class KernelFamily(Enum):
    """Family of a kernel's work; the value is its code in tables."""

    GEMM = "gemm"
    ATTENTION = "attention"
    CONVOLUTION = "convolution"
    NORMALISATION = "normalisation"
    SOFTMAX = "softmax"
    EMBEDDING = "embedding"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    INDEX = "index"
    SORT = "sort"
    POOLING = "pooling"
    LOSS = "loss"
    OPTIMIZER = "optimizer"
    QUANTISATION = "quantisation"
    MOE = "moe"
    RANDOM = "random"
    FFT = "fft"
    LINEAR_ALGEBRA = "linear algebra"
    TRITON = "triton"
    COPY = "copy"
    FILL = "fill"
    COMMUNICATION = "communication"
    WAIT = "wait"
    OTHER = "other"


class FamilyBasis(Enum):
    """Basis of a kernel's family."""

    KIND = "kind"
    OP = "op"
    NAME = "name"


class RuleSubject(Enum):
    """Subject of a rule."""

    OP = "op"
    """The launching operator."""
    KERNEL = "kernel"
    """The kernel's whole name."""
    FUNCTION = "function"
    """The kernel's name up to its template arguments and parameters."""


class FamilyRule(Struct, frozen=True):
    """One row of the table.

    Args:
        library: who wrote what it matches.
        subject: what it matches.
        pattern: a regular expression, searched for in the name.
        family: the family; None: the op launches kernels of several, their own names decide.
    """

    library: str
    subject: RuleSubject
    pattern: str
    family: KernelFamily | None


_OP = RuleSubject.OP
_KERNEL = RuleSubject.KERNEL
_FUNCTION = RuleSubject.FUNCTION
_F = KernelFamily
_ATTENTION = r"(?i:attention|attn|fmha|(?<![A-Za-z0-9])(?:f?mha|mla|sdpa)(?:_|$))"
_NORM = r"(?i:(?:rms|layer|batch|group|instance|l2)_?norm|add_?norm)"
_GEMM = r"(?i:gemm|gemv|matmul|(?<![A-Za-z0-9])b?mm(?:_|\d|$))"
_ROPE = r"(?i:rotary|(?<![A-Za-z0-9])m?rope(?:_|$))"
_ACTIVATION = r"(?i:silu|gelu|swiglu|geglu|relu|act_and_mul|activation)"
_CACHE = r"(?i:reshape_and_cache|store_?kv|kv_?cache|concat_and_cache|swap_blocks|copy_blocks)"

_BY_OP: tuple[FamilyRule, ...] = (
    # PyTorch: ops whose kernels are of one family. What is in no row (aten::add, aten::mul, ...) leaves it to names.
    FamilyRule("Inductor", _OP, r"^triton_", None),
    FamilyRule("PyTorch", _OP, r"^aten::_(?:cudnn_rnn|miopen_rnn|thnn_fused_(?:lstm|gru))", None),
    FamilyRule(
        "PyTorch",
        _OP,
        r"^aten::_?(?:scaled_dot_product|flash_attention|efficient_attention|cudnn_attention|fused_sdp|native_multi_head"
        r"|transform_bias_rescale_qkv)",
        _F.ATTENTION,
    ),
    FamilyRule(
        "PyTorch",
        _OP,
        r"^aten::\w*(?:conv(?:olution|_depthwise|_transpose|\d)|im2col|col2im)",
        _F.CONVOLUTION,
    ),
    FamilyRule("PyTorch", _OP, r"^aten::\w*(?:batch|layer|group|instance|rms)_norm", _F.NORMALISATION),
    FamilyRule("PyTorch", _OP, r"^aten::\w*softmax", _F.SOFTMAX),
    FamilyRule(
        "PyTorch",
        _OP,
        r"^aten::_?(?:mm|bmm|addmm|addbmm|baddbmm|matmul|linear|mv|addmv|dot|vdot|inner|addr|einsum|bilinear|trilinear"
        r"|int_mm|scaled_mm|grouped_mm|scaled_grouped_mm|addmm_activation|sparse_\w*mm|cslt_sparse_mm|weight_int\dpack_mm"
        r"|sparse_semi_structured_\w+|linear_backward|chain_matmul)(?:_|\.|$)",
        _F.GEMM,
    ),
    FamilyRule(
        "PyTorch",
        _OP,
        r"^aten::_?embedding",
        _F.EMBEDDING,
    ),
    FamilyRule("PyTorch", _OP, r"^aten::_fused_(?:adam|adamw|sgd|adagrad)", _F.OPTIMIZER),
    FamilyRule(
        "PyTorch", _OP, r"^aten::\w*(?:max|avg|average|lp)_?pool|^aten::_?(?:upsample|grid_sampl)", _F.POOLING
    ),
    FamilyRule(
        "PyTorch",
        _OP,
        r"^aten::\w*(?:_loss(?:_|\d|$)|cross_entropy|kl_div)",
        _F.LOSS,
    ),
    FamilyRule(
        "PyTorch",
        _OP,
        r"^aten::_?(?:uniform|normal|bernoulli|rand\w*|exponential|geometric|cauchy|log_normal|multinomial|poisson"
        r"|standard_gamma|native_dropout\w*|fused_dropout|dropout|masked_scale)(?:_|\.|$)",
        _F.RANDOM,
    ),
    FamilyRule(
        "PyTorch",
        _OP,
        r"^aten::_?(?:sort|argsort|msort|topk|kthvalue|median|nanmedian|mode|unique\w*|cumsum|cumprod|cummax\w*|cummin\w*"
        r"|logcumsumexp|searchsorted|bucketize|histc|bincount)(?:_|\.|$)",
        _F.SORT,
    ),
    FamilyRule(
        "PyTorch",
        _OP,
        r"^aten::_?(?:index\w*|unsafe_index\w*|gather\w*|scatter\w*|take\w*|put|masked_(?:select|scatter)\w*|nonzero\w*"
        r"|repeat_interleave|segment_reduce)(?:_|\.|$)",
        _F.INDEX,
    ),
    FamilyRule(
        "PyTorch",
        _OP,
        r"^aten::_?(?:copy|to_copy|to|contiguous|clone|cat|stack|copy_from\w*|foreach_copy|repeat|constant_pad_nd|pad\w*"
        r"|reflection_pad\w*|replication_pad\w*|roll|flip|tril|triu|resize|pin_memory|local_scalar_dense|item|unfold\w*"
        r"|split_with_sizes_copy|chunk_cat|nested_from_padded\w*|nested_tensor_from\w*|to_padded_tensor)(?:_|\.|$)",
        _F.COPY,
    ),
    FamilyRule(
        "PyTorch",
        _OP,
        r"^aten::_?(?:fill|zero|zeros\w*|ones\w*|full\w*|foreach_zero|arange|range|linspace|logspace|eye)(?:_|\.|$)",
        _F.FILL,
    ),
    FamilyRule(
        "PyTorch",
        _OP,
        r"^aten::_?(?:sum|mean|var|std|var_mean|std_mean|prod|amax|amin|aminmax|argmax|argmin|all|any|norm|nansum|nanmean"
        r"|logsumexp|count_nonzero|linalg_vector_norm|foreach_norm|foreach_max|is_all_true|is_any_true)(?:_|\.|$)",
        _F.REDUCTION,
    ),
    FamilyRule(
        "PyTorch",
        _OP,
        r"^aten::_?(?:linalg_|cholesky|inverse|triangular_solve|lu_|ormqr|geqrf)",
        _F.LINEAR_ALGEBRA,
    ),
    FamilyRule("PyTorch", _OP, r"^aten::_?fft_", _F.FFT),
    FamilyRule("PyTorch", _OP, r"^aten::_foreach_", _F.ELEMENTWISE),
    FamilyRule("PyTorch", _OP, r"^aten::", None),
    FamilyRule("PyTorch", _OP, r"^fsdp::(?:all_gather_copy_in|split_with_sizes_copy|chunk_cat)", _F.COPY),
    # Libraries beside PyTorch, and autograd functions of theirs, named by their class.
    FamilyRule("FBGEMM", _OP, r"SplitLookupFunction|^fbgemm::\w*(?:embedding|lookup|tbe)", _F.EMBEDDING),
    FamilyRule("FBGEMM", _OP, r"(?i)^fb(?:gemm)?::\w*(?:quant|fp8|fp16)", _F.QUANTISATION),
    FamilyRule("FBGEMM", _OP, r"^fb(?:gemm)?::\w*(?:cumsum|lengths_range)", _F.SORT),
    FamilyRule(
        "FBGEMM",
        _OP,
        r"^fb(?:gemm)?::\w*(?:permute|bounds_check|jagged|block_bucketize|invert_permute)|PermutePooledEmbs",
        _F.INDEX,
    ),
    FamilyRule("vLLM", _OP, rf"^_C_cache_ops::|::\w*{_CACHE}", _F.COPY),
    FamilyRule("vLLM", _OP, r"^vllm::(?:(?:in|out)place_)?(?:fused_moe|fused_experts|moe_forward)", None),
    FamilyRule("SGLang", _OP, r"(?i)::\w*fused_(?:moe|experts)|::moe_forward", None),
    FamilyRule(
        "vLLM",
        _OP,
        r"^_moe_C::|(?i:::\w*(?:moe_align|topk_softmax|moe_sum|moe_permute|biased_grouped_topk))",
        _F.MOE,
    ),
    FamilyRule(
        "flash-attn", _OP, r"^(?:flash_attn\w*|_flash_attn\w*|_vllm_fa\d_C)::|^_?FlashAttn", _F.ATTENTION
    ),
    FamilyRule(
        "xFormers",
        _OP,
        r"^xformers(?:_flash\d?|_python)?::\w*(?:fmha|flash|efficient_attention)",
        _F.ATTENTION,
    ),
    FamilyRule("Transformer Engine", _OP, r"^_?(?:FusedAttn|FlashAttnFunc|AttnFuncWith)", _F.ATTENTION),
    FamilyRule("Transformer Engine", _OP, r"^_(?:Layer|RMS)Norm(?:Linear|MLP)(?:Backward)?$", None),
    FamilyRule("Transformer Engine", _OP, r"^_(?:Grouped)?Linear(?:Backward)?$", None),
    FamilyRule("Apex", _OP, rf"^Fused\w*{_NORM}|^{_NORM}\w*(?:Function|Backward)", _F.NORMALISATION),
    FamilyRule("any", _OP, rf"^\w+::\w*{_ROPE}", _F.ELEMENTWISE),
    FamilyRule("any", _OP, rf"^\w+::\w*{_NORM}", _F.NORMALISATION),
    FamilyRule("any", _OP, r"^\w+::\w*(?i:causal_conv|conv[123]d)", _F.CONVOLUTION),
    FamilyRule("any", _OP, rf"^\w+::\w*{_ATTENTION}", _F.ATTENTION),
    FamilyRule("any", _OP, rf"^\w+::\w*{_GEMM}|^quantized::linear", _F.GEMM),
    FamilyRule("any", _OP, rf"^\w+::\w*{_ACTIVATION}", _F.ELEMENTWISE),
    FamilyRule("any", _OP, r"^\w+::\w*(?i:quant)", _F.QUANTISATION),
    FamilyRule("any", _OP, r"^\w+::\w*(?i:top_?k|sampling|cumsum|sort)", _F.SORT),
)

_BY_KERNEL: tuple[FamilyRule, ...] = (
    # Generated code: its template decides, else it is Triton's.
    FamilyRule("Inductor", _KERNEL, r"^triton_(?:tem\w*|flex_)(?:attention|attn|sdpa)", _F.ATTENTION),
    FamilyRule("Inductor", _KERNEL, r"^triton_tem\w*conv", _F.CONVOLUTION),
    FamilyRule("Inductor", _KERNEL, r"^triton_(?:tem|mm)", _F.GEMM),
    FamilyRule("Inductor", _KERNEL, r"^triton_", _F.TRITON),
    # PyTorch's generic kernels, by the functor among their template arguments.
    FamilyRule(
        "PyTorch", _KERNEL, r"multi_tensor_apply_kernel.*(?:Adam|Sgd|Adagrad|Lamb|Lion)", _F.OPTIMIZER
    ),
    FamilyRule("PyTorch", _KERNEL, r"multi_tensor_apply_kernel.*Norm", _F.REDUCTION),
    FamilyRule("PyTorch", _KERNEL, r"multi_tensor_apply_kernel.*Copy", _F.COPY),
    FamilyRule("PyTorch", _KERNEL, r"elementwise_kernel.*(?:FillFunctor|arange_cuda|linspace_cuda)", _F.FILL),
    FamilyRule(
        "PyTorch", _KERNEL, r"elementwise_kernel.*(?:direct_copy_kernel|float\d*\w*_copy_kernel)", _F.COPY
    ),
    FamilyRule("PyTorch", _KERNEL, r"distribution_\w*kernel|fused_dropout_kernel", _F.RANDOM),
    FamilyRule(
        "PyTorch", _KERNEL, r"index_elementwise_kernel|index_\w*kernel_impl|indexing_backward", _F.INDEX
    ),
    FamilyRule(
        "PyTorch", _FUNCTION, r"(?:vectorized|unrolled|legacy|^)\w*elementwise_kernel", _F.ELEMENTWISE
    ),
    FamilyRule("PyTorch", _FUNCTION, r"at::native::reduce_kernel", _F.REDUCTION),
    # Names of functions; what names two things (rms norm and quantisation) is of the family that comes first.
    FamilyRule(
        "FBGEMM",
        _FUNCTION,
        r"(?i)split_embedding|dense_embedding|find_long_segments|linearize_index",
        _F.EMBEDDING,
    ),
    FamilyRule(
        "any", _FUNCTION, r"(?i)(?:adam|sgd|adagrad|lamb|lion)w?(?:_|Functor|Kernel|Optimizer)", _F.OPTIMIZER
    ),
    FamilyRule(
        "any", _FUNCTION, r"(?i)kv_indices|kv_indptr|req_to_token|slot_mapping|bounds_check", _F.INDEX
    ),
    FamilyRule("flash-attn", _KERNEL, r"flash_(?:fwd|bwd|attn)|FlashAttn|\bflash::", _F.ATTENTION),
    FamilyRule("Composable Kernel", _KERNEL, r"ck_tile::\w*Fmha|FmhaFwd|FmhaBwd", _F.ATTENTION),
    FamilyRule("Composable Kernel", _KERNEL, r"ck_tile::\w*(?i:rmsnorm|layernorm)", _F.NORMALISATION),
    FamilyRule("Composable Kernel", _KERNEL, r"ck_tile::\w*Moe(?:Sorting|Smoothquant)", _F.MOE),
    FamilyRule("AITER", _KERNEL, r"aiter(?:::|\d+)pa_", _F.ATTENTION),
    FamilyRule(
        "FlashInfer",
        _FUNCTION,
        r"Batch(?:Decode|Prefill)|Single(?:Decode|Prefill)|MergeStates?",
        _F.ATTENTION,
    ),
    FamilyRule("any", _FUNCTION, _CACHE, _F.COPY),
    FamilyRule("any", _FUNCTION, rf"{_ROPE}", _F.ELEMENTWISE),
    FamilyRule(
        "any",
        _FUNCTION,
        r"(?i)(?:moe_|topk_?)gating|topk_?softmax|moe_?(?:align|sum|permute|unpermute|sort)",
        _F.MOE,
    ),
    FamilyRule(
        "any",
        _FUNCTION,
        rf"{_NORM}|(?i:norm_(?:fwd|bwd)|(?:^|_|:)(?:ln|bn)_(?:fwd?|bwd?)_?)",
        _F.NORMALISATION,
    ),
    FamilyRule(
        "PyTorch",
        _FUNCTION,
        r"RowwiseMoments|GammaBeta|ComputeInternalGradients|ComputeFusedParams|NormForward|NormBackward",
        _F.NORMALISATION,
    ),
    FamilyRule("any", _FUNCTION, rf"{_ATTENTION}|fwd_(?:grouped_)?kernel_stage", _F.ATTENTION),
    FamilyRule(
        "cuDNN",
        _KERNEL,
        r"implicit_?gemm|ImplicitGemm|(?:^|[_\d:\s])(?:fprop|dgrad|wgrad)(?:_|\d)|[wW]inograd|cutlass\w*::conv::|computeOffsetsKernel"
        r"|s\d*cudnn_|cudnn::\w*(?:cnn|conv)",
        _F.CONVOLUTION,
    ),
    FamilyRule(
        "MIOpen",
        _KERNEL,
        r"(?i)miopen\w*conv|gcnasmconv|igemm_(?:fwd|bwd|wrw)|naive_conv|(?:^|_)conv_",
        _F.CONVOLUTION,
    ),
    FamilyRule(
        "any",
        _FUNCTION,
        r"(?i)conv(?:olution|olve|\dd|_depthwise|_fwd|_bwd)|depthwise|im2col|col2im|causal_conv",
        _F.CONVOLUTION,
    ),
    FamilyRule("any", _FUNCTION, r"(?i)cross_?entropy|nll_?loss|ctc_?loss|_loss(?:_|$)", _F.LOSS),
    FamilyRule("any", _FUNCTION, r"(?i)soft_?max", _F.SOFTMAX),
    FamilyRule(
        "any",
        _FUNCTION,
        r"(?i)embedding|compute_grad_weight|partial_segment|partials_per_segment",
        _F.EMBEDDING,
    ),
    FamilyRule("any", _FUNCTION, r"(?i)fused_moe_kernel|fmoe|grouped_gemm|moe_gemm", _F.GEMM),
    FamilyRule(
        "cuBLAS", _KERNEL, r"nvjet|cublas|splitK|xmma|cutlass|gemvx|gemvNSP|gemmk1|epilogue::impl", _F.GEMM
    ),
    FamilyRule(
        "rocBLAS",
        _KERNEL,
        r"(?:^|_)Cijk_|rocblas|hipblas|wvSplitK|LLGemm|\bck(?:_tile)?::\w*.*[gG]emm",
        _F.GEMM,
    ),
    FamilyRule(
        "any",
        _FUNCTION,
        r"(?i)gemm|gemv|matmul|marlin|machete|^bmm_(?:e\dm\d|mxe|bfloat|fp)|(?:^|_)b?mm_kernel|(?:^|\s)dot_kernel",
        _F.GEMM,
    ),
    FamilyRule("any", _FUNCTION, r"(?i)moe|expert", _F.MOE),
    FamilyRule(
        "any",
        _FUNCTION,
        r"(?i)max_?pool|avg_?pool|average_?pool|pooling|upsample|interpolat|grid_sampler",
        _F.POOLING,
    ),
    FamilyRule("any", _FUNCTION, _ACTIVATION, _F.ELEMENTWISE),
    FamilyRule("any", _FUNCTION, r"(?i)quant|(?:^|_)fp8|_to_fp8|hfp8", _F.QUANTISATION),
    FamilyRule("any", _FUNCTION, r"(?i)philox|curand|bernoulli|dropout|rand(?:om|perm|int)|rng", _F.RANDOM),
    FamilyRule(
        "any",
        _FUNCTION,
        r"(?i)sort|top_?k|scan|cumsum|unique|compact|reduce_?by_?key|histogram|bitonic",
        _F.SORT,
    ),
    FamilyRule(
        "any", _KERNEL, r"(?:cub|rocprim|hipcub)::.*(?:Scan|scan|[sS]ort|[sS]elect|[pP]artition)", _F.SORT
    ),
    FamilyRule(
        "any",
        _FUNCTION,
        r"(?i)gather|scatter|index|indices|bucketize|take|nonzero|jagged|permute_2d|lengths|offsets|token_ids",
        _F.INDEX,
    ),
    FamilyRule("any", _FUNCTION, r"(?i)(?:^|[_:\s])v?(?:fft|r2c|c2r|c2c)(?:_|\d|$)|fft", _F.FFT),
    FamilyRule("any", _FUNCTION, r"(?i)potrf|getrf|getri|trsm|syev|gesv|geqrf", _F.LINEAR_ALGEBRA),
    FamilyRule(
        "any",
        _FUNCTION,
        r"(?i)copy|CatArray|transpose|permute|nchwToNhwc|nhwcToNchw|memcpy|cast|convert|(?:^|_)pad|triu|tril|roll_|flip_",
        _F.COPY,
    ),
    FamilyRule("any", _FUNCTION, r"(?i)memset|fill|zero_|arange", _F.FILL),
    FamilyRule(
        "any", _FUNCTION, r"(?i)reduce|reduction|argmax|argmin|(?:^|_)(?:sum|mean|norm)(?:_|$)", _F.REDUCTION
    ),
    FamilyRule(
        "any",
        _FUNCTION,
        r"(?i)element_?wise|elem_?wise|op_(?:generic_)?tensor|thrust::.*transform|pointwise|multi_tensor|foreach|clamp|optensor|tanh|sigmoid|(?:^|_)(?:add|mul|sub|div)(?:_|$)",
        _F.ELEMENTWISE,
    ),
    FamilyRule("Triton", _KERNEL, r"(?i)triton", _F.TRITON),
)

FAMILY_RULES: tuple[FamilyRule, ...] = (*_BY_OP, *_BY_KERNEL)
"""The first rule of a subject that fits counts. Where an op has no rule, or its rule no family, the kernel decides."""


_EVALUATE = "autograd::engine::evaluate_function: "
_NAMESPACE = re.compile(r"^void |\(anonymous namespace\)::|<unnamed>::|\bfbgemm(?:_gpu)?::")
"""Parts of a function's name without information: the type void, namespaces."""
_FILL = re.compile(r"(?i)memset|fill")
_LONGEST_NAME = 2_000
"""Characters of a name that are searched: those of kernels hold whole lambdas, and a file may hold anything."""
_KEY = ["name", "kind", "op_name", "op_category"]


def family_of(name: str, kind: str, op_name: str | None) -> tuple[KernelFamily, FamilyBasis | None]:
    """The family of a device event, and what decided it; nothing did: `OTHER`."""
    if kind == COMMUNICATION:
        return KernelFamily.COMMUNICATION, FamilyBasis.KIND
    if kind == WAIT:
        return KernelFamily.WAIT, FamilyBasis.KIND
    if kind == MEMORY:
        return KernelFamily.FILL if _FILL.search(name) else KernelFamily.COPY, FamilyBasis.KIND
    if op_name is not None and (family := family_of_op(op_name)) is not None:
        return family, FamilyBasis.OP
    if (family := family_of_kernel_name(name)) is not None:
        return family, FamilyBasis.NAME
    return KernelFamily.OTHER, None


@cache
def family_of_op(name: str) -> KernelFamily | None:
    """The family of the kernels that an operator launches; None if it launches several, or is not known."""
    name = name.removeprefix(_EVALUATE)[:_LONGEST_NAME]
    rule = next((rule for rule, pattern in _rules(RuleSubject.OP) if pattern.search(name)), None)
    return rule.family if rule is not None else None


@cache
def family_of_kernel_name(name: str) -> KernelFamily | None:
    """The family that a kernel's name shows; None if it shows none."""
    name = name[:_LONGEST_NAME]
    function = _function_of(name)
    for rule, pattern in _rules(RuleSubject.KERNEL, RuleSubject.FUNCTION):
        if pattern.search(name if rule.subject is RuleSubject.KERNEL else function):
            return rule.family
    return None


def kernel_families_of(work: pl.DataFrame) -> pl.DataFrame:
    """The family of each device event, in its row: columns `family` and `family_by`.

    Each pair of names decided once.
    """
    pairs = work.select(_KEY).unique(maintain_order=True)
    is_op = pl.col("op_category").is_in(categories_of(Role.OP))
    rows = pairs.select("name", "kind", pl.when(is_op).then("op_name")).iter_rows()
    found = [family_of(name or "", kind, op_name) for name, kind, op_name in rows]
    decided = pairs.with_columns(
        pl.Series("family", [family.value for family, _ in found], dtype=pl.String),
        pl.Series("family_by", [basis and basis.value for _, basis in found], dtype=pl.String),
    )
    joined = work.select(_KEY).join(decided, on=_KEY, how="left", nulls_equal=True, maintain_order="left")
    return joined.select("family", "family_by")


def _function_of(name: str) -> str:
    """A kernel's name up to its template arguments and parameters, which may name anything."""
    return re.split(r"[<(]", _NAMESPACE.sub("", name), maxsplit=1)[0]


@cache
def _rules(*subjects: RuleSubject) -> tuple[tuple[FamilyRule, re.Pattern[str]], ...]:
    return tuple((rule, re.compile(rule.pattern)) for rule in FAMILY_RULES if rule.subject in subjects)
