"""Names of ops and kernels of the communication libraries, as traces have them."""

from __future__ import annotations

import re

import pytest

from tracebraid.model.collectives.communication_rules import RULES, Collective, Says, Subject, rule_of

KERNELS = {
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)": "NCCL",
    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)": "NCCL",
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "NCCL",
    "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)": "NCCL",
    "ncclSymk_AllReduce_AGxLL_R_sum_bf16": "NCCL",
    "ncclSymDevKernel_AllReduce_RSxLD_AGxST_sum_bf16(ncclSymDevArgs)": "NCCL",
    "rccl_AllReduce_kernel": "RCCL",
    "mscclKernel_Sum_float_Simple_true(ncclDevComm*)": "RCCL",
    "oneccl_allreduce_pcie": "oneCCL",
    "hcom_allReduce__503_0_1": "HCCL",
    "allreduceAicpuKernel": "HCCL",
    "nvshmemi_signal_op_kernel": "NVSHMEM",
    "void barrier_on_stream_kernel_threadgroup<1>(int)": "NVSHMEM",
    "rocshmem_alltoall_kernel": "rocSHMEM",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, int)": "vLLM",
    "_ZN4vllm26cross_device_reduce_2stageIfLi2EEEvPNS_8RankDataE": "vLLM",
    "void sglang::cross_device_reduce_2stage<half, 4>(sglang::RankData*)": "vLLM",
    "quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half, CodecQ4<__half, 4>, true>, __half>": "vLLM",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<"
    "(flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, 8>(int)": "FlashInfer",
    "void tensorrt_llm::kernels::ar_fusion::allreduce_fusion_kernel_twoshot_sync<2>(int)": "FlashInfer",
    "void flashinfer::trtllm_mnnvl_allreduce::twoshotAllreduceKernel<8, float>(float*)": "FlashInfer",
    "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8, true>(AllReduceParams)": "FlashInfer",
    "void tensorrt_llm::kernels::twoShotAllReduceKernel<__half, 8>(AllReduceParams)": "FlashInfer",
    "void tensorrt_llm::kernels::reduce_fusion::lamport_style_one_shot_all_reduce_norm_kernel<8>(int)": "TensorRT-LLM",
    "void tensorrt_llm::kernels::moe_alltoall::moeA2ADispatchKernel<8>(int)": "TensorRT-LLM",
    "void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop_fp8<8>(int, int)": "Userbuffers",
    "kuserbuffers_pushsend": "Userbuffers",
    "void aiter::reduce_scatter_cross_device_store<float, 8>(float*)": "AITER",
    "void mori::moe::EpDispatchIntraNodeKernel<float>(args)": "MORI",
    "void pplx::AllToAllIntraNode_combine<float>(args)": "pplx",
    "void deep_ep::internode::dispatch<false, 8, false>(int4*)": "DeepEP",
    "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(__nv_bfloat16*)": "DeepEP",
    "void deep_ep::internode_ll::dispatch<true, false, 7168>(void*)": "DeepEP",
    "void deep_ep::intranode::notify_dispatch<8>(int const*)": "DeepEP",
    "void one_shot_all_reduce_kernel<c10::BFloat16, 16, 8>(c10::BFloat16**)": "PyTorch",
    "void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<float, 16, 2>(float**)": "PyTorch",
    "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)": "PyTorch",
    "void (anonymous namespace)::multimem_one_shot_all_reduce_kernel<float, 16>(float*)": "PyTorch",
    "void (anonymous namespace)::multimem_all_gather_kernel<16>(char*)": "PyTorch",
    "(anonymous namespace)::barrier_kernel(unsigned int**, int, unsigned long)": "PyTorch",
}

COMPUTE = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, allreduce_functor>>(at::native::ReduceOp)",
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 1, 64, 64>(float*)",
    "triton_poi_fused_add_all_reduce_wait_tensor_0",
    "triton_red_fused__to_copy_all_gather_into_tensor_native_layer_norm_3",
    "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)",
    "void deep_ep::internode::get_dispatch_layout<256>(long const*)",
    "void gemm_all_reduce_kernel<128, 64>(float*)",
    "void (anonymous namespace)::matmul_reduce_scatter_fused<float>(float*)",
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64>(Params)",
)

NEITHER = (
    "void reduce_kernel<float>(float*)",
    "ampere_sgemm_128x64_tn",
    "void my::elementwise<nccl_like, allreduce>(float*)",
    "succlib_kernel",
    "volta_scudnn_128x64_relu",
)

