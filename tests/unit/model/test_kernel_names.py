"""Families of kernels: by kind, by the op that launched them, by their names."""

from __future__ import annotations

import re

import polars as pl
import pytest

from tracebraid.model.collectives import RULES, Collective, Says, Subject, rule_of
from tracebraid.model.kernel_family import (
    FAMILY_RULES,
    FamilyBasis,
    KernelFamily,
    RuleSubject,
    family_of,
    family_of_kernel_name,
    family_of_op,
    kernel_families_of,
)

F = KernelFamily

KERNELS: dict[str, KernelFamily] = {
    # GEMM
    "volta_sgemm_128x32_nt": F.GEMM,
    "ampere_gcgemm_64x64_nt": F.GEMM,
    "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT": F.GEMM,
    "Custom_Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_shortname0_gfx950": F.GEMM,
    "bmm_E4m3_E4m3E4m3_Fp32_t128x8x128u2_s6_et64x8_m64x8x32_cga1x1x1_16dp256b_TN": F.GEMM,
    "void ck_tile::kentry<256, 1, ck_tile::GemmKernel<ck_tile::GemmTilePartitioner<> > >()": F.GEMM,
    "void ck_tile::kentry<128, 2, ck_tile::Rmsnorm2dFwd<> >()": F.NORMALISATION,
    "void ck_tile::kentry<256, 1, ck_tile::MoeSortingKernel<> >()": F.MOE,
    "aiter::pa_bf16_pertokenFp8_gqa8_1tg_4w": F.ATTENTION,
    "triton_flex_attention_backward_7": F.ATTENTION,
    "turing_fp16_s1688cudnn_fp16_128x128_ldg8_relu_f2f_exp_small_nhwc_tn_v1": F.CONVOLUTION,
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel__5x_cublas": F.GEMM,
    "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8>(Params)": F.GEMM,
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, float>(cublasLt::cublasSplitKParams<float>)": F.GEMM,
    "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float>(cublasGemvParams)": F.GEMM,
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT16x32x512_MI16x16x1": F.GEMM,
    "void gemv2T_kernel_val<int, int, __nv_bfloat16, 128, 16, 4>(cublasGemvParamsEx)": F.GEMM,
    "void marlin::Marlin<__half, 256, 1, 8, 8, 4>(int4 const*)": F.GEMM,
    "fused_moe_kernel": F.GEMM,
    "triton_tem_fused_mm_3": F.GEMM,
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn": F.GEMM,
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int>>>(Params)": F.GEMM,
    "void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm_xdl_cshuffle_v3<float>>(int)": F.GEMM,
    "_ZN5aiter41fmoe_bf16_blockscaleFp8_g1u1_vs_silu_1tg_E": F.GEMM,
    "kgemm_4bit_inference_naive": F.GEMM,
    "void wvSplitK_hf_sml_<__half, 64, 2>(int, int)": F.GEMM,
    # attention
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(Flash_fwd_params)": F.ATTENTION,
    "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64>>(Params)": F.ATTENTION,
    "fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::half_t>)": F.ATTENTION,
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<...>>>(Params)": F.ATTENTION,
    "attn_fwd": F.ATTENTION,
    "void vllm::paged_attention_v1_kernel<unsigned short, unsigned short, 128, 16>(float*)": F.ATTENTION,
    "_ZN7ck_tile6kentryILi1ENS_13FmhaFwdKernelINS_28BlockFmhaPipelineQRKSVSAsync": F.ATTENTION,
    "kernel_unified_attention_2d": F.ATTENTION,
    "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0>(Params)": F.ATTENTION,
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7": F.ATTENTION,
    "triton_tem_fused_flex_attention_0": F.ATTENTION,
    "_fwd_grouped_kernel_stage1": F.ATTENTION,
    "_attn_bwd_dkdv": F.ATTENTION,
    "_ZN5aiter24fmha_fwd_hd128_bf16_causalE": F.ATTENTION,
    # convolution
    "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16": F.CONVOLUTION,
    "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_execute_kernel_cudnn_train": F.CONVOLUTION,
    "cudnn_infer_ampere_scudnn_128x64_relu_xregs_large_nn_v1": F.CONVOLUTION,
    "void cutlass_cudnn_infer::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_128x128_16x4>": F.CONVOLUTION,
    "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3, float>(int)": F.CONVOLUTION,
    "miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1": F.CONVOLUTION,
    "igemm_fwd_gtcx3_nhwc_fp16_bx0_ex0_bt256x128x32": F.CONVOLUTION,
    "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(int)": F.CONVOLUTION,
    "void implicit_convolve_sgemm<float, float, 1024, 5, 5>(int)": F.CONVOLUTION,
    "void cudnn::detail::dgrad2d_alg1_1<float, 0, 4>(int)": F.CONVOLUTION,
    "void wgrad_alg0_engine<float, 128, 5, 5>(int)": F.CONVOLUTION,
    "kernel_grouped_conv_fwd_xdl_cshuffle_v3": F.CONVOLUTION,
    "void im2col_kernel<float>(long, float const*)": F.CONVOLUTION,
    # normalisation
    "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(cudnnTensorStruct)": F.NORMALISATION,
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)": F.NORMALISATION,
    "void at::native::(anonymous namespace)::RowwiseMomentsCUDAKernel<float>(long)": F.NORMALISATION,
    "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)": F.NORMALISATION,
    "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16EEvPT0_": F.NORMALISATION,
    "MIOpenBatchNormFwdTrainSpatial": F.NORMALISATION,
    "void transformer_engine::normalization::ln_fwd_tuned_kernel<Kernel_traits<float>>(Params)": F.NORMALISATION,
    "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)": F.NORMALISATION,
    "void at::native::(anonymous namespace)::ComputeInternalGradientsCUDAKernel<float>(long)": F.NORMALISATION,
    # softmax, loss, embedding, pooling
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false>(float*)": F.SOFTMAX,
    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float>(float*)": F.SOFTMAX,
    "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float>(float*)": F.LOSS,
    "liger_cross_entropy_kernel": F.LOSS,
    "void split_embedding_codegen_forward_unweighted_kernel<c10::Half, c10::Half>(int)": F.EMBEDDING,
    "split_embedding_backward_codegen_rowwise_adagrad_unweighted_find_long_segments(int)": F.EMBEDDING,
    "void at::native::(anonymous namespace)::EmbeddingBag_updateOutputKernel_sum_mean<float>(int)": F.EMBEDDING,
    "void at::native::(anonymous namespace)::krn_partials_per_segment<long>(long*)": F.EMBEDDING,
    "void cudnn::pooling_fw_4d_kernel<float, float>(int)": F.POOLING,
    "void at::native::(anonymous namespace)::upsample_nearest2d_out_frame<float>(int)": F.POOLING,
    "void at::native::(anonymous namespace)::max_pool_forward_nchw<float, float>(int)": F.POOLING,
    # elementwise, reduction, copies, fills
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)": F.ELEMENTWISE,
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<MulFunctor<float>>>": F.ELEMENTWISE,
    "void op_generic_tensor_kernel<2, float, float, float, 256>(int)": F.ELEMENTWISE,
    "void add_tensor_kernel_v3<2, float, float, 16, 16>(int)": F.ELEMENTWISE,
    "void LSTM_elementWise_fp<float, float, float>(int)": F.ELEMENTWISE,
    "kernelPointwiseApply2": F.ELEMENTWISE,
    "void fused_rope_forward<float>(int)": F.ELEMENTWISE,
    "void vllm::act_and_mul_kernel<c10::BFloat16, silu_kernel<c10::BFloat16>>(c10::BFloat16*)": F.ELEMENTWISE,
    "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)": F.ELEMENTWISE,
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<BinaryOpScalarFunctor<float>>": F.ELEMENTWISE,
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, MeanOps<float>>>(int)": F.REDUCTION,
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<LpNormFunctor<float>>": F.REDUCTION,
    "void at::native::elementwise_kernel<128, 4, gpu_kernel_impl_nocast<direct_copy_kernel_cuda(int)>>": F.COPY,
    "void at::native::vectorized_elementwise_kernel<4, bfloat16_copy_kernel_cuda(int)::{lambda(float)#1}>": F.COPY,
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 64, 64>(float*)": F.COPY,
    "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16>(int)": F.COPY,
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)": F.FILL,
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(int)": F.COPY,
    "void at::native::(anonymous namespace)::roll_cuda_kernel<float>(float*)": F.COPY,
    "void at::native::triu_tril_kernel<float, int, true>(int)": F.COPY,
    "void at::native::(anonymous namespace)::reflection_pad2d_out_kernel<float>(float*)": F.COPY,
    "void transformer_engine::detail::cast_transpose_general_kernel<8, 4>(int)": F.COPY,
    "__amd_rocclr_copyBuffer": F.COPY,
    "__amd_rocclr_fillBufferAligned": F.FILL,
    "batched_transpose_32x16_dword": F.COPY,
    "void (anonymous namespace)::elementwise_kernel_with_index<int, arange_cuda_out(int)>": F.FILL,
    "void cub::DeviceReduceKernel<cub::DeviceReducePolicy<int>>(int)": F.REDUCTION,
    # sorting, indexing, routing, randomness, the optimizer, quantisation
    "void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, int, int>>(int)": F.SORT,
    "void at_cuda_detail::cub::DeviceScanKernel<AgentScanPolicy<128, 15, long>>(int)": F.SORT,
    "void rocprim::detail::trampoline_kernel<rocprim::detail::wrapped_scan_config<int>>(int)": F.SORT,
    "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(int)": F.SORT,
    "void at::native::tensor_kernel_scan_innermost_dim<float, std::plus<float>>(float*)": F.SORT,
    "void at::native::bitonicSortKVInPlace<2, -1, 16, 16, float>(int)": F.SORT,
    "void at::native::(anonymous namespace)::write_indices<long>(long*)": F.INDEX,
    "void fbgemm_gpu::_block_bucketize_sparse_features_cuda_kernel1<int>(int)": F.INDEX,
    "void at::native::index_elementwise_kernel<128, 4, gpu_index_kernel<int>>(int)": F.INDEX,
    "void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long>(int)": F.INDEX,
    "void at::native::vectorized_gather_kernel<16, long>(char*)": F.INDEX,
    "create_flashinfer_kv_indices_triton": F.INDEX,
    "void fbgemm_gpu::permute_2D_lengths_kernel<int>(int)": F.INDEX,
    "void vllm::moe::topkGatingSoftmax<8, 256, 4, 16>(float const*)": F.MOE,
    "void vllm::moe::moe_align_block_size_kernel<int>(int*)": F.MOE,
    "void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4>(int)": F.RANDOM,
    "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float, float>(int)": F.RANDOM,
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float>>": F.OPTIMIZER,
    "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>(long)": F.OPTIMIZER,
    "void fbgemm_gpu::(anonymous namespace)::_compute_FP8_quantize_cuda_kernel<float>(int)": F.QUANTISATION,
    "void vllm::dynamic_per_token_scaled_fp8_quant_kernel<c10::BFloat16>(int)": F.QUANTISATION,
    "void fft2d_r2c_32x32<float, false, 0u, false>(float2*)": F.FFT,
    # Triton
    "triton_poi_fused_add_cos_sin_0": F.TRITON,
    "triton_red_fused__unsafe_view_add_mean_mul_pow_rsqrt_1": F.TRITON,
    "triton_per_fused_native_layer_norm_2": F.TRITON,
}

