//! Short names of real kernels, and properties of any.

use proptest::prelude::*;

use super::*;

/// A name, and its short form.
const NAMES: [(&str, &str); 41] = [
    // PyTorch, by a profiler.
    (
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
        "at::native::vectorized_elementwise_kernel<CUDAFunctor_add>",
    ),
    (
        "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&, at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> > const&)::{lambda(int)#1}>(int, T1)",
        "at::native::elementwise_kernel<MulFunctor>",
    ),
    (
        "void at::native::elementwise_kernel<(int)128, (int)4, void at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda() (instance 3)]::operator ()() const::[lambda() (instance 7)]::operator ()() const::[lambda(float) (instance 1)]>(at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>(int, T3)",
        "at::native::elementwise_kernel<direct_copy_kernel_cuda>",
    ),
    (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, float, 4, 4> >(at::native::ReduceOp<float>)",
        "at::native::reduce_kernel<sum_functor>",
    ),
    (
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<2>, at::native::(anonymous namespace)::BinaryOpScalarFunctor<float, 2, 1, 1>, std::multiplies<float>, float>(at::native::(anonymous namespace)::TensorListMetadata<2>)",
        "at::native::multi_tensor_apply_kernel<BinaryOpScalarFunctor, multiplies>",
    ),
    (
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>(float*, float const*, int, int, int, bool const*, int, bool)",
        "softmax_warp_forward",
    ),
    (
        "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, long, c10::BFloat16*, c10::BFloat16 const*, float, int, int)",
        "vllm::fused_add_rms_norm_kernel",
    ),
    (
        "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t, pytorch_flash::Flash_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t> >, false, false, false, false, false, true, false>(pytorch_flash::Flash_fwd_params)",
        "pytorch_flash::flash_fwd_kernel",
    ),
    (
        "void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, int, int>::Policy800, false, long, int, int, int>(int*, int*)",
        "cub::DeviceRadixSortOnesweepKernel",
    ),
    (
        "void rocprim::ROCPRIM_400400_NS::detail::trampoline_kernel<rocprim::ROCPRIM_400400_NS::default_config, rocprim::ROCPRIM_400400_NS::detail::transform_impl<true, int> >(int) [clone .kd]",
        "rocprim::detail::trampoline_kernel<transform_impl>",
    ),
    // PyTorch, by libtorch_cuda: the symbol of the host function, the registered name, and a stub's symbol.
    (
        "_ZN2at6nativeL29vectorized_elementwise_kernelILi8ENS0_13BUnaryFunctorIiii18__nv_hdl_wrapper_tILb0ELb1ELb0E11__nv_dl_tagIPFvRNS_18TensorIteratorBaseEEXadL_ZNS0_15binary_internal21div_trunc_kernel_cudaES6_EELj3EEFiiiEJEEEESt5arrayIPcLm2EELb0EEEviT0_T1_",
        "at::native::vectorized_elementwise_kernel<div_trunc_kernel_cuda>",
    ),
    (
        "_ZN2at6native29vectorized_elementwise_kernelILi8ENS0_13BUnaryFunctorIiiiZZZNS0_15binary_internal21div_trunc_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE_clEvENKUlvE1_clEvEUliiE_EESt5arrayIPcLm2EELb0EEEviT0_T1_",
        "at::native::vectorized_elementwise_kernel<div_trunc_kernel_cuda>",
    ),
    (
        "_ZN2at6native55_GLOBAL__N__f86471ef_22_ForeachBinaryOpList_cu_a911ec43L25multi_tensor_apply_kernelINS1_18TensorListMetadataILi2EEENS1_11CopyFunctorIN3c107complexIfEEhLi2ELi1ELi1EEEJNS0_4CopyIS8_hEEEEEvT_T0_DpT1_",
        "at::native::multi_tensor_apply_kernel<CopyFunctor, Copy>",
    ),
    // NCCL registers static kernels with the name of their file.
    (
        "__nv_static_32__d7e99391_10_onerank_cu_24390e2c__ZN43_GLOBAL__N__d7e99391_10_onerank_cu_24390e2c13oneRankReduceI13FuncPreMulSumI6__halfEEEvPvS4_mmb",
        "oneRankReduce<FuncPreMulSum>",
    ),
    ("_Z26__device_stub__Z6kernelPfPf", "kernel"),
    ("_Z21__device_stub__kernelPf", "kernel"),
    ("__device_stub__Z6kernelPf", "kernel"),
    ("_ZN2ns21__device_stub__kernelEPf.kd", "ns::kernel"),
    ("_Z28__wrapper__device_stub_emptyIiEvRPi", "empty"),
    ("_Z9vectorAddPKfS0_Pfi", "vectorAdd"),
    // Cut and malformed symbols.
    (
        "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiii",
        "cutlass::device_kernel<GemmUniversal>",
    ),
    ("_ZN3foo", "foo"),
    ("_Z", "_Z"),
    // Libraries of NVIDIA.
    (
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2>(cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2::Params)",
        "cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_tn>",
    ),
    (
        "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x32_stage4_warpsize2x2x1_tensor16x8x16_kernel",
        "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n",
    ),
    (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_segment_k_off",
    ),
    ("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", "ampere_bf16_s16816gemm_bf16_tn"),
    ("nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT", "nvjet_tst_bz_bias_TNT"),
    ("volta_sgemm_64x32_sliced1x4_tn", "volta_sgemm_tn"),
    (
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    ),
    (
        "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvSlidingOrChunkedCausalP16VarSeqQ128Kv128PersistentContext",
        "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvSlidingOrChunkedCausalP16VarSeqQ128Kv128Pers~f0beee49",
    ),
    // Generated kernels.
    ("triton_poi_fused_add_mul_12", "triton_poi_fused_add_mul"),
    ("triton_red_fused__to_copy_add_mean_3", "triton_red_fused__to_copy_add_mean"),
    ("triton__0d1d2d3d4d5d6d7d8d9d10d11d12d13d14", "triton"),
    ("_attn_fwd_0d1d2d34d5d6de7de8de9c10de", "_attn_fwd"),
    ("fused_kernel_1f0c9a7be2d34455", "fused_kernel"),
    ("loop_add_multiply_fusion_23", "loop_add_multiply_fusion"),
    (
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x96x128_MI16x16x1_SN_LDSB1_AFC1_AG0",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs",
    ),
    // Other languages and other text.
    ("core::ptr::drop_in_place::h0123456789abcdef", "core::ptr::drop_in_place"),
    ("my_blur_3x3_kernel", "my_blur_3x3_kernel"),
    ("ev\u{1b}[31mil\n\u{202e}kernel", "ev[31milkernel"),
];

