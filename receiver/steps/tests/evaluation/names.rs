//! Names of kernels, as libraries have them: most are launched in every phase.
//!
//! An engine has one style of attention. In half of the styles prompts and answers have the same kernel.

/// What a pass is for.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Role {
    /// A pass of a language model with a cache of keys and values.
    #[default]
    Generation,
    /// A pass of a language model with attention of one kernel for all passes, as where all passes are captured.
    Unified,
    /// A pass of an encoder.
    Encoder,
    /// A forward pass that is followed by a backward pass.
    TrainForward,
    Backward,
    Optimizer,
}

/// The kernels of an engine's attention: writes to the cache, prompts, answers.
pub const ATTENTION: [[&str; 3]; 9] = [
    [
        "vllm::reshape_and_cache_flash_kernel",
        "flash::flash_fwd_splitkv_kernel<causal>",
        "flash::flash_fwd_splitkv_kernel<>",
    ],
    [
        "vllm::reshape_and_cache_flash_kernel",
        "cutlass::device_kernel<flash::FlashAttnFwdSm90<>>",
        "cutlass::device_kernel<flash::FlashAttnFwdSm90<>>",
    ],
    ["vllm::reshape_and_cache_kernel", "flash::flash_fwd_kernel<>", "vllm::paged_attention_v1_kernel<>"],
    ["store_kv_cache", "_fwd_kernel", "_fwd_grouped_kernel_stage1"],
    [
        "flashinfer::AppendPagedKVCacheKernel",
        "flashinfer::BatchPrefillWithRaggedKVCacheKernel",
        "flashinfer::BatchDecodeWithPagedKVCacheKernel",
    ],
    [
        "flashinfer::AppendPagedKVCacheKernel",
        "flashinfer::BatchPrefillWithPagedKVCacheKernel",
        "flashinfer::BatchPrefillWithPagedKVCacheKernel",
    ],
    ["vllm::reshape_and_cache_flash_kernel", "kernel_unified_attention_2d", "kernel_unified_attention_2d"],
    [
        "tensorrt_llm::applyBiasRopeUpdateKVCacheV2",
        "fmha_v2_flash_attention_bf16_64_128_S_q_paged_kv",
        "mmha::masked_multihead_attention_kernel",
    ],
    [
        "vllm::reshape_and_cache_kernel",
        "aiter::fmha_fwd_hd128_bf16_causal",
        "paged_attention_ll4mi_QKV_mfma16_kernel",
    ],
];

/// The kernels of attention of PyTorch alone, whose cache is two tensors that are copied.
pub const PLAIN_ATTENTION: [[&str; 3]; 3] = [
    [
        "at::native::CatArrayBatchedCopy<>",
        "pytorch_flash::flash_fwd_kernel<>",
        "pytorch_flash::flash_fwd_splitkv_kernel<>",
    ],
    [
        "at::native::CatArrayBatchedCopy<>",
        "fmha_cutlassF_bf16_aligned_64x128_rf_sm80",
        "fmha_cutlassF_bf16_aligned_64x128_rf_sm80",
    ],
    ["at::native::CatArrayBatchedCopy<>", "attn_fwd", "attn_fwd"],
];

