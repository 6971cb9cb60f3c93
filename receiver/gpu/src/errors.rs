//! What an error number is called: the value of `error.type`.

mod names;

use probe_abi::{Library, Probe};

/// OpenTelemetry's value for an error that has no name of its own.
const OTHER: &str = "_OTHER";

/// The error's name in the header of the row's library; `None` where the call succeeded, or answered a query.
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
    fn an_error_is_called_as_its_library_calls_it() {
        check("cudaMalloc", 0, None);
        check("cudaMalloc", 2, Some("cudaErrorMemoryAllocation"));
        check("cuMemAlloc_v2", 2, Some("CUDA_ERROR_OUT_OF_MEMORY"));
        check("hipMalloc", 2, Some("hipErrorOutOfMemory"));
        check("cudaMalloc", 123_456, Some("_OTHER"));
    }

    #[test]
    fn not_ready_is_the_answer_to_a_query_and_an_error_elsewhere() {
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