#[test]
fn real_names_have_short_forms() {
    for (name, expected) in NAMES {
        assert_eq!(short(name), expected, "{name}");
        assert_eq!(short(expected), expected, "the short form of a short form");
    }
}

#[test]
fn functions_without_a_name_are_named_by_file_and_offset() {
    assert_eq!(unnamed("libfoo.so.1", 0x1234), "libfoo.so.1+0x1234");
    let long = unnamed(&"x".repeat(1_000), u64::MAX);
    assert!(long.len() <= LENGTH_MAX && long.ends_with("+0xffffffffffffffff"), "{long}");
    assert_eq!((short(""), short("\u{7}"), short("<>")), (UNKNOWN.into(), UNKNOWN.into(), "<>".into()));
}

#[test]
fn demangled_names_are_complete_and_other_names_unchanged() {
    assert_eq!(demangled("_Z9vectorAddPKfS0_Pfi"), "vectorAdd(float const*, float const*, float*, int)");
    assert_eq!(demangled("triton_poi_fused_add_mul_12"), "triton_poi_fused_add_mul_12");
}

/// Names that differ in types, tiles and numbers only are one; names of different operations are not.
#[test]
fn long_names_stay_apart() {
    let long = |last| format!("triton_poi_fused_{}{last}", "add_".repeat(40));
    assert_eq!(short(&long("mul_3")), short(&long("mul_17")));
    assert_ne!(short(&long("mul_3")), short(&long("sub_3")));
}

/// Each part of the symbol refers to the one before it twice, so that its text has 2^60 parts.
#[test]
fn symbol_that_expands_to_terabytes_is_cut() {
    let mut symbol = "_Z1fI1a".to_owned();
    symbol += "1bIS_S_E";
    let digit = |n: usize| char::from_digit(n as u32, 36).unwrap().to_ascii_uppercase();
    for n in 0..30 {
        symbol += &format!("1cIS{0}_S{0}_E", digit(n));
    }
    symbol += "EvT_T0_";
    let started = std::time::Instant::now();
    assert!(short(&symbol).len() <= LENGTH_MAX);
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}

