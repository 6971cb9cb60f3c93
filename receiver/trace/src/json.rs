//! A streaming JSON reader: values that are not needed are skipped without being stored.
//!
//! Memory is one buffer and one string, whatever the input. Profiler traces have gigabytes, and their numbers have more
//! digits than a double, so numbers are returned as text. Deviations of real traces are accepted: bare words such as
//! `nan` and `inf` are scalars, and strings may contain control characters.

use std::io::Read;

use super::TraceError;

/// Bytes read at a time.
const BUFFER: usize = 64 * 1024;
/// Maximum nesting of objects and arrays.
const DEPTH: usize = 128;
/// Maximum bytes of a string; longer ones are cut.
const TEXT: usize = 16 * 1024;
/// Maximum characters of a number or word.
const SCALAR: usize = 64;

/// The kind of a value, known by its first byte.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Object,
    Array,
    Text,
    Scalar,
}

/// A reader of one JSON document.
pub(super) struct Json<'a> {
    input: Box<dyn Read + 'a>,
    buffer: Box<[u8]>,
    at: usize,
    end: usize,
    /// Bytes of the input before the buffer.
    before: u64,
    limit: u64,
    text: Vec<u8>,
}

impl<'a> Json<'a> {
    /// Returns a reader of at most `limit` bytes of `input`.
    pub(super) fn new(input: Box<dyn Read + 'a>, limit: u64) -> Json<'a> {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Json { input, buffer, at: 0, end: 0, before: 0, limit, text: Vec::new() }
    }

    /// Returns the offset of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    fn wrong(&self, expected: &'static str) -> TraceError {
        TraceError::Json { offset: self.offset(), expected }
    }

