//! Families of lanes.

use event::ProcessId;
use probe_abi::function::{one, word};

use super::*;

fn functions(symbols: impl IntoIterator<Item = &'static str>) -> Functions {
    let mut functions = Functions::default();
    for (ordinal, symbol) in symbols.into_iter().enumerate() {
        functions.observe(&GpuFunction {
            process: ProcessId::default(),
            ordinal: ordinal as u32,
            symbol: symbol.to_owned(),
            ..GpuFunction::default()
        });
    }
    functions
}

fn signature(lanes: &[(u32, u64)]) -> Signature {
    let mut signature = Signature::default();
    lanes.iter().for_each(|(lane, launches)| signature.0[word(*lane)] += one(*lane) * launches);
    signature
}

#[test]
fn launches_are_counted_by_family() {
    let functions = functions(["flash_fwd_kernel", "my_gemm", "", "other_gemm"]);
    let kernels = functions.kernels(&signature(&[(0, 24), (1, 3), (2, 5), (3, 4), (9, 1), (63, 2)]));
    assert_eq!((kernels.of(Family::Attention), kernels.of(Family::Gemm)), (24.0, 7.0));
    assert_eq!(kernels.of(Family::Unnamed), 8.0);
    assert!((kernels.named_share() - 31.0 / 39.0).abs() < 1e-6);
    assert!(functions.has(Family::Gemm) && !functions.has(Family::Gemv));
}

#[test]
fn families_of_a_shared_lane_are_possible() {
    let symbols = (0..63).map(|_| "my_gemm").chain(["flash_bwd_kernel", "more_gemm"]);
    let kernels = functions(symbols).kernels(&signature(&[(0, 10), (1, 10)]));
    assert_eq!((kernels.presence(Family::Gemm as usize), kernels.of(Family::Gemm)), (1.0, 15.0));
    assert_eq!((kernels.presence(Family::Backward as usize), kernels.of(Family::Backward)), (0.3, 5.0));
    assert!(!kernels.has(Family::Backward));
}

#[test]
fn a_name_may_arrive_later_and_ordinals_are_bounded() {
    let mut functions = functions([""]);
    assert_eq!(functions.kernels(&signature(&[(0, 1)])).named_share(), 0.0);
    let named = GpuFunction { symbol: "attn_fwd".to_owned(), ..GpuFunction::default() };
    functions.observe(&named);
    functions.observe(&GpuFunction { symbol: String::new(), ..named.clone() });
    assert_eq!(functions.kernels(&signature(&[(0, 1)])).named_share(), 1.0);
    functions.observe(&GpuFunction { ordinal: u32::MAX, ..named });
    assert!(functions.families.len() <= FUNCTIONS_MAX as usize);
}