COMMUNICATING_OPS = (
    "record_param_comms",
    "c10d::allreduce_",
    "_c10d_functional::all_gather_into_tensor",
    "_c10d_functional_autograd::all_to_all_single",
    "c10d_functional::wait_tensor",
    "symm_mem::multimem_all_reduce_",
    "symm_mem::one_shot_all_reduce",
    "nccl:all_reduce",
    "gloo:broadcast",
    "_C_custom_ar::all_reduce",
    "_C_custom_ar::qr_all_reduce",
    "vllm::all_reduce",
    "vllm::reduce_scatter",
    "vllm::flashinfer_trtllm_fused_allreduce_norm",
    "sglang::inplace_all_reduce",
    "sgl_kernel::mscclpp_allreduce",
    "trtllm::allreduce",
    "flashinfer::trtllm_allreduce_fusion",
    "aiter::all_reduce",
    "fbgemm::one_shot_car_allreduce",
)

OTHER_OPS = (
    "aten::all",
    "aten::cat",
    "aten::mm",
    "all_reduce",
    "my all_reduce of the loss",
    "vllm::unified_attention",
    "symm_mem::fused_all_gather_matmul",
    "symm_mem::fused_matmul_reduce_scatter",
    "symm_mem::_async_input_mm",
    "vllm::patched_fused_scaled_matmul_reduce_scatter",
    "fsdp::all_gather_copy_in",
    "std::nccl::allreduce",
    "DistributedDataParallel.forward",
)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_a_library_communicate(name: str) -> None:
    rule = rule_of(name, Subject.KERNEL)
    assert rule is not None
    assert (rule.says, rule.library) == (Says.COMMUNICATES, KERNELS[name])


@pytest.mark.parametrize("name", COMPUTE)
def test_kernels_that_only_sound_like_it_compute(name: str) -> None:
    rule = rule_of(name, Subject.KERNEL)
    assert rule is not None
    assert rule.says is Says.COMPUTES


@pytest.mark.parametrize("name", NEITHER)
def test_no_rule_says_that_other_kernels_communicate(name: str) -> None:
    rule = rule_of(name, Subject.KERNEL)
    assert rule is None or rule.says is Says.COMPUTES


@pytest.mark.parametrize("name", ["intranode_alltoall_kernel", "void x::my_all_gather_kernel<4>(int)"])
def test_a_collectives_name_of_no_library_may_communicate(name: str) -> None:
    rule = rule_of(name, Subject.KERNEL)
    assert rule is not None
    assert rule.says is Says.MAY_COMMUNICATE


@pytest.mark.parametrize("name", COMMUNICATING_OPS)
def test_ops_of_a_library_communicate(name: str) -> None:
    rule = rule_of(name, Subject.OP, Subject.RANGE)
    assert rule is not None
    assert rule.says is Says.COMMUNICATES


@pytest.mark.parametrize("name", OTHER_OPS)
def test_other_ops_do_not(name: str) -> None:
    rule = rule_of(name, Subject.OP, Subject.RANGE)
    assert rule is None or rule.says is not Says.COMMUNICATES


def test_an_annotation_may_bear_any_name_but_those_of_backends() -> None:
    assert rule_of("c10d::allreduce_", Subject.RANGE) is None
    assert rule_of("nccl:all_reduce", Subject.RANGE) is not None


@pytest.mark.parametrize(
    ("name", "collective"),
    [
        ("void vllm::cross_device_reduce_1stage<float, 2>(float*)", Collective.ALL_REDUCE),
        ("void deep_ep::internode::combine<8>(int)", Collective.ALL_TO_ALL),
        ("multimem_all_gather_kernel", Collective.ALL_GATHER),
        ("barrier_kernel", Collective.BARRIER),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", None),
    ],
)
def test_a_rule_tells_the_collective_where_all_that_fits_it_is_one(
    name: str, collective: Collective | None
) -> None:
    rule = rule_of(name, Subject.KERNEL)
    assert rule is not None
    assert rule.collective is collective


def test_every_library_of_the_table_is_tested_here() -> None:
    libraries = {
        rule.library for rule in RULES if rule.subject is Subject.KERNEL and rule.says is Says.COMMUNICATES
    }
    assert libraries == set(KERNELS.values())


@pytest.mark.parametrize("pattern", [rule.pattern for rule in RULES])
def test_only_anchored_patterns_repeat_without_bound(pattern: str) -> None:
    """A name can be as long as a file: a search that starts anew at each character must not go on to its end."""
    assert pattern.startswith("^") or not re.search(r"[*+]", pattern)
