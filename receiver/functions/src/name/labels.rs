//! Which template arguments say what a kernel computes.

/// Adapters, whose arguments are what they adapt: PyTorch's functors and loops over tensors, and Thrust's algorithms.
pub const WRAPPERS: [&str; 17] = [
    "AUnaryFunctor",
    "BUnaryFunctor",
    "BinaryFunctor",
    "ParallelForAgent",
    "ReduceOp",
    "UnaryFunctor",
    "__transform",
    "apply",
    "for_each_f",
    "func_wrapper_t",
    "gpu_index_kernel",
    "gpu_kernel_impl",
    "gpu_kernel_impl_nocast",
    "gpu_kernel_multiple_outputs_impl",
    "gpu_kernel_with_scalars",
    "launch_legacy_kernel",
    "opmath_gpu_kernel_with_scalars",
];

/// Types of elements, numbers and pointers, and containers of the standard library.
const DATA: [&str; 48] = [
    "Array",
    "BFloat16",
    "ColumnMajor",
    "GemmShape",
    "Half",
    "MatrixShape",
    "NullType",
    "OpaqueType",
    "RowMajor",
    "Sequence",
    "Tuple",
    "_Float16",
    "__half",
    "__half2",
    "__hip_bfloat16",
    "__int128",
    "__nv_bfloat16",
    "__nv_bfloat162",
    "array",
    "bool",
    "char",
    "comp_target",
    "complex",
    "decltype",
    "default_config",
    "double",
    "double2",
    "empty_type",
    "enable_if",
    "false",
    "float",
    "float2",
    "float4",
    "half",
    "half2",
    "int",
    "int2",
    "int4",
    "integral_constant",
    "long",
    "nullptr",
    "pair",
    "sequence",
    "short",
    "true",
    "tuple",
    "unsigned",
    "void",
];

/// Beginnings of names of types of elements.
const DATA_PREFIXES: [&str; 6] = ["Float4_", "Float8_", "__hip_fp8", "__nv_fp", "uint", "vec_"];

/// Ends of names of types that describe data, or how a kernel is compiled, and not what it computes.
const DATA_SUFFIXES: [&str; 26] = [
    "Accessor",
    "Calculator",
    "Cast",
    "Config",
    "Iterator",
    "Kargs",
    "Layout",
    "Metadata",
    "Params",
    "ParamsEx",
    "Policy",
    "PtrTraits",
    "Scaling",
    "Shape",
    "TileState",
    "Traits",
    "_config",
    "_config_selector",
    "_iterator",
    "_policy",
    "_ptr",
    "_selector",
    "_state",
    "_t",
    "_traits",
    "_wrapper",
];

/// Returns true for the name of an adapter, or of what enables a kernel for some architectures: `enable_sm90_or_later`.
pub(super) fn is_wrapper(name: &str) -> bool {
    let is_guard = name.strip_prefix("enable_").is_some_and(|rest| rest.contains("sm"));
    is_guard || WRAPPERS.binary_search(&name).is_ok()
}

/// Returns true for the names of types that nvcc makes of a lambda.
pub(super) fn is_lambda(name: &str) -> bool {
    name.starts_with("__nv_dl_") || name.starts_with("__nv_hdl_")
}

/// Returns true for the name of a type that says nothing about what a kernel computes.
pub fn is_data(name: &str) -> bool {
    let is_tuning = name.starts_with("Policy") && name.bytes().last().is_some_and(|b| b.is_ascii_digit());
    is_tuning
        || DATA.binary_search(&name).is_ok()
        || DATA_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || DATA_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted() {
        for rows in [&WRAPPERS[..], &DATA, &DATA_PREFIXES, &DATA_SUFFIXES] {
            assert!(rows.is_sorted(), "{rows:?}");
        }
    }
}
