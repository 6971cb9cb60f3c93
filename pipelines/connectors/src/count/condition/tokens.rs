//! The words of a condition.

/// One word.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// A name, perhaps with points.
    Word(&'a str),
    /// What stood between quotes.
    Text(String),
    Int(i64),
    Double(f64),
    Sign(&'a str),
    End,
    /// What begins no word.
    Wrong,
}

const SIGNS: [&str; 11] = ["==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", ","];

/// Reads words from the front of a text.
pub(super) struct Tokens<'a> {
    rest: &'a str,
    /// Where the last word began.
    last: &'a str,
    /// How many conditions the parser is within.
    pub(super) depth: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Tokens { rest: text, last: text, depth: 0 }
    }

    /// The text from the last word on.
    pub(super) fn last(&self) -> &'a str {
        self.last
    }

    pub(super) fn next(&mut self) -> Token<'a> {
        self.rest = self.rest.trim_start();
        self.last = self.rest;
        let (token, rest) = read(self.rest);
        self.rest = rest;
        token
    }

    /// Takes the next word if it is this one.
    pub(super) fn take(&mut self, token: Token<'_>) -> bool {
        let (before, last) = (self.rest, self.last);
        let is_this = self.next() == token;
        if !is_this {
            (self.rest, self.last) = (before, last);
        }
        is_this
    }
}

fn read(text: &str) -> (Token<'_>, &str) {
    let Some(first) = text.chars().next() else { return (Token::End, text) };
    if first == '"' {
        return read_text(text).unwrap_or((Token::Wrong, text));
    }
    if let Some(sign) = SIGNS.iter().find(|sign| text.starts_with(**sign)) {
        return (Token::Sign(sign), &text[sign.len()..]);
    }
    let is_number = first.is_ascii_digit() || first == '-' || first == '.';
    let belongs =
        |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.' || (is_number && "+-".contains(c));
    let end = text.find(|c| !belongs(c)).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let token = match (is_number, word.parse(), word.parse()) {
        (_, _, _) if word.is_empty() => Token::Wrong,
        (true, Ok(int), _) => Token::Int(int),
        (true, Err(_), Ok(double)) => Token::Double(double),
        (true, Err(_), Err(_)) => Token::Wrong,
        (false, ..) => Token::Word(word),
    };
    (token, rest)
}

/// A text in double quotes, with the escapes that Go's have and that are seen in conditions.
fn read_text(quoted: &str) -> Option<(Token<'_>, &str)> {
    let mut text = String::new();
    let mut rest = quoted.strip_prefix('"')?.char_indices();
    while let Some((at, c)) = rest.next() {
        match c {
            '"' => return Some((Token::Text(text), &quoted[at + 2..])),
            '\\' => text.push(match rest.next()?.1 {
                'n' => '\n',
                't' => '\t',
                c @ ('"' | '\\') => c,
                _ => return None,
            }),
            c => text.push(c),
        }
    }
    None
}
