//! A pull parser of JSON without an intermediate tree. It is strict about JSON, and lenient as OTLP requires: a
//! null field is unset, and unknown fields are ignored.

use std::borrow::Cow;

use crate::json::Message;

/// The maximum number of open brackets. A level of nested values takes three (`{"arrayValue":{"values":[`), of
/// which two are messages, so this equals the limit of 100 messages of protobuf decoders.
const DEPTH_MAX: usize = 150;

/// The reason why bytes are not OTLP JSON.
#[derive(Clone, Debug, thiserror::Error, Eq, PartialEq)]
#[error("at byte {at}: {what}")]
pub struct JsonError {
    at: usize,
    what: String,
    is_too_large: bool,
}

impl JsonError {
    pub(crate) fn new(at: usize, what: impl Into<String>) -> Self {
        JsonError { at, what: what.into(), is_too_large: false }
    }

    /// Returns true if the data would take too much memory.
    pub fn is_too_large(&self) -> bool {
        self.is_too_large
    }
}

/// A position in a JSON text.
#[derive(Debug)]
pub struct JsonReader<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    /// Memory for the messages that were read so far, without their texts.
    decoded_bytes: usize,
    decoded_bytes_max: usize,
}

impl<'a> JsonReader<'a> {
    /// Begins to read a text whose messages may take `decoded_bytes_max` bytes of memory.
    pub(crate) fn over(bytes: &'a [u8], decoded_bytes_max: usize) -> Self {
        JsonReader { bytes, at: 0, depth: 0, decoded_bytes: 0, decoded_bytes_max }
    }

    /// Returns the offset of the next value in bytes.
    pub(crate) fn at(&mut self) -> usize {
        self.space();
        self.at
    }

