//! Ranges of keys in the key table, and as problems of a section.

use std::collections::BTreeMap;

use super::*;
use crate::{Node, Optional, Section};

crate::section! {
    struct Outer {
        ..inner: Inner,
        share: f64 = 0.5 => in 0.0..=1.0,
        unused: i64 => in ..=9 => unused "never",
        list: Vec<Inner>,
        map: BTreeMap<String, Inner>,
        optional: Optional<Inner>,
    }

    struct Inner {
        wait: GoDuration = GoDuration::from_secs(1) => in POSITIVE,
        count: u32 = 2 => in 2..16,
    }
}

#[test]
fn ranges_are_shown_in_words() {
    let ranges: Vec<String> = keys::<Outer>().into_iter().map(|key| key.range).collect();
    assert_eq!(ranges, ["0 to 1", "9 or less", "", "", "", "more than 0s", "2 or more and less than 16"]);
}

#[test]
fn values_out_of_range_are_problems_with_their_paths() {
    for (json, want) in [
        (r#"{"share": 1, "count": 15, "optional": {}, "list": [{}], "map": {"a": {}}}"#, ""),
        (r#"{"share": 1.5}"#, "x::share: 1.5 is out of range: expected 0 to 1"),
        (r#"{"unused": 10}"#, "x::unused: 10 is out of range: expected 9 or less"),
        (r#"{"wait": 0}"#, "x::wait: 0s is out of range: expected more than 0s"),
        (
            r#"{"list": [{}, {"count": 1}]}"#,
            "x::list[1]::count: 1 is out of range: expected 2 or more and less than 16",
        ),
        (r#"{"map": {"a": {"wait": 0}}}"#, "x::map::a::wait: 0s is out of range: expected more than 0s"),
        (r#"{"optional": {"wait": 0}}"#, "x::optional::wait: 0s is out of range: expected more than 0s"),
        (r#"{"optional": {"enabled": false, "wait": 0}}"#, ""),
        (r#"{"count": -1}"#, "x::count: -1 is negative: expected 0 or more"),
    ] {
        let node: Node = serde_json::from_str(json).unwrap();
        let (_, problems) = Section::new("x", &node).read::<Outer>();
        let found = problems.finish().map_or_else(|error| error.to_string(), |()| String::new());
        assert_eq!(found.trim_start_matches("configuration: "), want, "{json}");
    }
}

crate::choice! {
    enum Size ignoring case {
        Small = "small",
        Large = "large",
    }
}

crate::section! {
    struct Sized {
        size: Size = Size::Small,
    }
}

#[test]
fn a_choice_may_ignore_case() {
    for (json, want) in
        [(r#"{"size": "LARGE"}"#, Ok(Size::Large)), (r#"{"size": "larg"}"#, Err("unsupported value"))]
    {
        let node: Node = serde_json::from_str(json).unwrap();
        match (Section::new("x", &node).decode::<Sized>(), want) {
            (Ok(sized), Ok(want)) => assert_eq!(sized.size, want),
            (Err(error), Err(want)) => assert!(error.to_string().contains(want), "{error}"),
            (got, _) => panic!("{json}: {:?}", got.map(|sized| sized.size)),
        }
    }
}