#[test]
fn deep_and_unbalanced_brackets_are_read() {
    for text in ["<", "(", "a<", "a::", "_ZN", ">(", "x)]}>", "&(", "operator<"] {
        let name = text.repeat(INPUT_BYTES_MAX);
        assert!(short(&name).len() <= LENGTH_MAX, "{text}");
    }
}

/// Returns an alphabet of parts of names, of which a few make most rules apply.
fn part() -> impl Strategy<Value = String> {
    let parts = [
        "_Z",
        "N",
        "2at",
        "6native",
        "I",
        "E",
        "Li4E",
        "S_",
        "S0_",
        "St",
        "T_",
        "J",
        "Dp",
        "L",
        "XadL_Z",
        "K",
        "Ul",
        "v",
        "cl",
        "1f",
        "__nv_static_3_",
        "__device_stub__",
        "Z1fv",
        ".kd",
        "::",
        "<",
        ">",
        "(",
        ")",
        "{lambda()#1}",
        "operator()",
        " const",
        ", ",
        " ",
        "&",
        "*",
        "float",
        "MulFunctor",
        "BinaryFunctor",
        "__nv_dl_tag",
        "triton_",
        "_0d1d2",
        "_12",
        "fusion",
        "sm80_",
        "_128x64",
        "_kernel",
        "Cijk_",
        "_MT1",
        "cutlass_80_",
        "~",
        "_",
        "\u{1b}",
        "é",
        "(anonymous namespace)::",
    ];
    prop_oneof![4 => proptest::sample::select(parts.to_vec()).prop_map(str::to_owned), 1 => any::<String>()]
}

proptest! {
    #[test]
    fn any_text_has_a_short_form(parts in proptest::collection::vec(part(), 0..60)) {
        let name = parts.concat();
        let first = short(&name);
        prop_assert!(!first.is_empty() && first.len() <= LENGTH_MAX, "{first}");
        prop_assert!(!first.chars().any(char::is_control));
        prop_assert_eq!(short(&name), first);
    }

    /// Unbalanced text may need more passes than are made.
    #[test]
    fn short_forms_of_identifiers_are_stable(
        path in proptest::collection::vec("[a-zA-Z_][a-zA-Z0-9_]{0,30}", 1..6),
        labels in proptest::collection::vec("[a-zA-Z_][a-zA-Z0-9_]{0,50}", 0..4),
    ) {
        let labels = if labels.is_empty() { String::new() } else { format!("<{}>", labels.join(", ")) };
        let once = short(&format!("void {}{labels}(int, float*)", path.join("::")));
        prop_assert_eq!(short(&once), once);
    }
}

/// A profiler trace, of which the names of kernels are read.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Trace {
    trace_events: Vec<Event>,
}

#[derive(serde::Deserialize)]
struct Event {
    #[serde(default)]
    cat: String,
    #[serde(default)]
    name: String,
}

/// Returns the names of all kernels in the profiler traces that other tests replay, too; `None` if there are none.
fn traces() -> Option<std::collections::BTreeSet<String>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let files = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut names = std::collections::BTreeSet::new();
    for path in files.filter(|path| path.extension().is_some_and(|end| end == "gz")) {
        let reader =
            std::io::BufReader::new(flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()));
        let trace: Trace = serde_json::from_reader(reader).unwrap();
        let kernels = trace.trace_events.into_iter().filter(|event| event.cat.eq_ignore_ascii_case("kernel"));
        names.extend(kernels.map(|event| event.name));
    }
    Some(names)
}

/// Real names of kernels, where they are.
#[test]
fn names_of_real_traces_become_few() {
    let Some(names) = traces() else { return println!("skipped: no traces in shared/traces") };
    let short: std::collections::BTreeSet<String> = names.iter().map(|name| short(name)).collect();
    println!("{} distinct names of kernels become {} short ones", names.len(), short.len());
    assert!(short.len() * 3 < names.len() * 2 && short.iter().all(|name| name.len() <= LENGTH_MAX));
}