const SERVING: [&str; 6] = [
    "vllm::fused_add_rms_norm_kernel",
    "vllm::rotary_embedding_kernel",
    "vllm::act_and_mul_kernel",
    "vllm::scaled_fp8_quant_kernel",
    "triton_poi_fused_add_0",
    "triton_red_fused_mean_1",
];
const PLAIN: [&str; 6] = [
    "at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add>",
    "at::native::vectorized_elementwise_kernel<4, MulFunctor>",
    "at::native::elementwise_kernel<128, direct_copy_kernel_cuda>",
    "at::native::reduce_kernel<512, MeanOps>",
    "at::native::vectorized_elementwise_kernel<4, silu_kernel>",
    "at::native::CatArrayBatchedCopy<>",
];
const BACKWARD: [&str; 6] = [
    "at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add>",
    "at::native::vectorized_elementwise_kernel<4, MulFunctor>",
    "at::native::elementwise_kernel<128, direct_copy_kernel_cuda>",
    "at::native::reduce_kernel<512, sum_functor>",
    "at::native::vectorized_elementwise_kernel<4, silu_backward_kernel>",
    "at::native::layer_norm_grad_input_kernel",
];
const ROUTING: [&str; 2] = ["vllm::moe::topkGatingSoftmax", "vllm::moe::moe_align_block_size_kernel"];
const SAMPLERS: [[&str; 3]; 3] = [
    [
        "at::native::reduce_kernel<512, ArgMaxOps>",
        "at::native::cunn_SoftMaxForward",
        "at::native::vectorized_gather_kernel",
    ],
    [
        "flashinfer::sampling::TopKTopPSamplingFromProbKernel",
        "at::native::cunn_SoftMaxForward",
        "at::native::index_elementwise_kernel",
    ],
    [
        "at::native::sampleMultinomialOnce",
        "at::native::radixSortKVInPlace",
        "at::native::cunn_SoftMaxForward",
    ],
];
const LOSSES: [&str; 3] = [
    "at::native::nll_loss_forward_reduce_cuda_kernel_2d",
    "at::native::cunn_SoftMaxForward",
    "at::native::reduce_kernel<512, sum_functor>",
];
const POOLING: [&str; 3] = [
    "at::native::reduce_kernel<512, NormTwoOps>",
    "at::native::vectorized_elementwise_kernel<4, div>",
    "at::native::elementwise_kernel<128, direct_copy_kernel_cuda>",
];
const OPTIMIZERS: [&str; 3] = [
    "at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>",
    "at::native::multi_tensor_apply_kernel<BinaryOpListAlphaFunctor>",
    "at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add>",
];

/// The names that a library and an engine use.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub attention: [&'static str; 3],
    pub is_plain: bool,
    /// Selects sampler and optimizer.
    pub seed: u64,
}

impl Style {
    /// Returns the name of a kernel by the numbers of [`crate::machine`].
    pub fn name(&self, kernel: u64, role: Role) -> String {
        let (number, tile) = if kernel >= 32 << 8 { (kernel >> 8, kernel & 0xff) } else { (kernel, 0) };
        let name = match (number, role) {
            (_, Role::Optimizer) => OPTIMIZERS[self.seed as usize % 3],
            (0..32, Role::Backward) => BACKWARD[number as usize % 6],
            (0..32, _) if self.is_plain || !matches!(role, Role::Generation | Role::Unified) => {
                PLAIN[number as usize % 6]
            }
            (0..32, _) => SERVING[number as usize % 6],
            (32..=35 | 70, _) if tile == 1 => "internal::gemvx::kernel",
            (32..=35 | 70, _) => return format!("sm90_xmma_gemm_bf16_tilesize{tile}x128x64_{number}"),
            (40, _) => "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
            (50..56, _) => ROUTING[number as usize % 2],
            (56..58, _) => "fused_moe_kernel",
            (60, Role::Generation | Role::Unified) => self.attention[0],
            (61 | 62, Role::Unified) => "kernel_unified_attention_2d",
            (60, _) => PLAIN[2],
            (61 | 62, Role::Backward) => "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel",
            (61 | 62, Role::Encoder | Role::TrainForward) => "pytorch_flash::flash_fwd_kernel<>",
            (61, _) => self.attention[1],
            (62, _) => self.attention[2],
            (_, Role::TrainForward | Role::Backward) => LOSSES[number as usize % 3],
            (_, Role::Encoder) => POOLING[number as usize % 3],
            (_, Role::Generation | Role::Unified) => SAMPLERS[self.seed as usize % 3][number as usize % 3],
        };
        name.to_owned()
    }
}