    /// Fills the buffer if it is empty; false at the end of the input.
    fn fill(&mut self) -> Result<bool, TraceError> {
        if self.at < self.end {
            return Ok(true);
        }
        self.before += self.end as u64;
        (self.at, self.end) = (0, 0);
        self.end = loop {
            match self.input.read(&mut self.buffer) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                other => break other.map_err(|source| TraceError::Read { offset: self.before, source })?,
            }
        };
        if self.before + self.end as u64 > self.limit {
            return Err(TraceError::TooLong { limit: self.limit });
        }
        Ok(self.end > 0)
    }

    fn peek(&mut self) -> Result<u8, TraceError> {
        match self.fill()? {
            true => Ok(self.buffer[self.at]),
            false => Err(TraceError::Truncated { offset: self.offset() }),
        }
    }

    fn next(&mut self) -> Result<u8, TraceError> {
        let byte = self.peek()?;
        self.at += 1;
        Ok(byte)
    }

    /// Returns the next byte that is not white space, without consuming it.
    fn peek_token(&mut self) -> Result<u8, TraceError> {
        loop {
            match self.peek()? {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                byte => return Ok(byte),
            }
        }
    }

    fn expect(&mut self, token: u8, expected: &'static str) -> Result<(), TraceError> {
        match self.peek_token()? {
            byte if byte == token => {
                self.at += 1;
                Ok(())
            }
            _ => Err(self.wrong(expected)),
        }
    }

    /// Returns the kind of the next value.
    pub(super) fn kind(&mut self) -> Result<Kind, TraceError> {
        match self.peek_token()? {
            b'{' => Ok(Kind::Object),
            b'[' => Ok(Kind::Array),
            b'"' => Ok(Kind::Text),
            b'-' | b'+' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => Ok(Kind::Scalar),
            _ => Err(self.wrong("a value")),
        }
    }

    /// Returns true if only white space is left.
    pub(super) fn is_at_end(&mut self) -> Result<bool, TraceError> {
        while self.fill()? {
            match self.buffer[self.at] {
                b' ' | b'\t' | b'\r' | b'\n' | 0 => self.at += 1,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Consumes the bracket at the start of an array.
    pub(super) fn begin_array(&mut self) -> Result<(), TraceError> {
        self.expect(b'[', "[")
    }

    /// Consumes the brace at the start of an object.
    pub(super) fn begin_object(&mut self) -> Result<(), TraceError> {
        self.expect(b'{', "{")
    }

    /// Advances to the next element of an array; false at its end. `first` is true before the first one.
    pub(super) fn next_element(&mut self, first: &mut bool) -> Result<bool, TraceError> {
        self.next_item(first, b']', ", or ]")
    }

    /// Advances to the next key of an object and consumes it with its colon; `None` at the end of the object.
    pub(super) fn next_key(&mut self, first: &mut bool) -> Result<Option<&[u8]>, TraceError> {
        if !self.next_item(first, b'}', ", or }")? {
            return Ok(None);
        }
        self.expect(b'"', "a key in quotes")?;
        self.take_text()?;
        self.expect(b':', ":")?;
        Ok(Some(&self.text))
    }

    fn next_item(&mut self, first: &mut bool, end: u8, expected: &'static str) -> Result<bool, TraceError> {
        let byte = self.peek_token()?;
        let is_first = std::mem::replace(first, false);
        if byte == end {
            self.at += 1;
            return Ok(false);
        }
        if is_first {
            return Ok(true);
        }
        if byte != b',' {
            return Err(self.wrong(expected));
        }
        self.at += 1;
        Ok(true)
    }

    /// Consumes a string or scalar and returns its text, within the bounds above; other values are skipped and return no
    /// text.
    pub(super) fn text(&mut self) -> Result<&[u8], TraceError> {
        match self.kind()? {
            Kind::Text => {
                self.at += 1;
                self.take_text()?;
            }
            Kind::Scalar => self.take_scalar()?,
            Kind::Object | Kind::Array => {
                self.skip()?;
                self.text.clear();
            }
        }
        Ok(&self.text)
    }

    fn take_scalar(&mut self) -> Result<(), TraceError> {
        self.text.clear();
        while self.fill()? {
            match self.buffer[self.at] {
                b @ (b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z') => self.text.push(b),
                _ => break,
            }
            if self.text.len() > SCALAR {
                return Err(self.wrong("a number of at most 64 characters"));
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Consumes the rest of a string after its first quote.
    fn take_text(&mut self) -> Result<(), TraceError> {
        self.text.clear();
        loop {
            self.peek()?;
            let plain = plain_length(&self.buffer[self.at..self.end]);
            let room = TEXT.saturating_sub(self.text.len()).min(plain);
            self.text.extend_from_slice(&self.buffer[self.at..self.at + room]);
            self.at += plain;
            if self.at == self.end {
                continue;
            }
            match self.next()? {
                b'"' => return Ok(()),
                _ => self.take_escape()?,
            }
        }
    }

    fn take_escape(&mut self) -> Result<(), TraceError> {
        let character = match self.next()? {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => self.take_unicode()?,
            other => char::from(other),
        };
        if self.text.len() < TEXT {
            let mut bytes = [0; 4];
            self.text.extend_from_slice(character.encode_utf8(&mut bytes).as_bytes());
        }
        Ok(())
    }

    /// Consumes four hexadecimal digits. Surrogates are read as U+FFFD: names do not contain any.
    fn take_unicode(&mut self) -> Result<char, TraceError> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = char::from(self.next()?).to_digit(16) else {
                return Err(self.wrong("four hexadecimal digits"));
            };
            code = code * 16 + digit;
        }
        Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    /// Skips the next value.
    pub(super) fn skip(&mut self) -> Result<(), TraceError> {
        let mut depth = 0usize;
        let mut objects = 0u128;
        loop {
            match self.peek_token()? {
                b'"' => {
                    self.at += 1;
                    self.skip_text()?;
                }
                open @ (b'{' | b'[') => {
                    if depth == DEPTH {
                        return Err(TraceError::TooDeep { offset: self.offset(), limit: DEPTH });
                    }
                    self.at += 1;
                    objects = objects << 1 | u128::from(open == b'{');
                    depth += 1;
                }
                close @ (b'}' | b']') => {
                    if depth == 0 || (objects & 1 == 1) != (close == b'}') {
                        return Err(self.wrong("the bracket that matches"));
                    }
                    self.at += 1;
                    objects >>= 1;
                    depth -= 1;
                }
                b',' | b':' if depth > 0 => {
                    self.at += 1;
                    continue;
                }
                _ => {
                    self.kind()?;
                    self.take_scalar()?;
                }
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn skip_text(&mut self) -> Result<(), TraceError> {
        loop {
            self.peek()?;
            self.at += plain_length(&self.buffer[self.at..self.end]);
            if self.at == self.end {
                continue;
            }
            match self.next()? {
                b'"' => return Ok(()),
                _ => self.next()?,
            };
        }
    }
}

/// Returns the number of bytes before the end of a string or its next escape.
fn plain_length(bytes: &[u8]) -> usize {
    bytes.iter().position(|b| matches!(b, b'"' | b'\\')).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests;