UNKNOWN_KERNELS = ("at::cuda::(anonymous namespace)::spin_kernel(long)", "pe_exe", "remote", "my_kernel", "")

OPS: dict[str, KernelFamily | None] = {
    "aten::mm": F.GEMM,
    "aten::addmm": F.GEMM,
    "aten::_scaled_mm": F.GEMM,
    "aten::_scaled_grouped_mm": F.GEMM,
    "aten::linear": F.GEMM,
    "_C::cutlass_scaled_mm": F.GEMM,
    "deep_gemm::fp8_gemm_nt": F.GEMM,
    "aten::_flash_attention_forward": F.ATTENTION,
    "aten::_scaled_dot_product_efficient_attention_backward": F.ATTENTION,
    "flash_attn::_flash_attn_varlen_forward": F.ATTENTION,
    "FlashAttnFuncBackward": F.ATTENTION,
    "xformers_flash3::flash_fwd": F.ATTENTION,
    "vllm::unified_attention_with_output": F.ATTENTION,
    "aiter::fmha_v3_fwd": F.ATTENTION,
    "sgl_kernel::cutlass_mla_decode": F.ATTENTION,
    "FusedAttnFuncBackward": F.ATTENTION,
    "aten::cudnn_convolution": F.CONVOLUTION,
    "aten::convolution_backward": F.CONVOLUTION,
    "aten::_slow_conv2d_forward": F.CONVOLUTION,
    "aten::miopen_depthwise_convolution": F.CONVOLUTION,
    "aten::native_layer_norm_backward": F.NORMALISATION,
    "aten::_fused_rms_norm": F.NORMALISATION,
    "aten::miopen_batch_norm": F.NORMALISATION,
    "sgl_kernel::fused_add_rmsnorm": F.NORMALISATION,
    "_C::rms_norm": F.NORMALISATION,
    "FusedLayerNormAffineFunction": F.NORMALISATION,
    "aten::_log_softmax_backward_data": F.SOFTMAX,
    "aten::embedding_dense_backward": F.EMBEDDING,
    "fbgemm::split_embedding_codegen_lookup_adagrad_function": F.EMBEDDING,
    "torch::autograd::CppNode<SplitLookupFunction_rowwise_adagrad_Op>": F.EMBEDDING,
    "aten::_fused_adamw_": F.OPTIMIZER,
    "aten::_foreach_addcdiv_": F.ELEMENTWISE,
    "aten::_foreach_norm": F.REDUCTION,
    "aten::_foreach_copy_": F.COPY,
    "aten::_foreach_zero_": F.FILL,
    "aten::sum": F.REDUCTION,
    "aten::linalg_vector_norm": F.REDUCTION,
    "aten::copy_": F.COPY,
    "aten::cat": F.COPY,
    "fsdp::all_gather_copy_in": F.COPY,
    "_C_cache_ops::reshape_and_cache_flash": F.COPY,
    "aten::fill_": F.FILL,
    "aten::zero_": F.FILL,
    "aten::arange": F.FILL,
    "aten::cumsum": F.SORT,
    "aten::topk": F.SORT,
    "aten::_index_put_impl_": F.INDEX,
    "aten::gather_backward": F.INDEX,
    "aten::max_pool2d_with_indices": F.POOLING,
    "aten::upsample_bilinear2d": F.POOLING,
    "aten::nll_loss_forward": F.LOSS,
    "aten::uniform_": F.RANDOM,
    "aten::native_dropout": F.RANDOM,
    "_moe_C::topk_softmax": F.MOE,
    "aten::linalg_eigh": F.LINEAR_ALGEBRA,
    "aten::_fft_r2c": F.FFT,
    "_C::rotary_embedding": F.ELEMENTWISE,
    "_C::silu_and_mul": F.ELEMENTWISE,
    "_C::dynamic_scaled_fp8_quant": F.QUANTISATION,
    # Their kernels' names decide.
    "aten::add": None,
    "aten::mul": None,
    "aten::max": None,
    "aten::summary": None,
    "aten::_cudnn_rnn": None,
    "vllm::fused_moe": None,
    "triton_poi_fused_add_0": None,
    "_LayerNormLinear": None,
    "my_library::frobnicate": None,
    "AddBackward0": None,
    "": None,
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_s_name_shows_its_family(name: str) -> None:
    assert family_of_kernel_name(name) is KERNELS[name]


@pytest.mark.parametrize("name", UNKNOWN_KERNELS)
def test_a_name_of_nobody_shows_none(name: str) -> None:
    assert family_of_kernel_name(name) is None
    assert family_of(name, "compute", None) == (F.OTHER, None)


@pytest.mark.parametrize("name", OPS)
def test_an_op_s_name_shows_the_family_of_its_kernels(name: str) -> None:
    assert family_of_op(name) is OPS[name]


def test_the_node_of_autograd_around_an_op_is_as_the_op() -> None:
    name = "torch::autograd::CppNode<SplitLookupFunction_Dense_Op>"
    assert family_of_op(f"autograd::engine::evaluate_function: {name}") is F.EMBEDDING


@pytest.mark.parametrize(
    ("name", "kind", "op", "expected"),
    [
        ("Memset (Device)", "memory", "aten::mm", (F.FILL, FamilyBasis.KIND)),
        ("Memcpy DtoD (Device -> Device)", "memory", "aten::mm", (F.COPY, FamilyBasis.KIND)),
        ("ncclDevKernel_AllReduce", "communication", "aten::mm", (F.COMMUNICATION, FamilyBasis.KIND)),
        ("event_wait", "wait", None, (F.WAIT, FamilyBasis.KIND)),
        ("ampere_sgemm_128x64_nn", "compute", "aten::cudnn_convolution", (F.CONVOLUTION, FamilyBasis.OP)),
        ("ampere_sgemm_128x64_nn", "compute", "aten::add", (F.GEMM, FamilyBasis.NAME)),
        ("ampere_sgemm_128x64_nn", "compute", None, (F.GEMM, FamilyBasis.NAME)),
        ("my_kernel", "compute", "aten::mm", (F.GEMM, FamilyBasis.OP)),
    ],
)
def test_the_kind_decides_first_then_the_op_then_the_name(
    name: str, kind: str, op: str | None, expected: tuple[KernelFamily, FamilyBasis]
) -> None:
    assert family_of(name, kind, op) == expected


def test_what_stands_among_template_arguments_decides_nothing() -> None:
    assert family_of_kernel_name("void my_kernel<softmax_functor<float>>(embedding*)") is None
    assert family_of_kernel_name("void my_softmax<reduce_functor<float>>(float*)") is F.SOFTMAX


def test_an_annotation_decides_nothing() -> None:
    work = pl.DataFrame(
        {
            "name": ["my_kernel", "my_kernel", None],
            "kind": ["compute"] * 3,
            "op_name": ["aten::mm", "aten::mm", None],
            "op_category": ["cpu_op", "user_annotation", None],
        },
        schema={"name": pl.String, "kind": pl.String, "op_name": pl.String, "op_category": pl.String},
    )
    found = kernel_families_of(work)
    assert found.get_column("family").to_list() == ["gemm", "other", "other"]
    assert found.get_column("family_by").to_list() == ["op", None, None]
    assert kernel_families_of(work.clear()).is_empty()


def test_a_name_of_any_length_is_read() -> None:
    assert family_of_kernel_name("softmax" + "_" * 100_000) is F.SOFTMAX
    assert family_of_op("aten::mm" * 50_000) is None


def test_every_family_of_a_rule_is_tested_here() -> None:
    by_op = {rule.family for rule in FAMILY_RULES if rule.subject is RuleSubject.OP}
    by_name = {rule.family for rule in FAMILY_RULES if rule.subject is not RuleSubject.OP}
    assert by_op <= set(OPS.values())
    assert by_name - {F.LINEAR_ALGEBRA} <= set(KERNELS.values())


@pytest.mark.parametrize("family", KernelFamily)
def test_a_code_is_the_family_s_name_in_words(family: KernelFamily) -> None:
    assert family.value == family.name.lower().replace("_", " ")


# --- Names of ops and kernels of the communication libraries, as traces have them --------------------


LIBRARY_KERNELS = {
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
    "void uccl::ep::internode::dispatch<8>(int*)": "expert parallelism",
    "void uccl::ep::intranode::combine<8>(int*)": "expert parallelism",
    "void hybrid_ep::dispatch_kernel<8>(int*)": "expert parallelism",
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


@pytest.mark.parametrize("name", LIBRARY_KERNELS)
def test_kernels_of_a_library_communicate(name: str) -> None:
    rule = rule_of(name, Subject.KERNEL)
    assert rule is not None
    assert (rule.says, rule.library) == (Says.COMMUNICATES, LIBRARY_KERNELS[name])


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
    assert libraries == set(LIBRARY_KERNELS.values())


@pytest.mark.parametrize("pattern", [rule.pattern for rule in RULES])
def test_only_anchored_patterns_repeat_without_bound(pattern: str) -> None:
    """A name can be as long as a file: a search that starts anew at each character must not go on to its end."""
    assert pattern.startswith("^") or not re.search(r"[*+]", pattern)
