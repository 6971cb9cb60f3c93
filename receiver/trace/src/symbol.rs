//! Probe rows by the names of calls in a trace.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use probe_abi::{PROBES, Probe};

/// Symbols of all rows and twins.
static SYMBOLS: LazyLock<BTreeMap<&'static str, (&'static Probe, bool)>> = LazyLock::new(|| {
    let own = PROBES.iter().map(|p| (p.symbol, (p, false)));
    let twins = PROBES.iter().filter_map(|p| Some((p.twin?, (p, true))));
    own.chain(twins).collect()
});

/// Returns the row of a call's name, and whether the name is that of its twin. CUPTI may append the version that
/// introduced the function, `_v3020`.
pub(super) fn probe_of(name: &str) -> Option<(&'static Probe, bool)> {
    let versioned =
        name.rsplit_once("_v").filter(|(_, v)| v.len() >= 4 && v.bytes().all(|b| b.is_ascii_digit()));
    let found = SYMBOLS.get(name).or_else(|| SYMBOLS.get(versioned?.0));
    found.copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_symbol_twin_and_versioned_name() {
        let found = |name| probe_of(name).map(|(p, is_twin)| (p.symbol, is_twin));
        assert_eq!(found("cudaMemcpyAsync"), Some(("cudaMemcpyAsync", false)));
        assert_eq!(found("cudaMemcpyAsync_v3020"), Some(("cudaMemcpyAsync", false)));
        assert_eq!(found("cudaMemcpyAsync_ptsz_v7000"), Some(("cudaMemcpyAsync", true)));
        assert_eq!(found("cuMemcpyHtoDAsync_v2"), Some(("cuMemcpyHtoDAsync_v2", false)));
        assert_eq!(found("cudaStreamIsCapturing"), None);
    }
}
