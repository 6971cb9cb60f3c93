//! Text with nested brackets, taken apart at the top level.

/// Cuts a text to a number of bytes, at the begin of a character.
pub(super) fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Returns the characters of a text that are in no brackets, and opening brackets, with their positions. Brackets of the names
/// of operators, and unbalanced ones, are no brackets.
pub(super) fn outside(text: &str) -> Vec<(usize, u8)> {
    let (mut open, mut outside) = (Open::default(), Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        let is_outside = open.stack.is_empty();
        match byte {
            b'(' | b'[' | b'{' => open.push(byte),
            b'<' if !ends_with_operator(&text.as_bytes()[..at]) => open.push(byte),
            b'>' if open.stack.last() == Some(&b'<') && !text.as_bytes()[..at].ends_with(b"-") => {
                open.pop(b'<')
            }
            b')' => open.pop(b'('),
            b']' => open.pop(b'['),
            b'}' => open.pop(b'{'),
            _ => {}
        }
        if is_outside {
            outside.push((at, byte));
        }
    }
    outside
}

/// The brackets that are open, and the number of each.
#[derive(Default)]
struct Open {
    stack: Vec<u8>,
    counts: [usize; 4],
}

impl Open {
    fn push(&mut self, bracket: u8) {
        self.stack.push(bracket);
        self.counts[kind(bracket)] += 1;
    }

    /// Closes the last open bracket of a kind and those within it.
    fn pop(&mut self, bracket: u8) {
        while self.counts[kind(bracket)] > 0 {
            let Some(last) = self.stack.pop() else { return };
            self.counts[kind(last)] -= 1;
            if last == bracket {
                return;
            }
        }
    }
}

/// Returns the index of the kind of an opening bracket.
fn kind(bracket: u8) -> usize {
    match bracket {
        b'(' => 0,
        b'<' => 1,
        b'[' => 2,
        _ => 3,
    }
}

fn ends_with_operator(text: &[u8]) -> bool {
    text.ends_with(b"operator") || text.ends_with(b"operator<")
}

/// Splits a text at a separator that is in no brackets.
pub(super) fn split<'t>(text: &'t str, separator: &str) -> Vec<&'t str> {
    let (mut parts, mut start) = (Vec::new(), 0);
    for (at, _) in outside(text) {
        if at >= start && text[..].as_bytes()[at..].starts_with(separator.as_bytes()) {
            parts.push(&text[start..at]);
            start = at + separator.len();
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Returns what is in the first brackets of a kind, without those after it; to the end if they are not closed.
pub(super) fn inside(text: &str, bracket: u8) -> Option<&str> {
    let outside = outside(text);
    let opening = outside.iter().position(|(_, byte)| *byte == bracket)?;
    let start = outside[opening].0 + 1;
    // The next character outside is the one after the closing bracket.
    let end = outside.get(opening + 1).map_or(text.len(), |(next, _)| *next);
    let content = &text[start..end];
    Some(content.strip_suffix(['>', ')', ']', '}']).unwrap_or(content))
}
