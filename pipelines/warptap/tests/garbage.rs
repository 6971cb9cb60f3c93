//! The loader with invalid input: random bytes, YAML tokens in random order, valid configurations with one damaged
//! section, and known attacks on YAML loaders. The tests check that loading terminates with a message; unit tests check
//! the messages. Proptest stores a failing case next to this file.

use proptest::prelude::*;
use warptap::hostile::check;

/// A configuration that uses every part of the syntax.
const WHOLE: &str = include_str!("../../../fuzz/seeds/config_loader/whole.yaml");

/// Tokens with a meaning to YAML, to the loader or to a component.
const WORDS: [&str; 64] = [
    " ",
    "  ",
    "\n",
    "\n  ",
    "\n    ",
    "\t",
    ":",
    ": ",
    ",",
    "- ",
    "? ",
    "{",
    "}",
    "[",
    "]",
    "'",
    "\"",
    "#",
    "&x ",
    "*x",
    "<<: ",
    "!!str ",
    "!!int ",
    "!x ",
    "|\n",
    ">-\n",
    "---\n",
    "...\n",
    "%YAML 1.2\n",
    "@",
    "`",
    "~",
    "null",
    "true",
    "yes",
    "0123",
    "0x1F",
    "1_000",
    ".inf",
    "-.5e3",
    "5s",
    "1h30m",
    "$",
    "$$",
    "${",
    "${env:A}",
    "${A}",
    "${file:f}",
    "${yaml:",
    ":-",
    "::",
    "a::b: ",
    "receivers:",
    "processors:",
    "exporters:",
    "service:",
    "pipelines:",
    "traces: ",
    "telemetry:",
    "otlp: ",
    "batch: ",
    "debug: ",
    "enabled: ",
    "\0",
];

fn words() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(&WORDS[..]), 0..60)
        .prop_map(|words| words.concat().into_bytes())
}

/// Generates the valid configuration with one section replaced by random tokens.
fn broken() -> impl Strategy<Value = Vec<u8>> {
    (0..WHOLE.len(), 0..20usize, words()).prop_map(|(start, length, mut middle)| {
        middle.truncate(12);
        let end = (start + length).min(WHOLE.len());
        [&WHOLE.as_bytes()[..start], &middle, &WHOLE.as_bytes()[end..]].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_handled(data in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&data);
    }

    #[test]
    fn random_tokens_are_handled(data in words()) {
        check(&data);
    }

    #[test]
    fn a_damaged_configuration_is_handled(data in broken()) {
        check(&data);
    }
}

/// Attacks by nesting, by repeated aliases, by size and by references to themselves.
#[test]
fn hostile_texts_are_handled() {
    let laughs = (1..40).fold("a0: &a0 [x]\n".to_owned(), |text, i| {
        format!("{text}a{i}: &a{i} [*a{0}, *a{0}, *a{0}]\n", i - 1)
    });
    let texts = [
        laughs,
        "[".repeat(100_000),
        "{a: ".repeat(100_000),
        "- ".repeat(100_000),
        "? ".repeat(50_000),
        "a: ".repeat(50_000),
        "'".repeat(100_001),
        "&a ".repeat(10_000),
        "!".repeat(100_000),
        format!("{}: 1", "a::".repeat(100_000)),
        format!("a: {}", "${".repeat(100_000)),
        format!("a: {}", "${env:A}".repeat(2_000)),
        format!("a: {}{}", "${env:".repeat(2_000), "}".repeat(2_000)),
        "a: ${A}\0${A}${A}".to_owned(),
        "a: ${A}\0[\"${A}\", \"${A}\"]".to_owned(),
        "a: ${file:f}\0\0{b: \"${file:f}\", c: \"${file:f}\"}".to_owned(),
        "\u{feff}a: 1".to_owned(),
        "a: \"\\ud800\\x00\\U00110000\"".to_owned(),
        format!("receivers: {{{}}}", (0..5_000).map(|i| format!("x{i}: null, ")).collect::<String>()),
    ];
    for text in texts {
        check(text.as_bytes());
    }
}
