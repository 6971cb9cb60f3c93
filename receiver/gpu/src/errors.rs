//! The names of error codes: values of `error.type`.

mod names;

use probe_abi::{Library, Probe};

/// OpenTelemetry's value for an error without a name.
const OTHER: &str = "_OTHER";

/// Returns the name of the error in the header of the row's library; `None` if the call succeeded, or the result is
/// the answer to a query.
pub(crate) fn error_type(row: &Probe, result: u32) -> Option<&'static str> {
    row.cookie().has_failed(result).then(|| name(row.library, result))
}

fn name(library: Library, result: u32) -> &'static str {
    let names = match library {
        Library::Amdhip => names::HIP,
        Library::Cuda => names::CUDA,
        Library::Cudart => names::CUDART,
        Library::Nccl => names::NCCL,
    };
    names.binary_search_by_key(&result, |(number, _)| *number).map_or(OTHER, |at| names[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(symbol: &str, result: u32, want: Option<&str>) {
        let row = probe_abi::PROBES.iter().find(|p| p.symbol == symbol).unwrap();
        assert_eq!(error_type(row, result), want, "{symbol} {result}");
    }

    #[test]
    fn error_names_are_those_of_the_library() {
        check("cudaMalloc", 0, None);
        check("cudaMalloc", 2, Some("cudaErrorMemoryAllocation"));
        check("cuMemAlloc_v2", 2, Some("CUDA_ERROR_OUT_OF_MEMORY"));
        check("hipMalloc", 2, Some("hipErrorOutOfMemory"));
        check("cudaMalloc", 123_456, Some("_OTHER"));
    }

    #[test]
    fn not_ready_is_an_error_except_for_queries() {
        check("cudaEventQuery", 600, None);
        check("hipStreamQuery", 600, None);
        check("cudaStreamSynchronize", 600, Some("cudaErrorNotReady"));
    }

    #[test]
    fn names_are_sorted_by_number() {
        for names in [names::CUDA, names::CUDART, names::HIP] {
            assert!(names.windows(2).all(|w| w[0].0 < w[1].0));
        }
    }
}
