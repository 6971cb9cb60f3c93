//! The tokens of a condition.

/// A token of a condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    /// A name, which may contain dots.
    Word(&'a str),
    /// The contents of a quoted text.
    Text(String),
    Int(i64),
    Double(f64),
    Sign(&'a str),
    End,
    /// Text that is not a token.
    Wrong,
}

const SIGNS: [&str; 11] = ["==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", ","];

/// Reads tokens from the front of a text.
pub(crate) struct Tokens<'a> {
    rest: &'a str,
    /// The text from the start of the last token on.
    last: &'a str,
    /// The nesting depth of the parser.
    pub(crate) depth: usize,
}

impl<'a> Tokens<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        Tokens { rest: text, last: text, depth: 0 }
    }

    /// Returns the text from the start of the last token on.
    pub(crate) fn last(&self) -> &'a str {
        self.last
    }

    /// Reads the next token.
    pub(crate) fn next(&mut self) -> Token<'a> {
        self.rest = self.rest.trim_start();
        self.last = self.rest;
        let (token, rest) = read(self.rest);
        self.rest = rest;
        token
    }

    /// Reads the next token if it is this one.
    pub(crate) fn take(&mut self, token: Token<'_>) -> bool {
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

/// Reads a text in double quotes, with the escapes of Go for quotes, backslashes, tabs and newlines.
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