    /// Checks that only white space follows.
    pub(crate) fn end(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.fail("expected the end after the value"),
        }
    }

    /// Reads an object into a message. The last of duplicate fields is used.
    pub(crate) fn message<M: Message>(&mut self) -> Result<M, JsonError> {
        self.add(size_of::<M>())?;
        let mut message = M::default();
        self.nest(b'{', b'}', "an object", |reader| {
            let name = reader.text()?;
            reader.expect(b':', "':' after a name")?;
            if reader.take_word("null") || message.read_field(&name, reader)? {
                return Ok(());
            }
            reader.skip()
        })?;
        Ok(message)
    }

    fn add(&mut self, bytes: usize) -> Result<(), JsonError> {
        self.decoded_bytes = self.decoded_bytes.saturating_add(bytes);
        if self.decoded_bytes <= self.decoded_bytes_max {
            return Ok(());
        }
        let what = format!("decoded, the message takes more than {} bytes", self.decoded_bytes_max);
        Err(JsonError { is_too_large: true, ..JsonError::new(self.at, what) })
    }

    /// Reads a list; `item` reads each of its values.
    pub(crate) fn list(
        &mut self,
        item: impl FnMut(&mut Self) -> Result<(), JsonError>,
    ) -> Result<(), JsonError> {
        self.nest(b'[', b']', "a list", item)
    }

    /// Reads a comma-separated list between `open` and `close`.
    fn nest(
        &mut self,
        open: u8,
        close: u8,
        what: &str,
        mut item: impl FnMut(&mut Self) -> Result<(), JsonError>,
    ) -> Result<(), JsonError> {
        self.expect(open, what)?;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.fail(&format!("nested deeper than {DEPTH_MAX} brackets"));
        }
        if !self.take(close) {
            item(self)?;
            while self.take(b',') {
                item(self)?;
            }
            self.expect(close, &format!("',' or '{}'", char::from(close)))?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// Skips a value of any kind.
    fn skip(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            Some(b'{') => self.nest(b'{', b'}', "an object", |reader| {
                reader.text()?;
                reader.expect(b':', "':' after a name")?;
                reader.skip()
            }),
            Some(b'[') => self.nest(b'[', b']', "a list", Self::skip),
            Some(b'"') => self.text().map(drop),
            Some(b't' | b'f') => self.flag().map(drop),
            Some(b'n') if self.take_word("null") => Ok(()),
            _ => self.number().map(drop),
        }
    }

    /// Reads a string, which is borrowed if it has no escapes.
    pub(crate) fn text(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.expect(b'"', "a string")?;
        let plain = self.plain_run()?;
        if self.bytes.get(self.at) == Some(&b'"') {
            self.at += 1;
            return Ok(Cow::Borrowed(plain));
        }
        let mut text = plain.to_owned();
        while self.bytes.get(self.at) == Some(&b'\\') {
            self.at += 1;
            text.push(self.escape()?);
            text.push_str(self.plain_run()?);
        }
        match self.bytes.get(self.at) {
            Some(b'"') => self.at += 1,
            Some(_) => return self.fail("a control character in a string must be escaped"),
            None => return self.fail("the string has no end"),
        }
        Ok(Cow::Owned(text))
    }

    /// Returns the bytes up to a quote, a backslash, a control character or the end.
    fn plain_run(&mut self) -> Result<&'a str, JsonError> {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().position(|&b| b == b'"' || b == b'\\' || b < 0x20).unwrap_or(rest.len());
        let run = std::str::from_utf8(&rest[..len]);
        let run = run.map_err(|e| JsonError::new(self.at + e.valid_up_to(), "the string is no UTF-8"))?;
        self.at += len;
        Ok(run)
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let Some(&byte) = self.bytes.get(self.at) else { return self.fail("the string has no end") };
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return self.fail("unknown escape in a string"),
        })
    }

    /// Reads the text after `\u`: four hex digits, or two groups of them that form one character.
    fn unicode(&mut self) -> Result<char, JsonError> {
        let first = u32::from(self.four_digits()?);
        let is_half = (0xd800..0xdc00).contains(&first) && self.bytes[self.at..].starts_with(b"\\u");
        let mut code = Some(first);
        if is_half {
            self.at += 2;
            let second = u32::from(self.four_digits()?);
            let low = second.checked_sub(0xdc00).filter(|&low| low < 0x400);
            code = low.map(|low| 0x10000 + ((first - 0xd800) << 10) + low);
        }
        match code.and_then(char::from_u32) {
            Some(c) => Ok(c),
            None => self.fail("half of a surrogate pair in a string"),
        }
    }

    fn four_digits(&mut self) -> Result<u16, JsonError> {
        let digits = self.bytes.get(self.at..self.at + 4).filter(|d| d.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|d| std::str::from_utf8(d).ok());
        let Some(code) = digits.and_then(|d| u16::from_str_radix(d, 16).ok()) else {
            return self.fail("expected four hex digits after \\u");
        };
        self.at += 4;
        Ok(code)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, JsonError> {
        if self.take_word("true") {
            return Ok(true);
        }
        if self.take_word("false") {
            return Ok(false);
        }
        self.fail("expected true or false")
    }

    /// Reads a double: a number, a number in a string, or one of the three values for which JSON has no number.
    pub(crate) fn double(&mut self) -> Result<f64, JsonError> {
        let at = self.at();
        if self.peek() != Some(b'"') {
            return self.number_as(at);
        }
        match self.text()?.as_ref() {
            "NaN" => Ok(f64::NAN),
            "Infinity" => Ok(f64::INFINITY),
            "-Infinity" => Ok(f64::NEG_INFINITY),
            text => finite(text).ok_or_else(|| JsonError::new(at, format!("{text:?} is no number"))),
        }
    }

    fn number_as(&mut self, at: usize) -> Result<f64, JsonError> {
        let text = self.number()?;
        finite(text).ok_or_else(|| JsonError::new(at, format!("{text} is out of a double's range")))
    }

    /// Reads an integer, bare or in a string; `type_name` is the expected type in errors.
    pub(crate) fn whole_number<N: TryFrom<i128>>(&mut self, type_name: &str) -> Result<N, JsonError> {
        let at = self.at();
        let text = match self.peek() {
            Some(b'"') => self.text()?,
            _ => Cow::Borrowed(self.number()?),
        };
        let number = whole(&text).and_then(|n| N::try_from(n).ok());
        number.ok_or_else(|| JsonError::new(at, format!("{text:?} is no {type_name}")))
    }

    /// Returns the text of a number that follows JSON's grammar.
    fn number(&mut self) -> Result<&'a str, JsonError> {
        self.space();
        let rest = &self.bytes[self.at..];
        let len = rest.iter().position(|b| !matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
        let text = std::str::from_utf8(&rest[..len.unwrap_or(rest.len())]).unwrap_or_default();
        if !is_number(text) {
            return self.fail("expected a number");
        }
        self.at += text.len();
        Ok(text)
    }

    fn space(&mut self) {
        let rest = &self.bytes[self.at..];
        self.at += rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')).count();
    }

    fn peek(&mut self) -> Option<u8> {
        self.space();
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        self.space();
        let found = self.bytes[self.at..].starts_with(word.as_bytes());
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn expect(&mut self, byte: u8, what: &str) -> Result<(), JsonError> {
        if self.take(byte) {
            return Ok(());
        }
        self.fail(&format!("expected {what}"))
    }

    fn fail<T>(&self, what: &str) -> Result<T, JsonError> {
        Err(JsonError::new(self.at, what))
    }
}

/// Returns whether a text is a number in JSON's grammar: `-`, digits without a leading zero, a fraction, an
/// exponent.
fn is_number(text: &str) -> bool {
    let rest = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (rest, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    is_digits(whole)
        && (whole.len() == 1 || !whole.starts_with('0'))
        && fraction.is_none_or(is_digits)
        && exponent.is_none_or(|e| is_digits(e.strip_prefix(['+', '-']).unwrap_or(e)))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn finite(text: &str) -> Option<f64> {
    if !is_number(text) {
        return None;
    }
    text.parse().ok().filter(|v: &f64| v.is_finite())
}

/// Parses an integer, also in a form such as `1e3` or `2.0`, if a double represents it exactly.
fn whole(text: &str) -> Option<i128> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let number = finite(text).filter(|v| v.fract() == 0.0 && v.abs() <= EXACT)?;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and below 2^53")]
    Some(number as i128)
}
