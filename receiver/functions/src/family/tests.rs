//! The table of rows: every example is matched by its row, and names of real programs are covered.

use std::collections::BTreeSet;

use super::*;

#[test]
fn the_first_row_that_matches_an_example_is_its_own() {
    let mut wrong = Vec::new();
    for (row, example) in ROWS.iter().flat_map(|row| row.examples.iter().map(move |example| (row, example))) {
        let first = ROWS.iter().find(|other| other.matches(example));
        match first.filter(|first| first.family == row.family && row.matches(example)) {
            Some(_) => {}
            None => wrong.push((row.pattern, *example, first.map(|by| by.pattern))),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_row_has_another_pattern() {
    assert!(ROWS.iter().all(|row| !row.examples.is_empty() && !row.source.is_empty()));
    let patterns: BTreeSet<&str> = ROWS.iter().map(|row| row.pattern).collect();
    assert_eq!(patterns.len(), ROWS.len());
}

#[test]
fn evidence_of_a_family_is_bounded() {
    for row in ROWS {
        let Says { trains, generates, decodes } = row.family.says();
        assert!([trains, generates, decodes].iter().all(|odds| odds.abs() <= SAYS_MAX), "{:?}", row.family);
    }
}

#[test]
fn names_without_a_row_are_other_and_empty_ones_unnamed() {
    assert_eq!(Family::of("my_kernel"), Family::Other);
    assert_eq!(Family::of(""), Family::Unnamed);
    assert!(Family::ALL.iter().enumerate().all(|(at, family)| *family as usize == at));
}

#[test]
fn special_names_precede_general_ones() {
    let rows = [
        ("_layer_norm_fwd_1pass_kernel", Family::Norm),
        ("void flash::flash_fwd_splitkv_kernel<>()", Family::PagedAttention),
        ("void cudnn::winograd_nonfused::winogradForwardOutput4x4<float, float>()", Family::Convolution),
        ("void cudnn::winograd_nonfused::winogradWgradOutput4x4<float, float>()", Family::Backward),
        ("triton_poi_fused_native_dropout_backward_1", Family::Backward),
    ];
    for (name, expected) in rows {
        assert_eq!(Family::of(name), expected, "{name}");
    }
}
