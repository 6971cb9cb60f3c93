//! Text from outside (names of files and processes, messages of peers) as it is shown on a terminal and in the log.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns the text with an escape such as `\u001b` for each character that a terminal obeys or that changes the order of the
/// characters around it.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        _ = match is_unsafe(c) {
            true => write!(shown, "\\u{:04x}", u32::from(c)),
            false => shown.write_char(c),
        };
    }
    Cow::Owned(shown)
}

/// Returns every line of the text as [`printable`] does.
pub(crate) fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

/// Control characters, and the marks and separators of Unicode's bidirectional text (UAX #9).
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped() {
        assert_eq!(
            printable("a\x1b[31mb\x07\r\n\u{9b}2J\u{202e}"),
            "a\\u001b[31mb\\u0007\\u000d\\u000a\\u009b2J\\u202e"
        );
        assert_eq!(printable("größe 東 \\n"), "größe 東 \\n");
        assert_eq!(printable_lines("a\x1b\nb\n"), "a\\u001b\nb\n");
    }

    proptest! {
        #[test]
        fn nothing_is_left_that_a_terminal_obeys(text: String) {
            prop_assert!(!printable(&text).chars().any(is_unsafe));
        }
    }
}
